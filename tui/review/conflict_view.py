"""One place of a conflict: base, the user's lines and the agent's, side by side where there is room, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Final, Literal, NamedTuple

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip

from core.protocol.review import ConflictChoice, ConflictRegion
from tui.text import expose_text, shorten_lines
from tui.widgets.row_view import RowView
from tui.widgets.text_rows import measure_text

Side = Literal["mine", "base", "theirs"]

SIDE_BY_SIDE_WIDTH: Final = 90
NAMES: Final[dict[Side, str]] = {"mine": "yours, on disk", "base": "base, before both", "theirs": "the agent's"}
COLOURS: Final[dict[Side, str]] = {"mine": "$text-primary", "base": "$foreground 60%", "theirs": "$text-success"}
BACKGROUNDS: Final[dict[Side, str]] = {"mine": "on $primary 9%", "base": "", "theirs": "on $success 8%"}
TAKEN_BACKGROUNDS: Final[dict[Side, str]] = {"mine": "on $primary 24%", "base": "", "theirs": "on $success 22%"}
UNDECIDED: Final = "not decided: the place stays in conflict"


class ConflictCell(NamedTuple):
    """One line of one side; `side` None: of both."""

    text: str
    side: Side | None = None
    is_heading: bool = False
    is_result: bool = False


class ConflictView(RowView):
    """Shows the three sides of a conflicting place and what was chosen for it."""

    def __init__(self, names: Mapping[Side, str] = NAMES) -> None:
        super().__init__()
        self._names = names
        self._clash: ConflictRegion | None = None
        self._choice: ConflictChoice | None = None
        self._rows: list[tuple[ConflictCell, ...]] = []

    def show(self, clash: ConflictRegion, choice: ConflictChoice | None) -> None:
        self._clash, self._choice = clash, choice
        self._lay_out()
        self.scroll_to(0, 0, animate=False, force=True)

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        if (clash := self._clash) is None:
            return
        sides = {side: [ConflictCell(text, side) for text in getattr(clash, side) or ["(nothing)"]] for side in NAMES}
        rows: list[tuple[ConflictCell, ...]] = [(ConflictCell(text),) for text in clash.before]
        room = self.size.width // 3 - 2
        longest = max((measure_text(cell.text) for lines in sides.values() for cell in lines), default=0)
        if self.size.width >= SIDE_BY_SIDE_WIDTH and longest <= room:
            rows.append(tuple(ConflictCell(self._names[side], side, True) for side in sides))
            for cells in zip_longest(*sides.values()):
                rows.append(tuple(cell or ConflictCell("", side) for side, cell in zip(sides, cells, strict=True)))
        else:
            for side in ("mine", "theirs", "base"):
                rows.append((ConflictCell(self._names[side], side, True),))
                rows += [(part,) for cell in sides[side] for part in _fold_cell(cell, self.size.width)]
        rows.append((ConflictCell("result", None, True),))
        rows += [(part,) for cell in self._list_result(clash) for part in _fold_cell(cell, self.size.width)]
        self._rows = rows
        self.virtual_size = Size(0, len(rows))
        self.redraw()

    def _list_result(self, clash: ConflictRegion) -> list[ConflictCell]:
        """Return the lines that the place will have, each tinted like the side that it is from."""
        if self._choice is None:
            return [ConflictCell(UNDECIDED)]
        if self._choice.take == "text":
            return [ConflictCell(text, is_result=True) for text in self._choice.text.split("\n")]
        sides: tuple[Side, ...] = ("mine", "theirs") if self._choice.take == "both" else (self._choice.take,)
        lines = [ConflictCell(text, side, is_result=True) for side in sides for text in getattr(clash, side)]
        return lines or [ConflictCell("(nothing)", sides[0], is_result=True)]

    def get_row_text(self, row: int) -> str:
        return "  ".join(cell.text for cell in self._rows[row]) if row < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        cells = self._rows[row]
        cell_width = max((width - len(cells) + 1) // len(cells), 1)
        divider = self.render_pieces([("│", self.resolve_style("$foreground 20%"))])
        *first, last = cells
        strips = [strip for cell in first for strip in (self._render_cell(cell, cell_width), divider)]
        return Strip.join([*strips, self._render_cell(last, width - len(first) * (cell_width + 1))])

    def _render_cell(self, cell: ConflictCell, width: int) -> Strip:
        take = self._choice.take if self._choice is not None else ""
        is_taken = cell.side in ("mine", "theirs") and take in (cell.side, "both")
        tints = TAKEN_BACKGROUNDS if is_taken else BACKGROUNDS
        style = self.resolve_style(tints[cell.side] if cell.side else "")
        parse = self.app.stylesheet.parse_style
        if cell.is_heading:
            colour = COLOURS[cell.side] if cell.side else "$text-warning"
            is_ticked = is_taken or (not cell.side and self._choice is not None)
            text = f" {'✓ ' if is_ticked else ''}{cell.text}"
            strip = self.render_pieces([(text, style + parse(f"bold {colour}"))])
            return strip.adjust_cell_length(width, style.rich_style)
        text = expose_text(shorten_lines(cell.text, 2_000)).replace("\n", "␊")
        is_faint = not cell.side and not cell.is_result
        ink = style + parse(COLOURS["base"] if cell.side == "base" or is_faint else "")
        return self.render_pieces([(f" {text}", ink)]).adjust_cell_length(width, style.rich_style)


def _fold_cell(cell: ConflictCell, width: int) -> list[ConflictCell]:
    """Split a line into as many cells as show all of it."""
    room = max(width - 2, 10)
    text = expose_text(shorten_lines(cell.text, 2_000)).replace("\n", "␊")
    return [cell._replace(text=part.plain) for part in Content(text).fold(room)] or [cell]
