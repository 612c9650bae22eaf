"""The first frame: the greeting and the prompt, as text for the terminal, before Textual is loaded.

Its letters and colours equal those of Textual's first frame, so that the change is invisible. Nothing slow is imported:
neither Textual nor the engine. The status bar appears with the screen.
"""

from __future__ import annotations

import os
import sys
import termios
import textwrap
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from unicodedata import combining, east_asian_width

from tui.chat.greeting import FIRST_KEYS, HEADLINE, KEY_WIDTH, PROMISE
from tui.modes import SCREEN_MODES, Accent
from tui.terminal.capabilities import TerminalCapabilities, detect_capabilities
from tui.terminal.early_terminal import INPUT, OUTPUT, EarlyTerminal
from tui.themes.palettes import PALETTES

MIN_COLUMNS: Final = 41  # in a smaller window the screen displays a notice instead
MIN_ROWS: Final = 11
EDGE: Final = ("|", "▌")
ASCII_ELLIPSIS: Final = "~"  # as in `tui/themes/line_filter.py`
FAMILY: Final = "agent"
PROMPT_ROWS: Final = 3  # above the row of the status bar
MUTED_SHARE: Final = 0.6  # of the foreground over the background
DISABLED_SHARE: Final = 0.38  # of black or white over the surface
# Of the 16 colours of a terminal, on dark and on light; equal to the results of `tui/themes/line_filter.py`.
_NAMED: Final[dict[Accent, tuple[int, int]]] = {
    "primary": (94, 34),
    "warning": (93, 35),
    "error": (91, 31),
    "success": (92, 32),
}

_CUBE: Final = (0, 95, 135, 175, 215, 255)  # levels of the 256 colours
_CUBE_START: Final = 16
_GREY_START: Final = 232

_Color = tuple[int, int, int]


class Looks(NamedTuple):
    """The looks of the parts of the frame, as parameters of SGR."""

    blank: str
    strong: str
    muted: str
    key: str
    field: str
    edge: str
    written: str
    placeholder: str
    cursor: str


class FirstFrame:
    """The frame of a window of `size` (columns, rows). `theme`: the user's choice, "" = none that is known by now.
    `is_empty`: there is no conversation, so that it greets."""

    def __init__(
        self, size: tuple[int, int], looks: Looks, *, placeholder: str, edge: str, theme: str, is_empty: bool
    ) -> None:
        self.theme = theme
        self._columns, self._rows = size
        self._looks, self._edge = looks, edge
        self._placeholder, self._is_empty = placeholder, is_empty

    def render(self) -> str:
        """Return the whole frame, for a screen with unknown content."""
        looks, parts = self._looks, []
        room = self._rows - PROMPT_ROWS - 1  # the status bar
        greeting = self._list_greeting()[:room] if self._is_empty else []
        for y in range(self._rows):
            row = greeting[y] if y < len(greeting) else []
            length = sum(len(text) for text, _ in row)
            parts.append(f"\x1b[{y + 1};1H" + self._style([*row, (" " * (self._columns - length), looks.blank)]))
        return "".join(parts) + self.render_prompt("")

    def _list_greeting(self) -> list[list[tuple[str, str]]]:
        looks, margin = self._looks, ("  ", self._looks.blank)
        promise = textwrap.wrap(PROMISE, self._columns - 4)
        keys = [
            [margin, (f"{first_key.key:<{KEY_WIDTH}}", looks.key), (first_key.what, looks.muted)]
            for first_key in FIRST_KEYS
        ]
        head = [[], [margin, (HEADLINE, looks.strong)], *([margin, (line, looks.muted)] for line in promise), []]
        return [*head, *keys]

    def render_prompt(self, text: str) -> str:
        """Return the rows of the prompt with a text in it, as far as that fits on one row."""
        looks, first = self._looks, self._rows - PROMPT_ROWS
        bare = self._style([(" " * self._columns, looks.field)])
        room = self._columns - 3  # the edge and a blank on either side
        if text:
            visible_text = fit_cells(text, room - 1)
            inside = [(visible_text, looks.written), (" ", looks.cursor)]
            length = count_cells(visible_text) + 1
        else:
            visible_text = self._placeholder[: room - 1]
            inside = [(visible_text[:1], looks.cursor), (visible_text[1:], looks.placeholder)]
            length = len(visible_text)
        row = [(self._edge, looks.edge), (" ", looks.field), *inside, (" " * (room - length + 1), looks.field)]
        lines = (bare, self._style(row), bare)
        return "".join(f"\x1b[{y};1H{line}" for y, line in enumerate(lines, first))

    @staticmethod
    def _style(parts: list[tuple[str, str]]) -> str:
        return "".join(f"\x1b[{look}m{text}\x1b[0m" for text, look in parts if text)


class EarlyOptions(Protocol):
    """The part of a command line that the first frame depends on."""

    continue_last: bool
    resume: str | None
    mode: str | None


