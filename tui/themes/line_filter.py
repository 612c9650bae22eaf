"""The last step before a row is written: its colours and signs are converted to those that the terminal supports.

Textual mixes 24-bit colours. A terminal with 256 colours gets the perceptually nearest one (CIE L*a*b*), and a tinted
background one of a list chosen by hand. A terminal with 16 gets its palette's colours by hue, on its background,
unmixed. Without colours, weight, dimness and inversion remain.

A sign's replacement is one column wide, so that nothing moves. A font that lacks our signs lacks them in foreign text,
too; copied text has the original signs.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import atan2, degrees, dist, hypot
from typing import Final

from rich.color import Color as TerminalColor
from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, Lab, rgb_to_lab
from textual.filter import LineFilter
from textual.strip import Strip

from tui.terminal.capabilities import ColorDepth
from tui.themes.palettes import CHANGE_ROLES, MARKED_ROW, TINTS, format_indexed

GREY_CHROMA: Final = 9.0  # below it a colour is a grey to the eye, in units of L*a*b*
TINT_CHROMA: Final = 11.0
FAR: Final = 15.0  # a background that differs by so much from the screen's marks something
SOLID: Final = 35.0
DIM_SHARE: Final = 0.7  # greys with less of the contrast of plain text are dim
MAX_STYLES: Final = 4_096

# Hues of L*a*b* in degrees at which one of the six colours of a terminal ends, and which follows.
_HUE_ENDS: Final = (52.0, 108.0, 165.0, 250.0, 296.0, 345.0)
_HUES: Final = (1, 3, 2, 6, 4, 5, 1)
_BLACK, _WHITE, _BRIGHT = 0, 15, 8
_YELLOW, _MAGENTA = 3, 5
_DARK_HUES: Final = (1, 4, 5)  # red, blue, magenta
_DEFAULT: Final = TerminalColor.default()

# All of our signs beyond ASCII, and their replacements.
_REPLACEMENTS: Final = {
    "─━┄╌—–−⎯": "-",
    "│┃▌▎▏▍▐▕¦": "|",
    "├┤┬┴┼╭╮╰╯┌┐└┘": "+",
    "▀▄█▒▓■▁▂▃▅▆▇▉▊▋▔": "#",
    "░": ".",
    "·•∙◌▪": ".",
    "…⋯": "~",
    "‹«←◂": "<",
    "›»→▸▶❯↗⇥": ">",
    "↑▴▲": "^",
    "↓▾▼": "v",
    "↳": "`",
    "⏎␊␍": "$",
    "≠": "!",
    "±": "~",
    "⊘✕✗×": "x",
    "✓☑": "v",
    "☐␣": "_",
    "▣◆●◉": "*",
    "○◯": "o",
    "◐": "%",
    "★⚑": "*",
    "“”❝": '"',
    "‘’": "'",
    "⠋⠇": "|",
    "⠙⠦": "/",
    "⠸⠴": "-",
}
ASCII: Final[dict[int, str]] = {ord(sign): plain for signs, plain in _REPLACEMENTS.items() for sign in signs}

# For screen readers: decoration whose name would be read aloud is silent, a sign with a meaning becomes a letter.
_SILENT: Final = "─━┄╌│┃▌▎▏▍▐▕├┤┬┴┼╭╮╰╯┌┐└┘▀▄█▒▓░▁▂▃▅▆▇▉▊▋▔⠋⠙⠸⠴⠦⠇•"
SPOKEN: Final[dict[int, str]] = ASCII | dict.fromkeys(map(ord, _SILENT), " ") | {ord("·"): ","}


class TerminalFilter(LineFilter):
    """Turns the colours of a theme into those of a terminal of another `depth`, and signs by the table `glyphs`."""

    def __init__(
        self, depth: ColorDepth, variables: Mapping[str, str], glyphs: Mapping[int, str], *, is_dark: bool
    ) -> None:
        super().__init__()
        self._glyphs = dict(glyphs)
        self._is_dark = is_dark
        convert: Mapping[ColorDepth, Callable[[Style], Style]] = {
            "truecolor": lambda style: style,
            "256": self._convert_to_indexed,
            "16": self._convert_to_named,
            "none": self._convert_to_attributes,
        }
        self._convert = convert[depth]
        self._styles: dict[tuple[object, ...], Style] = {}
        self._background, self._foreground = (_read(variables[name]) for name in ("background", "foreground"))
        self._changes = {_read(variables[name]): name for name in CHANGE_ROLES}
        self._chosen = {
            *self._changes,
            _read(variables[MARKED_ROW]),
        }  # chosen by hand among the 256, in the built-in themes
        hues = {"added": _read(variables["success"]), "removed": _read(variables["error"])}
        self._change_hues = {kind: _find_hue(_to_lab(color)) for kind, color in hues.items()}

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # as Textual has it
        """Return the segments as the terminal can show them."""
        return [
            Segment(self._translate(text), style and self._find(style), control) for text, style, control in segments
        ]

    def _translate(self, text: str) -> str:
        return text if text.isascii() or not self._glyphs else text.translate(self._glyphs)

    def _find(self, style: Style) -> Style:
        """Convert a style once for all styles that differ only in their position on the screen, which nearly all do."""
        key = (style.color, style.bgcolor, style._attributes, style._set_attributes)
        cached_style = self._styles.get(key)
        if cached_style is None:
            if len(self._styles) >= MAX_STYLES:
                self._styles.clear()
            cached_style = self._styles[key] = self._convert(style.clear_meta_and_links())
            Strip.render_ansi(cached_style, COLOR_SYSTEMS["truecolor"])  # which it keeps, and its copies have
        if style._meta is None and style._link is None:
            return cached_style
        linked_style = cached_style.copy()
        linked_style._meta, linked_style._link, linked_style._link_id = style._meta, style._link, style._link_id
        return linked_style

    def _convert_to_indexed(self, style: Style) -> Style:
        ink, ground = _get_triplet(style.color), _get_triplet(style.bgcolor)
        return style + Style.from_color(
            None if ink is None else TerminalColor.from_ansi(find_nearest(ink)),
            None if ground is None else TerminalColor.from_ansi(self._find_ground(ground)),
        )

    def _find_ground(self, color: Color) -> int:
        if color in self._chosen:
            return find_nearest(color)
        lab, screen = _to_lab(color), _to_lab(self._background)
        if hypot(lab.a - screen.a, lab.b - screen.b) < TINT_CHROMA:
            return find_nearest(color, greys=True)
        if _measure(lab, screen) > SOLID:
            return find_nearest(color)
        return min(TINTS[self._is_dark], key=lambda number: _measure_tint(lab, _to_lab(_read(format_indexed(number)))))

    def _convert_to_named(self, style: Style) -> Style:
        ink, ground = _get_triplet(style.color), _get_triplet(style.bgcolor)
        if ink is None and ground is None:  # of a theme that names its colours itself
            return style
        if ground in self._changes:
            return self._mark_change(style, self._changes[ground])
        if ground is None or _measure(_to_lab(ground), _to_lab(self._background)) < FAR:
            return self._color_text(style, ink)
        lab = _to_lab(ground)
        if _get_chroma(lab) < GREY_CHROMA:
            is_inverse = abs(lab.L - _to_lab(self._foreground).L) < FAR
            return _paint(style, "reverse") if is_inverse else _paint(style, ink=_WHITE, ground=_BRIGHT)
        return _paint(style, ink=_find_ink(hue := _find_hue(lab)), ground=hue)

    def _mark_change(self, style: Style, role: str) -> Style:
        kind, _, part = role.partition("-")
        hue = self._change_hues[kind]
        if part == "line":
            return _paint(style, ink=self._choose_ink(hue))
        return _paint(style, "bold", ink=_find_ink(hue), ground=hue)

    def _choose_ink(self, hue: int) -> int:
        """Return the number of a hue as text: the bright one on dark, and on light none that is as light itself."""
        return hue + _BRIGHT if self._is_dark else _MAGENTA if hue == _YELLOW else hue

    def _color_text(self, style: Style, ink: Color | None) -> Style:
        if ink is None:
            return _paint(style)
        lab = _to_lab(ink)
        if _get_chroma(lab) >= GREY_CHROMA + 6:
            return _paint(style, ink=self._choose_ink(_find_hue(lab)))
        return _paint(style, "dim" if self._is_muted(lab) else "")

    def _is_muted(self, lab: Lab) -> bool:
        plain, screen = _to_lab(self._foreground), _to_lab(self._background)
        return abs(lab.L - screen.L) < DIM_SHARE * abs(plain.L - screen.L)

    def _convert_to_attributes(self, style: Style) -> Style:
        ink, ground = _get_triplet(style.color), _get_triplet(style.bgcolor)
        if ground in self._changes:
            return _paint(style, "" if self._changes[ground].endswith("line") else "bold underline")
        if ground is not None and _measure(_to_lab(ground), _to_lab(self._background)) >= FAR:
            return _paint(style, "reverse")
        lab = None if ink is None else _to_lab(ink)
        is_dim = lab is not None and _get_chroma(lab) < GREY_CHROMA + 6 and self._is_muted(lab)
        return _paint(style, "dim" if is_dim else "")


def _paint(style: Style, attributes: str = "", *, ink: int | None = None, ground: int | None = None) -> Style:
    """Return a style in the terminal's palette colours, with further attributes."""
    colors = Style.from_color(
        _DEFAULT if ink is None else TerminalColor.from_ansi(ink),
        _DEFAULT if ground is None else TerminalColor.from_ansi(ground),
    )
    return style + colors + Style.parse(attributes) if attributes else style + colors


