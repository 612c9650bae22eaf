"""Differences of notebooks by cells: as regions of lines for hunks, and as rendered cells for display.

A region is what changed in one cell, a new or removed cell, or what changed before or after the cells. Any subset of
the regions leaves a valid notebook. A cell appended after the last one brings the comma and the bracket *before* it
along and leaves its own closing bracket to the rest of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from msgspec import Struct

from core.notebooks.notebook import Cell, Notebook, find_notebook, find_touched
from core.notebooks.rendering import Section, render_sections
from core.protocol.review import DiffLine, Hunk
from core.shadow.diff.alignment import Region, find_pieces

Pair = tuple[int, int]
_MAX_COMPARED_PAIRS = 400  # pairs of cells in one gap whose sources are compared
_COMPARED_TEXT = 2_000  # characters
_LEAST_SIMILAR = 0.5


def find_cell_regions(
    base: bytes, pending: bytes, before: Sequence[bytes], after: Sequence[bytes]
) -> list[Region] | None:
    """Return the regions of two notebooks, whose lines are `before` and `after`; None if one of them is no notebook."""
    old = find_notebook(base)
    new = find_notebook(pending) if old is not None else None
    if old is None or new is None:
        return None
    if old.cells and new.cells and _has_own_lines(old, before) and _has_own_lines(new, after):
        regions = [region for region in _list_regions(old.cells, new.cells, before, after) if region]
        if _is_complete(regions, before, after):
            return regions
    full_region = _trim((0, len(before), 0, len(after)), before, after)
    return [full_region] if full_region else []


def align_cells(old: Sequence[Cell], new: Sequence[Cell], texts: tuple[Sequence[str], Sequence[str]]) -> list[Pair]:
    """Return the pairs of corresponding cells: identical ones, else of the same id, else of the same source, else
    similar ones, else by order. Between two pairs, only one side has unpaired cells. `texts`: the cells as they are
    written."""
    keys: list[tuple[Callable[[int], str], Callable[[int], str]]] = [
        (lambda i: texts[0][i], lambda j: texts[1][j]),
        (lambda i: old[i].id or f"\0{i}", lambda j: new[j].id or f"\1{j}"),
        (lambda i: f"{old[i].kind} {old[i].source}", lambda j: f"{new[j].kind} {new[j].source}"),
    ]
    pairs, gaps = list[Pair](), [(0, len(old), 0, len(new))]
    for of_old, of_new in keys:
        remaining_gaps: list[Region] = []
        for i0, i1, j0, j1 in gaps:
            differing = find_pieces(
                [of_old(i).encode("utf-8", "surrogatepass") for i in range(i0, i1)],
                [of_new(j).encode("utf-8", "surrogatepass") for j in range(j0, j1)],
            )
            remaining_gaps += [(i0 + a0, i0 + a1, j0 + b0, j0 + b1) for a0, a1, b0, b1 in differing]
            pairs += _list_matches(differing, (i0, i1, j0, j1))
        gaps = remaining_gaps
    for gap in gaps:
        pairs += _pair_gap(old, new, gap)
    return sorted(pairs)


def _list_matches(differing: Sequence[Region], gap: Region) -> Iterator[Pair]:
    i, j = gap[0], gap[2]
    for a0, a1, b0, b1 in (*differing, (gap[1] - gap[0], gap[1] - gap[0], gap[3] - gap[2], gap[3] - gap[2])):
        yield from zip(range(i, gap[0] + a0), range(j, gap[2] + b0), strict=True)
        i, j = gap[0] + a1, gap[2] + b1


def _pair_gap(old: Sequence[Cell], new: Sequence[Cell], gap: Region) -> Iterator[Pair]:
    """Yield pairs of similar cells, and the cells between these in order."""
    i, j = gap[0], gap[2]
    for x, y in (*_find_similar(old, new, gap), (gap[1], gap[3])):
        yield from zip(range(i, x), range(j, y), strict=False)
        if (x, y) != (gap[1], gap[3]):
            yield x, y
        i, j = x + 1, y + 1


def _find_similar(old: Sequence[Cell], new: Sequence[Cell], gap: Region) -> list[Pair]:
    """Return the increasing pairs with the highest total similarity."""
    i0, i1, j0, j1 = gap
    if (i1 - i0) * (j1 - j0) > _MAX_COMPARED_PAIRS:
        return []
    best: dict[Pair, tuple[float, list[Pair]]] = {}
    for i in range(i1, i0 - 1, -1):
        for j in range(j1, j0 - 1, -1):
            if i == i1 or j == j1:
                best[i, j] = (0.0, [])
                continue
            likeness, (rest, others) = _compute_likeness(old[i], new[j]), best[i + 1, j + 1]
            pairing = (likeness + rest, [(i, j), *others]) if likeness >= _LEAST_SIMILAR else (0.0, [])
            best[i, j] = max(pairing, best[i + 1, j], best[i, j + 1], key=lambda candidate: candidate[0])
    return best[i0, j0][1]


def _compute_likeness(one: Cell, other: Cell) -> float:
    if one.kind != other.kind:
        return 0.0
    return SequenceMatcher(None, one.source[:_COMPARED_TEXT], other.source[:_COMPARED_TEXT], False).quick_ratio()


def _list_regions(
    old: Sequence[Cell], new: Sequence[Cell], before: Sequence[bytes], after: Sequence[bytes]
) -> Iterator[Region | None]:
    texts = ([_read_cell(cell, before) for cell in old], [_read_cell(cell, after) for cell in new])
    yield _trim((0, old[0].first_line - 1, 0, new[0].first_line - 1), before, after)
    i = j = 0
    for x, y in align_cells(old, new, texts):
        yield from _list_left_over(old[i:x], new[j:y], (old[x].first_line - 1, new[y].first_line - 1))
        # The comma after a cell depends on the following cells.
        margin = int((x == len(old) - 1) != (y == len(new) - 1))
        one, other = old[x], new[y]
        inside = (one.first_line - 1, one.last_line - margin, other.first_line - 1, other.last_line - margin)
        yield _trim(inside, before, after)
        i, j = x + 1, y + 1
    for cell in new[j:]:
        yield old[-1].last_line - 1, old[-1].last_line - 1, new[cell.index - 1].last_line - 1, cell.last_line - 1
    for cell in old[i:]:
        yield old[cell.index - 1].last_line - 1, cell.last_line - 1, new[-1].last_line - 1, new[-1].last_line - 1
    yield _trim((old[-1].last_line, len(before), new[-1].last_line, len(after)), before, after)


def _list_left_over(old: Sequence[Cell], new: Sequence[Cell], first_lines: Pair) -> Iterator[Region]:
    """Yield the removed or new cells before the pair of cells whose first lines are `first_lines` (from 0)."""
    for cell in old:
        yield cell.first_line - 1, cell.last_line, first_lines[1], first_lines[1]
    for cell in new:
        yield first_lines[0], first_lines[0], cell.first_line - 1, cell.last_line


def _read_cell(cell: Cell, lines: Sequence[bytes]) -> str:
    """Return the text of a cell, without the comma after it."""
    text = b"".join(lines[cell.first_line - 1 : cell.last_line]).decode("utf-8", "replace")
    return text.rstrip().removesuffix(",")


def _trim(region: Region, before: Sequence[bytes], after: Sequence[bytes]) -> Region | None:
    """Return the region without the lines that both sides have in common at the beginning and the end; None if it is
    empty."""
    a0, a1, b0, b1 = region
    head = tail = 0
    while head < min(a1 - a0, b1 - b0) and before[a0 + head] == after[b0 + head]:
        head += 1
    while tail < min(a1 - a0, b1 - b0) - head and before[a1 - tail - 1] == after[b1 - tail - 1]:
        tail += 1
    remainder = a0 + head, a1 - tail, b0 + head, b1 - tail
    return remainder if remainder[0] < remainder[1] or remainder[2] < remainder[3] else None


def _has_own_lines(notebook: Notebook, lines: Sequence[bytes]) -> bool:
    """True if every cell has at least two lines of its own, and there is nothing between cells."""
    last = notebook.cells[0].first_line - 1
    for cell in notebook.cells:
        if cell.first_line != last + 1 or cell.last_line == cell.first_line:
            return False
        last = cell.last_line
        if lines[cell.first_line - 1].lstrip()[:1] != b"{" or lines[last - 1].strip() not in {b"}", b"},"}:
            return False
    return True


def _is_complete(regions: Sequence[Region], before: Sequence[bytes], after: Sequence[bytes]) -> bool:
    """True if the lines outside of the regions are equal."""
    a = b = 0
    for a0, a1, b0, b1 in (*regions, (len(before), len(before), len(after), len(after))):
        if a0 < a or b0 < b or before[a:a0] != after[b:b0]:
            return False
        a, b = a1, b1
    return True


class CellDiff(Struct, frozen=True):
    """The lines of a notebook's diff, and the language of its code cells."""

    lines: list[DiffLine]
    language: str


def build_cell_diff(hunks: Sequence[Hunk], old: bytes, new: bytes, context: int) -> CellDiff | None:
    """Return the lines of a notebook's hunks with `context` lines around them (-1 = all).

    Returns None if a side is no notebook, if a hunk changes only the layout of the JSON and would show nothing, or if a
    cell differs that belongs to no hunk.
    """
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
    """Yield every line, with its numbers in the rendered text."""
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
    """Return the lines with their comparison keys, which do not contain the number of the cell."""
    keyed_lines: list[tuple[bytes, str]] = []
    for section in sections:
        for index, line in enumerate(section.lines):
            key = line.partition(" · ")[2] if index == 0 and section.cell >= 0 else line
            keyed_lines.append((f"{int(index == 0)}{key}".encode("utf-8", "surrogatepass"), line))
    return keyed_lines


def _leave_out(rows: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    """Yield the changed rows with `context` unchanged rows around them and the heading of their cell."""
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
