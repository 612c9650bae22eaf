"""Positions of the protocol in a text: its lines and offsets, in the units that a server counts in, and ours.

Whatever a server says is brought into the text: a line behind the end is the end, a column behind a line is its end.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: Final[tuple[Encoding, ...]] = ("utf-32", "utf-8", "utf-16")  # in the order in which they are wanted
_CODECS: Final = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}  # bytes of a unit
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class Position(Struct, frozen=True):
    """A place in a text: 0-indexed line, and units of the encoding before it in the line."""

    line: int = 0
    character: int = 0


class Range(Struct, frozen=True):
    start: Position = Position()
    end: Position = Position()


def split_text(text: str) -> list[str]:
    """Return the lines of a text as the protocol counts them, without their ends."""
    return _LINE_END.split(text)


class LineTable:
    """The lines of a text as the protocol counts them: CR, LF and CRLF end one."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._text, self._encoding = text, encoding
        self._encoded: dict[int, bytes] = {}
        ends = list(_LINE_END.finditer(text))
        self._starts = [0, *(each.end() for each in ends)]
        self._stops = [*(each.start() for each in ends), len(text)]

    def list_lines(self) -> list[str]:
        """The lines without their ends."""
        return [self._text[start:stop] for start, stop in zip(self._starts, self._stops, strict=True)]

    def get_line(self, line: int) -> str:
        """The text of a 0-indexed line; "" behind the end."""
        return self._text[self._starts[line] : self._stops[line]] if 0 <= line < len(self._starts) else ""

    def find_offset(self, position: Position) -> int:
        """The offset of a position in the text, in characters."""
        if position.line < 0:
            return 0
        if position.line >= len(self._starts):
            return len(self._text)
        return self._starts[position.line] + self._count_characters(position)

    def find_place(self, position: Position) -> tuple[int, int]:
        """The 1-indexed line and column, in characters."""
        last = len(self._starts) - 1
        if position.line > last:
            return last + 1, len(self.get_line(last)) + 1
        line = max(0, position.line)
        return line + 1, (self._count_characters(position) if position.line >= 0 else 0) + 1

    def find_position(self, line: int, column: int) -> Position:
        """The position of a 1-indexed line and column, in characters."""
        body = self.get_line(line - 1)[: max(0, column - 1)]
        return Position(line - 1, len(body) if self._encoding == "utf-32" else _count_units(body, self._encoding))

    def _count_characters(self, position: Position) -> int:
        body, units = self.get_line(position.line), max(0, position.character)
        if self._encoding == "utf-32" or body.isascii():
            return min(units, len(body))
        codec, width = _CODECS[self._encoding]
        if position.line not in self._encoded:  # of a long line very many places may be asked for
            self._encoded[position.line] = body.encode(codec, "surrogatepass")
        return len(self._encoded[position.line][: units * width].decode(codec, "ignore"))


def _count_units(text: str, encoding: Encoding) -> int:
    codec, width = _CODECS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width
