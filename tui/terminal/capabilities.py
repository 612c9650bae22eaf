"""The terminal's capabilities, read from the environment: colours, signs, and multiplexers.

The driver asks for those that only the terminal itself knows (its background).
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

ColorDepth = Literal["truecolor", "256", "16", "none"]
Multiplexer = Literal["", "tmux", "screen"]
TMUX_TIMEOUT: Final = 2.0  # seconds
OwnForm = Literal["osc9", "osc777", "osc99", ""]

_TRUE_TERMINALS: Final = ("-direct", "xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour")
# Identification of terminals, and the notification protocol of each. Others get a bell.
_FORMS: Final[tuple[tuple[str, str, OwnForm], ...]] = (
    ("KITTY_WINDOW_ID", "", "osc99"),
    ("TERM", "kitty", "osc99"),
    ("TERM", "foot", "osc777"),
    ("TERM", "rxvt-unicode", "osc777"),
    ("TERM", "ghostty", "osc777"),
    ("TERM_PROGRAM", "ghostty", "osc777"),
    ("TERM_PROGRAM", "WezTerm", "osc777"),
    ("TERM_PROGRAM", "WarpTerminal", "osc777"),
    ("VTE_VERSION", "", "osc777"),
    ("TERM_PROGRAM", "iTerm", "osc9"),
    ("LC_TERMINAL", "iTerm", "osc9"),
    ("WT_SESSION", "", "osc9"),
    ("ConEmuPID", "", "osc9"),
)
_PROGRESS: Final = (
    *(("WT_SESSION", ""), ("ConEmuPID", ""), ("TERM_PROGRAM", "ghostty"), ("TERM_PROGRAM", "WezTerm")),
    *(("TERM", "ghostty"), ("TERM_PROGRAM", "iTerm"), ("LC_TERMINAL", "iTerm"), ("KONSOLE_VERSION", "")),
)


class TerminalCapabilities(NamedTuple):
    """`has_unicode`: the locale's encoding has all of our signs. `is_dark` None: unknown. `form`: the terminal's
    notification protocol, "" = none; `has_progress`: it displays the progress of a tab."""

    depth: ColorDepth
    has_unicode: bool = True
    is_dark: bool | None = None
    multiplexer: Multiplexer = ""
    form: OwnForm = ""
    has_progress: bool = False


def detect_capabilities(environment: Mapping[str, str] = os.environ, encoding: str = "utf-8") -> TerminalCapabilities:
    """Detect the capabilities of the terminal; `encoding` is that of the file it is written to."""
    return TerminalCapabilities(
        depth=_detect_depth(environment),
        has_unicode=_is_unicode(encoding) and not _is_plain_locale(environment),
        is_dark=_read_background(environment.get("COLORFGBG", "")),
        multiplexer=detect_multiplexer(environment),
        form=next((form for name, word, form in _FORMS if _is_indicated(environment, name, word)), ""),
        has_progress=any(_is_indicated(environment, name, word) for name, word in _PROGRESS),
    )


def _is_indicated(environment: Mapping[str, str], name: str, word: str) -> bool:
    value = environment.get(name, "")
    return bool(value) and word.lower() in value.lower()


def _detect_depth(environment: Mapping[str, str]) -> ColorDepth:
    """Return the number of colours. NO_COLOR counts unless it is empty (no-color.org)."""
    term = environment.get("TERM", "").lower()
    if environment.get("NO_COLOR") or term in {"dumb", "unknown", "vt100", "vt220"}:
        return "none"
    if environment.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return "truecolor"
    if any(name in term for name in _TRUE_TERMINALS) or environment.get("WT_SESSION"):
        return "truecolor"
    return "256" if "256" in term else "16"


def _is_plain_locale(environment: Mapping[str, str]) -> bool:
    """True if the locale explicitly requests ASCII, or the terminal is a console with one small font. Python and
    most terminals use UTF-8 if the locale is missing."""
    return environment.get("LC_ALL", "") in {"C", "POSIX"} or environment.get("TERM") == "linux"


def _is_unicode(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name.startswith("utf")
    except LookupError:
        return False


def _read_background(value: str) -> bool | None:
    """Return True for a dark background of COLORFGBG, such as "15;0" or "0;default;15"."""
    last = value.rpartition(";")[2]
    if not last.isdecimal() or int(last) > 15:
        return None
    return int(last) < 7 or int(last) == 8


def detect_multiplexer(environment: Mapping[str, str] = os.environ) -> Multiplexer:
    if environment.get("TMUX"):
        return "tmux"
    return "screen" if environment.get("STY") else ""


async def find_real_depth(capabilities: TerminalCapabilities) -> ColorDepth:
    """Return the colour depth behind tmux, which forwards the outer terminal's COLORTERM but converts colours it
    believes unsupported; without tmux return the detected depth."""
    if capabilities.multiplexer != "tmux" or capabilities.depth != "truecolor":
        return capabilities.depth
    import asyncio  # which the first frame does without

    try:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "display-message", "-p", "#{client_termfeatures}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(TMUX_TIMEOUT):
            output, _ = await process.communicate()
    except (OSError, TimeoutError):
        return capabilities.depth
    features = output.decode("utf-8", "replace").strip().split(",")
    return "truecolor" if "RGB" in features or not any(features) else "256"
