"""Positions of the protocol in a text: its lines and offsets, in the units that a server counts in, and ours.

Whatever a server says is brought into the text: a line behind the end is the end, a column behind a line is its end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
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


class LineTable:
    """A text by the lines of the protocol, where CR, LF and CRLF end one, and by ours, where LF and CRLF do."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._text, self._encoding = text, encoding
        self._encoded: dict[int, bytes] = {}
        ends = list(_LINE_END.finditer(text))
        self._starts = [0, *(match.end() for match in ends)]
        self._stops = [*(match.start() for match in ends), len(text)]
        self._own_starts = [0, *(match.end() for match in ends if match[0] != "\r")]

    def list_lines(self) -> list[str]:
        """Our lines without their ends."""
        return [self.get_line(line) for line in range(1, len(self._own_starts) + 1)]

    def get_line(self, line: int) -> str:
        """The text of a line of ours, 1-indexed; "" behind the end."""
        if not 0 < line <= len(self._own_starts):
            return ""
        stop = self._own_starts[line] if line < len(self._own_starts) else len(self._text)
        body = self._text[self._own_starts[line - 1] : stop]
        return body.removesuffix("\n").removesuffix("\r") if body.endswith("\n") else body

    def find_offset(self, position: Position) -> int:
        """The offset of a position in the text, in characters."""
        if position.line < 0:
            return 0
        if position.line >= len(self._starts):
            return len(self._text)
        return self._starts[position.line] + self._count_characters(position)

    def find_place(self, position: Position) -> tuple[int, int]:
        """The line and the column of ours, 1-indexed and in characters."""
        offset = self.find_offset(position)
        line = bisect_right(self._own_starts, offset)
        return line, offset - self._own_starts[line - 1] + 1

    def find_position(self, line: int, column: int) -> Position:
        """The position of a line and a column of ours, 1-indexed and in characters."""
        if line > len(self._own_starts):
            return Position(len(self._starts), 0)
        line_number = max(line, 1)
        offset = self._own_starts[line_number - 1] + min(max(0, column - 1), len(self.get_line(line_number)))
        line_index = bisect_right(self._starts, offset) - 1
        body = self._text[self._starts[line_index] : offset]
        return Position(line_index, len(body) if self._encoding == "utf-32" else _count_units(body, self._encoding))

    def _count_characters(self, position: Position) -> int:
        body = self._text[self._starts[position.line] : self._stops[position.line]]
        units = max(0, position.character)
        if self._encoding == "utf-32" or body.isascii():
            return min(units, len(body))
        codec, width = _CODECS[self._encoding]
        if position.line not in self._encoded:  # of a long line very many places may be asked for
            self._encoded[position.line] = body.encode(codec, "surrogatepass")
        return len(self._encoded[position.line][: units * width].decode(codec, "ignore"))


def _count_units(text: str, encoding: Encoding) -> int:
    codec, width = _CODECS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width
