"""A change of a notebook as lines to look at: its cells as they are read, not the JSON that they are written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from core.notebooks.notebook import find_notebook, find_touched
from core.notebooks.rendering import Section, render_sections
from core.protocol.review import DiffLine, Hunk
from core.shadow.diff.alignment import find_pieces


class CellDiff(Struct, frozen=True):
    """All lines, and the language of the code cells."""

    lines: list[DiffLine]
    language: str


def build_cell_diff(hunks: Sequence[Hunk], old: bytes, new: bytes, context: int) -> CellDiff | None:
    """Return the lines of a notebook's hunks with `context` lines around (-1 = all). None if a side is no notebook, or
    if a hunk would show nothing as only the layout of the JSON differs, or if a cell differs that is of no hunk."""
    sides = [find_notebook(content) if content else None for content in (old, new)]
    if any(content and side is None for content, side in zip((old, new), sides, strict=True)) or not any(sides):
        return None
    notebook = sides[1] or sides[0]
    rows = list(_list_rows(hunks, *([] if side is None else render_sections(side) for side in sides)))
    hunk_indexes = {row.hunk for row in rows if row.kind in {"removed", "added"}}
    if notebook is None or hunk_indexes != {index for index, hunk in enumerate(hunks) if not hunk.moves}:
        return None
    return CellDiff(list(_leave_out(rows, context)) if context >= 0 else rows, notebook.language)


def _list_rows(hunks: Sequence[Hunk], old: Sequence[Section], new: Sequence[Section]) -> Iterator[DiffLine]:
    """Yield every line. Numbers are those of the text that is shown."""
    position, number = (0, 0), (0, 0)
    for index, hunk in enumerate(hunks):
        if hunk.moves:
            continue
        one = find_touched([section.span for section in old], hunk.old_start, hunk.old_lines)
        other = find_touched([section.span for section in new], hunk.new_start, hunk.new_lines)
        if not other:
            start = position[1] + (one.start - position[0] if one else 0)
            other = range(start, start)
        if not one:
            start = position[0] + other.start - position[1]
            one = range(start, start)
        if one.start < position[0] or other.start < position[1]:
            continue
        for hunk_index, sections in (
            (-1, (old[position[0] : one.start], new[position[1] : other.start])),
            (index, (old[one.start : one.stop], new[other.start : other.stop])),
        ):
            for row in _compare(*sections, hunk_index, number):
                number = (row.old or number[0], row.new or number[1])
                yield row
        position = (one.stop, other.stop)
    yield from _compare(old[position[0] :], new[position[1] :], -1, number)


def _compare(old: Sequence[Section], new: Sequence[Section], hunk: int, number: tuple[int, int]) -> Iterator[DiffLine]:
    before, after = _join(old), _join(new)
    pieces = find_pieces([key for key, _ in before], [key for key, _ in after])
    i = j = 0
    for a0, a1, b0, b1 in (*pieces, (len(before), len(before), len(after), len(after))):
        for x, y in zip(range(i, a0), range(j, b0), strict=False):
            yield DiffLine(kind="context", old=number[0] + x + 1, new=number[1] + y + 1, text=after[y][1], hunk=hunk)
        for x in range(a0, a1):
            yield DiffLine(kind="removed", old=number[0] + x + 1, new=0, text=before[x][1], hunk=hunk)
        for y in range(b0, b1):
            yield DiffLine(kind="added", old=0, new=number[1] + y + 1, text=after[y][1], hunk=hunk)
        i, j = a1, b1


def _join(sections: Sequence[Section]) -> list[tuple[bytes, str]]:
    """Return the lines, each with what it is compared by: the number of a cell is no part of it."""
    keyed_lines: list[tuple[bytes, str]] = []
    for section in sections:
        for index, line in enumerate(section.lines):
            key = line.partition(" · ")[2] if index == 0 and section.cell >= 0 else line
            keyed_lines.append((f"{int(index == 0)}{key}".encode("utf-8", "surrogatepass"), line))
    return keyed_lines


def _leave_out(rows: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    """Yield the rows with `context` unchanged ones around those that changed, and the head of the cell above them."""
    for is_context, run in groupby(rows, lambda row: row.kind == "context"):
        lines = list(run)
        if not is_context:
            yield from lines
            continue
        head = 0 if lines[0] is rows[0] else context
        tail = 0 if lines[-1] is rows[-1] else context
        visible_indexes = {*range(head), *range(len(lines) - tail, len(lines))}
        if tail and (heads := [index for index, row in enumerate(lines) if " %% " in row.text[:6]]):
            visible_indexes.add(heads[-1])
        yield from _mark_gaps(lines, visible_indexes)


def _mark_gaps(lines: Sequence[DiffLine], visible_indexes: set[int]) -> Iterator[DiffLine]:
    for is_kept, run in groupby(enumerate(lines), lambda pair: pair[0] in visible_indexes):
        rows = [row for _, row in run]
        if is_kept or len(rows) == 1:
            yield from rows
        else:
            first = rows[0]
            text = f"{len(rows):,} unchanged lines"
            yield DiffLine(kind="gap", old=first.old, new=first.new, text=text, hunk=first.hunk)