@lru_cache(maxsize=256)
def _read(color: str) -> Color:
    return Color(*Color.parse(color).rgb)


def _get_triplet(color: TerminalColor | None) -> Color | None:
    """Return a 24-bit colour; None for the terminal's own."""
    return None if color is None or color.triplet is None else Color(*color.triplet)


@lru_cache(maxsize=MAX_STYLES)
def _to_lab(color: Color) -> Lab:
    return rgb_to_lab(color)


def _get_chroma(lab: Lab) -> float:
    return hypot(lab.a, lab.b)


def _measure(one: Lab, other: Lab) -> float:
    return dist((one.L, one.a, one.b), (other.L, other.a, other.b))


def _measure_tint(one: Lab, other: Lab) -> float:
    """Measure the distance of two dark or light tints by hue, and by lightness for equal hues."""
    turn = abs(_get_hue(one) - _get_hue(other))
    return min(turn, 360 - turn) + abs(one.L - other.L)


def _get_hue(lab: Lab) -> float:
    return degrees(atan2(lab.b, lab.a)) % 360


def _find_hue(lab: Lab) -> int:
    """Return the one of a terminal's six colours that a colour looks like."""
    return _HUES[bisect(_HUE_ENDS, _get_hue(lab))]


def _find_ink(hue: int) -> int:
    return _WHITE if hue in _DARK_HUES else _BLACK


@lru_cache(maxsize=MAX_STYLES)
def find_nearest(color: Color, *, greys: bool = False) -> int:
    """Return the number of the colour 16 to 255 that looks most like this one; with `greys`, of those without hue."""
    numbers = (16, 231, *range(232, 256)) if greys else range(16, 256)
    target = _to_lab(color)
    return min(numbers, key=lambda number: _measure(target, _to_lab(_read(format_indexed(number)))))
