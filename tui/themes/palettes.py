"""The palettes, the only colours in `tui/`.

A palette holds the roles of `ROLES`, chosen by hand for 24-bit colour and again for 256 colours, where blends are
inaccurate. With 16 colours or none, roles are not mixed but mapped by `line_filter.py` to the terminal's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

BASE_ROLES: Final = (
    *("primary", "secondary", "warning", "error", "success", "foreground", "background", "surface", "panel"),
)
# The backgrounds of changed lines, and of the words in them that changed.
CHANGE_ROLES: Final = ("added-line", "added-word", "removed-line", "removed-word")
MARKED_ROW: Final = "marked-row"  # the background of the row that has the cursor

_CUBE: Final = (0, 95, 135, 175, 215, 255)  # levels of the 6x6x6 cube that every terminal with 256 colours has
_CUBE_START: Final = 16
_GREY_START: Final = 232


class Palette(NamedTuple):
    """The colours of one theme: `truecolor` in the order of `BASE_ROLES`, all others being blends of them; `indexed`
    the numbers of `BASE_ROLES`, `CHANGE_ROLES` and the marked row among the 256. `selection`: its opacity."""

    truecolor: str
    indexed: str
    selection: str = "30%"

    def get_roles(self, *, is_indexed: bool) -> dict[str, str]:
        """Return the colours by role."""
        if is_indexed:
            colors = [format_indexed(int(number)) for number in self.indexed.split()]
            return dict(zip((*BASE_ROLES, *CHANGE_ROLES, MARKED_ROW), colors, strict=True))
        return dict(zip(BASE_ROLES, self.truecolor.split(), strict=True))


def format_indexed(number: int) -> str:
    """Return one of the colours 16 to 255 as #rrggbb."""
    if number >= _GREY_START:
        return f"#{8 + 10 * (number - _GREY_START):02x}" + f"{8 + 10 * (number - _GREY_START):02x}" * 2
    red, green, blue = ((number - _CUBE_START) // step % len(_CUBE) for step in (36, 6, 1))
    return f"#{_CUBE[red]:02x}{_CUBE[green]:02x}{_CUBE[blue]:02x}"


# By name; light palettes end with -light.
PALETTES: Final[Mapping[str, Palette]] = {
    "agent-dark": Palette(
        "#7aa2f7 #9d8cf0 #e0af68 #f7768e #8fc878 #d5d9e5 #14161c #1a1d25 #222632",
        "111 141 179 204 114 253 233 234 236  22 28 52 88  25",
    ),
    "agent-light": Palette(
        "#2f5fc4 #6b4fc9 #96610a #c0334d #3f7a2a #23262f #fbfbfa #f1f1ef #e6e6e3",
        "26 62 94 161 28 235 231 255 254  194 157 224 217  153",
        selection="25%",
    ),
    "contrast-dark": Palette(
        "#66ccff #d0a8ff #ffd500 #ff7a7a #5cff8a #ffffff #000000 #0d0d0d #222222",
        "81 183 220 210 84 231 16 233 236  22 28 52 88  24",
        selection="50%",
    ),
    "contrast-light": Palette(
        "#00389e #5a1fa8 #6b4400 #a3001f #00591a #000000 #ffffff #f2f2f2 #d9d9d9",
        "18 55 52 124 22 16 231 255 253  157 120 217 210  147",
        selection="35%",
    ),
    # Additions are blue and removals orange, for red-green colour blindness.
    "blue-orange-dark": Palette(
        "#6fd3d8 #b9a5f5 #ecd95b #f0883e #58a6ff #d5d9e5 #14161c #1a1d25 #222632",
        "80 141 221 208 75 253 233 234 236  18 25 94 130  23",
    ),
    "blue-orange-light": Palette(
        "#0f6a70 #6b4fc9 #6e5a00 #b54708 #0550ae #23262f #fbfbfa #f1f1ef #e6e6e3",
        "23 62 58 130 25 235 231 255 254  153 117 223 215  152",
        selection="25%",
    ),
}

# Backgrounds with a tint that a terminal of 256 colours draws as such; all others are its greys.
TINTS: Final[Mapping[bool, tuple[int, ...]]] = {
    True: (17, 18, 22, 24, 25, 28, 52, 53, 54, 58, 60, 88, 90, 94, 130),  # dark
    False: (153, 157, 183, 189, 194, 217, 223, 224, 225, 229),
}
# Backgrounds of `CHANGE_ROLES` for a theme without its own, as numbers of the 256.
CHANGES: Final[Mapping[bool, tuple[int, ...]]] = {True: (22, 28, 52, 88), False: (194, 157, 224, 217)}
