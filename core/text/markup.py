"""Markup in texts of models: fences of code as in CommonMark, and tags with attributes.

A fence has three or more backticks or tildes and is closed by at least as many; it may be indented at any depth and
follow a list marker. An opening tag has its attributes in any order, with double, single or no quotes, and with
entities.
"""

from __future__ import annotations

import html
import re

from msgspec import Struct

from core.patterns import compile_lazily

MAX_FENCE_LINE = 512  # characters; a longer line does not open a fence
LIST_MARKER = r"(?:[-*+]|\d{1,9}[.)])"
OPENING_FENCE = compile_lazily(
    rf"(?P<lead>[ \t]*(?:{LIST_MARKER}[ \t]+)?)(?:(?P<tick>`{{3,}})(?P<i>[^`]*)|(?P<tilde>~{{3,}})(?P<j>.*))"
)
_ATTRIBUTE = compile_lazily(r"""([A-Za-z_][\w:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|“([^”]*)”|([^\s"'>]+))""")

_TICKS = compile_lazily(r"`+")


class Fence(Struct, frozen=True):
    """An open fence: its mark, its indentation in columns, and its info string."""

    mark: str
    indent: int
    info: str = ""

    def may_be_closed_by(self, line: str) -> bool:
        """True if the start of a line may become one that closes the fence."""
        body = line.strip(" \t\r")
        if body.strip(self.mark[0]):
            return False
        return len(body) >= len(self.mark) or line == line.rstrip(" \t\r") or not body

    def is_closed_by(self, line: str) -> bool:
        """True if a whole line (without its ending) closes the fence."""
        body = line.strip(" \t\r")
        return len(body) >= len(self.mark) and not body.strip(self.mark[0])


def parse_opening_fence(line: str) -> Fence | None:
    """Parse the fence that a whole line (without its ending) opens; None if it opens none."""
    match = OPENING_FENCE.fullmatch(line)
    return build_fence(match) if match else None


def track_fence(fence: Fence | None, line: str) -> Fence | None:
    """Return the fence that is open after a whole line (without its ending); `fence` was open before it."""
    if fence is not None:
        return None if fence.is_closed_by(line) else fence
    return parse_opening_fence(line) if len(line) <= MAX_FENCE_LINE else None


def build_fence(match: re.Match[str]) -> Fence:
    """Return the fence of a match of `OPENING_FENCE`."""
    info = (match["i"] or match["j"] or "").strip()
    return Fence(match["tick"] or match["tilde"], len(match["lead"].expandtabs(4)), info)


def dedent_line(line: str, columns: int) -> str:
    """Return the line without up to `columns` columns of leading white space."""
    position = width = 0
    while position < len(line) and width < columns and line[position] in " \t":
        width += 1 if line[position] == " " else 4 - width % 4
        position += 1
    return line[position:]


def parse_attributes(text: str) -> dict[str, str]:
    """Parse attributes: names in lower case, values with entities resolved."""
    matches = _ATTRIBUTE.finditer(text)
    return {match[1].lower(): html.unescape(match[2] or match[3] or match[4] or match[5] or "") for match in matches}


def parse_open_tag(row: str, tag: str) -> dict[str, str] | None:
    """Return the attributes of the last tag of this name that the row opens; None if it opens none."""
    matches = re.findall(rf"<{re.escape(tag)}((?:\s[^<>]*)?)>", row, re.IGNORECASE)
    return parse_attributes(matches[-1]) if matches else None


def has_closing_tag(row: str, tag: str) -> bool:
    """True if the row closes a tag of this name."""
    return re.search(rf"</{re.escape(tag)}\s*>", row, re.IGNORECASE) is not None


def choose_fence(text: str, least: int = 3) -> str:
    """Return `least` or more backticks: more than stand in a row anywhere in a text, so that they can fence it."""
    return "`" * max(least, 1 + max(map(len, _TICKS.findall(text)), default=0))
