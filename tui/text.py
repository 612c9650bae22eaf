"""The one door for foreign text: what models, tools, files, paths and errors say becomes harmless here, and only here.

Nothing that leaves this module can move the cursor, reorder or hide text, or mean anything to a markup parser.
`arm_renderer` is the second lock behind the door: it looks at what is about to be written to the terminal.
"""

from __future__ import annotations

import re
from typing import Final

from textual.content import Content
from textual.strip import Strip

from core import names
from core.names import ELLIPSIS, HIDDEN, exposed

__all__ = [
    "ELLIPSIS",
    "LINE_LIMIT",
    "TAB_SIZE",
    "arm_renderer",
    "clean",
    "console",
    "exposed",
    "named",
    "one_line",
    "plain",
    "seen",
    "shortened",
]

TAB_SIZE: Final = 4
LINE_LIMIT: Final = 2_000

# CSI, the string commands (OSC, DCS, APC, PM, SOS; only when they end, so that none can swallow a page), two-byte ones.
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_EMOJI_JOINT = re.compile("(?<=[^\x00-\u1fff])\u200d(?=[^\x00-\u1fff])")
_ON_THE_WIRE = re.compile(f"[{HIDDEN}\n\t]")
_NEVER_DRAWN = re.compile(f"[{HIDDEN}]")


def clean(text: str) -> str:
    """Like `exposed`, but terminal sequences (colours, titles, links) are left out and tabs are expanded."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub("", text)
    if "\u200d" in text:
        text = _EMOJI_JOINT.sub("", text)
    text = exposed(text)
    return text.expandtabs(TAB_SIZE) if "\t" in text else text


def console(text: str) -> str:
    """What a program printed, as a terminal would leave it: carriage returns overwrite their line."""
    if "\r" in text:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return clean(text)


def shortened(text: str, limit: int = LINE_LIMIT) -> str:
    """`text` with each line at most `limit` characters long; what was left out is counted at the line's end."""
    if len(text) <= limit:
        return text
    return "\n".join(
        line if len(line) <= limit else f"{line[:limit]}{ELLIPSIS} ({len(line) - limit:,} more characters)"
        for line in text.split("\n")
    )


def one_line(text: str, width: int = 200) -> str:
    """`text` on one line of at most `width` characters: white space is one space, the end may be an ellipsis."""
    if len(text) > 8 * width:
        text = text[: 8 * width]
    line = " ".join(clean(text).split())
    return line if len(line) <= width else line[: max(width - 1, 0)] + ELLIPSIS


def named(path: str, width: int = 400) -> str:
    """The name of a file as it is judged, on one line of at most `width` characters; see `core.names.named`."""
    return names.named(path, width)


def seen(text: str) -> str:
    """`text` with every hidden character replaced by one visible one, so that positions in it stay what they are."""
    return text if text.isascii() and text.isprintable() else _NEVER_DRAWN.sub("\ufffd", text)


def plain(text: str, style: str = "") -> Content:
    """Foreign text as literal content: brackets are brackets. `style` is ours, a theme variable or a Textual style."""
    return Content.styled(shortened(clean(text)), style) if style else Content(shortened(clean(text)))


def _guarded(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return _ON_THE_WIRE.sub("\ufffd", text)


def arm_renderer() -> None:
    """Make Textual itself unable to write a control or hidden character from content. Safe to call twice."""
    if getattr(Strip, "_is_armed", False):
        return
    render = Strip.render

    def render_guarded(self: Strip, console: object) -> str:
        if self._render_cache is None:
            for index, segment in enumerate(self._segments):
                text, style, control = segment
                if (harmless := _guarded(text)) is not text and harmless != text:
                    self._segments[index] = type(segment)(harmless, style, control)
                if style is not None and style.link and _guarded(style.link) != style.link:
                    self._segments[index] = type(segment)(harmless, style.update_link(None), control)
        return render(self, console)  # type: ignore[arg-type]

    Strip.render = render_guarded  # type: ignore[method-assign]
    Strip._is_armed = True  # type: ignore[attr-defined]
