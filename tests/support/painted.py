"""What a program has painted on a terminal: the cells, by the few sequences that our frames are made of."""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len

_TOKEN: Final = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H|\x1b\[(?P<style>[\d;]*)m|\x1b\[(?:(?P<top>\d+);(?P<bottom>\d+))?r"
    r"|(?P<reverse>\x1bM)|\x1b\[(?P<at>\d+)G|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)|(?P<letter>.)",
    re.DOTALL,
)

Cell = tuple[str, str, str, frozenset[int]]  # letter, colour, background, attributes


class Painted:
    """The cells by (row, column), from 1 on."""

    def __init__(self, written: bytes) -> None:
        self.cells: dict[tuple[int, int], Cell] = {}
        self._row = self._column = 1
        self._ink = self._ground = ""
        self._attributes: frozenset[int] = frozenset()
        self._top, self._bottom = 1, 1 << 16
        whole = re.sub(r"\x1b[^A-Za-z\x07]*\Z", "", written.decode("utf-8", "ignore"))
        for match in _TOKEN.finditer(whole):
            self._take(match)

    def _take(self, match: re.Match[str]) -> None:
        if match["row"]:
            self._row, self._column = int(match["row"]), int(match["column"])
        elif match["at"]:
            self._column = int(match["at"])
        elif match["letter"]:
            self._put(match["letter"])
        elif match["style"] is not None:
            self._set_style([int(part) for part in match["style"].split(";") if part])
        elif match["reverse"]:
            self._move_rows(1, edge=self._top)
        elif match.group().endswith("r"):
            self._top, self._bottom = int(match["top"] or 1), int(match["bottom"] or 1 << 16)

    def _move_rows(self, by: int, *, edge: int) -> None:
        if self._row != edge:
            self._row -= by
            return
        inside = {at: cell for at, cell in self.cells.items() if self._top <= at[0] <= self._bottom}
        for at in inside:
            del self.cells[at]
        moved = {(row + by, column): cell for (row, column), cell in inside.items()}
        self.cells |= {at: cell for at, cell in moved.items() if self._top <= at[0] <= self._bottom}

    def row(self, number: int) -> str:
        """The letters of a row."""
        return "".join(self.cells[at][0] for at in sorted(self.cells) if at[0] == number).rstrip()

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self._column = 1
        elif letter == "\n":
            self._move_rows(-1, edge=self._bottom)
        elif letter.isprintable():
            ink = "" if letter == " " else self._ink
            self.cells[self._row, self._column] = (letter, ink, self._ground, self._attributes)
            for hidden in range(1, cell_len(letter)):
                self.cells.pop((self._row, self._column + hidden), None)
            self._column += cell_len(letter)

    def _set_style(self, numbers: list[int]) -> None:
        if not numbers:
            return
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self._ink = self._ground = ""
                self._attributes = frozenset()
            elif number in {38, 48}:
                count = 4 if numbers[0] == 2 else 2
                color = ";".join(map(str, numbers[:count]))
                del numbers[:count]
                self._color(color, is_ground=number == 48)
            elif number >= 30:
                self._color(str(number), is_ground=number in range(40, 50) or number >= 100)
            else:
                self._attributes |= {number}

    def _color(self, color: str, *, is_ground: bool) -> None:
        if is_ground:
            self._ground = color
        else:
            self._ink = color