def open_early(options: EarlyOptions, config_directory: Path) -> AbstractContextManager[EarlyTerminal | None]:
    """Return the terminal with the first frame for the command line's options. None: the terminal can't display one,
    belongs to another process group, or a screen reader is used."""
    interface = _read_interface(config_directory / "config.toml")
    if not _is_whole_terminal() or interface.get("plain"):
        return nullcontext()
    try:
        size = os.get_terminal_size(OUTPUT)
        capabilities = detect_capabilities(os.environ, getattr(sys.__stderr__, "encoding", "") or "utf-8")
        is_empty = not (options.continue_last or options.resume)
        mode, theme = options.mode or "agent", str(interface.get("theme", ""))
        frame = build_first_frame(size, capabilities, mode=mode, theme=theme, is_empty=is_empty)
        return nullcontext() if frame is None else EarlyTerminal(frame)
    except (OSError, termios.error):
        return nullcontext()


def _is_whole_terminal() -> bool:
    if os.environ.get("TERM", "dumb") in {"dumb", "unknown"} or os.environ.get("TEXTUAL_DRIVER"):
        return False
    try:
        return all(map(os.isatty, (INPUT, 1, OUTPUT))) and os.tcgetpgrp(INPUT) == os.getpgrp()
    except OSError:
        return False


def _read_interface(file: Path) -> dict[str, Any]:
    """Return the user's settings of the screen; the engine reports mistakes in them."""
    if not file.is_file():
        return {}
    import tomllib

    try:
        interface = tomllib.loads(file.read_text("utf-8")).get("ui")
    except (OSError, ValueError, RecursionError):
        return {}
    return interface if isinstance(interface, dict) else {}


def build_first_frame(
    size: tuple[int, int], capabilities: TerminalCapabilities, *, mode: str, theme: str, is_empty: bool
) -> FirstFrame | None:
    """Build the frame of a window; None: the window is too small. A user's theme looks like the default until it is
    loaded."""
    columns, rows = size
    if columns < MIN_COLUMNS or rows < MIN_ROWS:
        return None
    screen_mode, variant = SCREEN_MODES[mode], "light" if capabilities.is_dark is False else "dark"
    theme_name = next((name for name in (theme, f"{theme}-{variant}") if name in PALETTES), "")
    looks = build_looks(capabilities, theme_name or f"{FAMILY}-{variant}", screen_mode.accent)
    edge, placeholder = EDGE[capabilities.has_unicode], screen_mode.placeholder
    if not capabilities.has_unicode:
        placeholder = placeholder.replace("…", ASCII_ELLIPSIS)
    theme = theme if theme_name else ""
    return FirstFrame(size, looks, placeholder=placeholder, edge=edge, theme=theme, is_empty=is_empty)


def build_looks(capabilities: TerminalCapabilities, name: str, accent: Accent) -> Looks:
    """Build the styles of a built-in theme on a terminal."""
    if capabilities.depth in {"16", "none"}:
        is_light = capabilities.is_dark is False
        return _build_named_looks(accent, is_light=is_light, has_colors=capabilities.depth == "16")
    is_indexed = capabilities.depth == "256"
    roles = {role: _read(color) for role, color in PALETTES[name].get_roles(is_indexed=is_indexed).items()}
    background, foreground, surface = roles["background"], roles["foreground"], roles["surface"]
    contrast = (0, 0, 0) if name.endswith("light") else (255, 255, 255)

    def format_look(ink: _Color, ground: _Color) -> str:
        return f"38;{_format_color(ink, is_indexed=is_indexed)};48;{_format_color(ground, is_indexed=is_indexed)}"

    return Looks(
        blank=format_look(foreground, background),
        strong=f"1;{format_look(foreground, background)}",
        muted=format_look(_blend(background, foreground, MUTED_SHARE), background),
        key=format_look(roles["primary"], background),
        field=format_look(foreground, surface),
        edge=format_look(roles[accent], surface),
        written=format_look(foreground, surface),
        placeholder=format_look(_blend(surface, contrast, DISABLED_SHARE), surface),
        cursor=format_look(background, foreground),
    )


def _build_named_looks(accent: Accent, *, is_light: bool, has_colors: bool) -> Looks:
    """Return looks on the background that the terminal has."""
    key, edge = (f"{_NAMED[role][is_light]};49" if has_colors else "39;49" for role in ("primary", accent))
    plain, dim = "39;49", "2;39;49"
    return Looks(plain, f"1;{plain}", dim, key, plain, edge, plain, dim, f"7;{plain}")


def _read(color: str) -> _Color:
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue


def _blend(under: _Color, over: _Color, share: float) -> _Color:
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(under, over, strict=True))
    return red, green, blue


def _format_color(color: _Color, *, is_indexed: bool) -> str:
    if not is_indexed:
        return "2;{};{};{}".format(*color)
    if color[0] == color[1] == color[2] and 0 < color[0] < 255:  # a grey
        return f"5;{_GREY_START + min(max(round((color[0] - 8) / 10), 0), 23)}"
    red, green, blue = (_CUBE.index(part) for part in color)  # only greys are blends
    return f"5;{_CUBE_START + 36 * red + 6 * green + blue}"


def count_cells(text: str) -> int:
    """Return the columns that a text takes."""
    return sum(0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text)


def fit_cells(text: str, columns: int) -> str:
    """Return as much of the start of a text as fits."""
    while count_cells(text) > columns:
        text = text[:-1]
    return text
