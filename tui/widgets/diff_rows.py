"""A change as rows: the lines of a diff, safe to show, laid out as one column or as two.

Pure data, no widget, no colour. Every foreign text passes `tui.text` here; positions of marks are moved along with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from core.protocol.review import Change, ChangeDiff, DiffLine, FileState, Hunk
from tui.text import clean, named, one_line, shortened
from tui.widgets import rows

ABOVE: Final = 3  # rows of context kept above a hunk that is scrolled to
LONGEST: Final = 8_000
MOST_MARKS: Final = 200
NO_COMMENTS: Final[Mapping[str, str]] = MappingProxyType({})

RowKind = Literal["line", "hunk", "gap", "note", "rest", "comment"]  # rest: where a note goes on


class Line(NamedTuple):
    """A line of the diff as it may be shown: `text` is clean, `marks` are positions in it."""

    kind: str
    old: int
    new: int
    text: str
    hunk: int
    eol: str
    marks: Sequence[tuple[int, int]]


class Row(NamedTuple):
    """One row on screen. `left` and `right` are indices of lines (-1 = nothing on that side); in one column a row of
    context has both the same. `text` is that of gaps, notes and comments."""

    kind: RowKind
    hunk: int = -1
    left: int = -1
    right: int = -1
    text: str = ""


class Page(NamedTuple):
    """`heads[n]` is the row at which hunk n begins, `tails[n]` the one after its last."""

    rows: Sequence[Row]
    heads: Sequence[int]
    tails: Sequence[int]


def seen_things(diff: ChangeDiff, page: Page, current: int, seen: range) -> list[tuple[str, ...]]:
    """Path and id of each hunk of which all is among the rows that are seen, as far as that is ever shown, or some of
    one that is taller than that; and `chips` of the current one."""
    found: list[tuple[str, ...]] = []
    for hunk, head, tail in zip(diff.change.hunks, page.heads, page.tails, strict=False):
        shown, above = min(tail, seen.stop) - max(head, seen.start), min(ABOVE, len(seen) // 4)
        if shown >= min(tail - head, max(len(seen) - above, 1)) or (tail - head > len(seen) and shown > 0):
            found.append((diff.change.path, hunk.id))
    if current >= 0 and page.heads[current] in seen:
        found.append(chips(diff, current))
    return found


def chips(diff: ChangeDiff, current: int) -> tuple[str, str, str]:
    """What can be clicked on the current hunk, as a thing that is seen."""
    return diff.change.path, diff.change.hunks[current].id, "chips"


def lines(diff: ChangeDiff) -> list[Line]:
    """The lines of a diff, made safe."""
    return [_line(each) for each in diff.lines]


def _line(line: DiffLine) -> Line:
    raw = line.text
    if len(raw) <= LONGEST and raw.isascii() and raw.isprintable():
        return Line(line.kind, line.old, line.new, raw, line.hunk, line.eol, line.marks)
    raw = shortened(raw, LONGEST)
    text = clean(raw).replace("\n", "␊")
    marks = (
        line.marks[:MOST_MARKS] if text == raw else [_moved(raw, mark, len(text)) for mark in line.marks[:MOST_MARKS]]
    )
    return Line(line.kind, line.old, line.new, text, line.hunk, line.eol, marks)


def _moved(raw: str, mark: tuple[int, int], limit: int) -> tuple[int, int]:
    """Where a range of the raw text is found after cleaning, which changes lengths only to the left of it."""
    start, end = (min(len(clean(raw[:edge])), limit) for edge in mark)
    return start, end


def breaks(shown: Sequence[Line]) -> list[int]:
    """Indices at which the text does not go on from the line before."""
    return [index for index, line in enumerate(shown) if line.kind == "gap"]


def unified(
    diff: ChangeDiff, shown: Sequence[Line], comments: Mapping[str, str] = NO_COMMENTS, *, room: int = 0
) -> Page:
    """Old and new lines one below the other; `comments`, by the id of a hunk, below it. Words of ours and comments are
    broken into rows of `room` cells; 0: they are not."""
    page = _Builder(diff, comments, room)
    for index, line in enumerate(shown):
        page.enter(line.hunk)
        match line.kind:
            case "gap":
                page.rows.append(Row("gap", text=line.text))
            case "removed":
                page.rows.append(Row("line", line.hunk, left=index))
            case "added":
                page.rows.append(Row("line", line.hunk, right=index))
            case _:
                page.rows.append(Row("line", -1, index, index))
    return page.done()


def split(diff: ChangeDiff, shown: Sequence[Line], comments: Mapping[str, str] = NO_COMMENTS, *, room: int = 0) -> Page:
    """Old lines to the left, new ones to the right; within a hunk they are paired from its top."""
    page = _Builder(diff, comments, room)
    index, count = 0, len(shown)
    while index < count:
        line = shown[index]
        page.enter(line.hunk)
        if line.kind in {"removed", "added"}:
            index = _pair(page.rows, shown, index)
            continue
        page.rows.append(Row("gap", text=line.text) if line.kind == "gap" else Row("line", -1, index, index))
        index += 1
    return page.done()


def _pair(rows: list[Row], shown: Sequence[Line], index: int) -> int:
    """Rows for the run of changed lines that begins at `index`; returns the index after it."""
    hunk = shown[index].hunk
    left: list[int] = []
    right: list[int] = []
    while index < len(shown) and shown[index].hunk == hunk and shown[index].kind in {"removed", "added"}:
        (left if shown[index].kind == "removed" else right).append(index)
        index += 1
    for offset in range(max(len(left), len(right))):
        old = left[offset] if offset < len(left) else -1
        new = right[offset] if offset < len(right) else -1
        rows.append(Row("line", hunk, old, new))
    return index


class _Builder:
    """Puts a head row before each hunk, and notes where hunks have no lines of their own."""

    def __init__(self, diff: ChangeDiff, comments: Mapping[str, str], room: int) -> None:
        self._diff, self._comments, self._room = diff, comments, room
        self.rows: list[Row] = []
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        self._open = -1
        self._notes = [one_line(diff.note, 400)] if diff.note else []
        if any(each.moves for each in diff.change.hunks[:1]):
            self._without_lines(0)

    def enter(self, hunk: int) -> None:
        """The next row belongs to this hunk (-1 = to none)."""
        if hunk == self._open:
            return
        if self._open >= 0:
            text = self._comments.get(self._diff.change.hunks[self._open].id, "")
            lines = clean(text).split("\n") if text else []
            self.rows += [Row("comment", self._open, text=part) for line in lines for part in self._broken(line)]
            self._tails[self._open] = len(self.rows)
        self._open = hunk
        if hunk >= 0 and hunk not in self._heads:
            self._heads[hunk] = len(self.rows)
            self.rows.append(Row("hunk", hunk))

    def _broken(self, text: str) -> list[str]:
        spans = rows.breaks(text, self._room) if self._room else [(0, len(text))]
        return [text[start:end] for start, end in spans]

    def _note(self, words: Sequence[str], hunk: int = -1) -> None:
        for text in words:
            first, *rest = self._broken(text)
            self.rows += [Row("note", hunk, text=first), *(Row("rest", hunk, text=each) for each in rest)]

    def _without_lines(self, index: int) -> None:
        """A hunk that is told in words."""
        self.enter(index)
        change = self._diff.change
        words = _of_rename(change) if change.hunks[index].moves else []
        words += self._notes or ([] if words else whole_file(change))
        self._note(words, index)
        self.enter(-1)
        self._notes = []

    def done(self) -> Page:
        self.enter(-1)
        for index in range(len(self._diff.change.hunks)):
            if index not in self._heads:
                self._without_lines(index)
        if self._diff.truncated:
            self._notes.append(
                "The rest of this diff is left out because it is very long. A verdict counts for all of it."
            )
        self._note(self._notes)
        count = len(self._diff.change.hunks)
        heads = [self._heads[index] for index in range(count)]
        return Page(self.rows, heads, [self._tails.get(index, len(self.rows)) for index in range(count)])


def _of_rename(change: Change) -> list[str]:
    old = f"renamed from {named(change.renamed_from)}"
    return [
        old
        if len(change.hunks) == 1
        else f"{old}; any of its edits brings this along, rejected it takes them all, s parts it"
    ]


def whole_file(change: Change) -> list[str]:
    """What changes about a file whose lines can't be shown, in words."""
    base, pending = change.base, change.pending
    found = []
    if change.renamed_from:
        found.append(f"renamed from {named(change.renamed_from)}")
    if change.binary:
        found.append(f"binary file: {_size(base)} → {_size(pending)}")
    elif change.operation == "create":
        found.append("a new empty file" if not pending.size else f"a new file of {_size(pending)}")
    elif change.operation == "delete":
        found.append(f"the file is deleted ({_size(base)})")
    if base.kind != pending.kind and "absent" not in (base.kind, pending.kind):
        found.append(f"{_kind(base)} → {_kind(pending)}")
    if base.mode != pending.mode and "absent" not in (base.kind, pending.kind):
        found.append(f"mode {base.mode & 0o7777:o} → {pending.mode & 0o7777:o}")
    return found or ["the whole file"]


def _kind(state: FileState) -> str:
    return "symbolic link" if state.kind == "symlink" else "file"


def _size(state: FileState) -> str:
    return "nothing" if state.kind == "absent" else f"{state.size:,} bytes"


def kept(before: Sequence[Hunk], current: int, now: Sequence[Hunk]) -> int:
    """Which hunk of `now` a reader who was at hunk `current` of `before` should see: the same, the one that took its
    place, the next one that is still there, or the last one before it."""
    if not now:
        return -1
    if not 0 <= current < len(before):
        return 0
    here = before[current]
    places = {hunk.id: index for index, hunk in enumerate(now)}
    if here.id in places:
        return places[here.id]
    known = {hunk.id for hunk in before}
    for index, hunk in enumerate(now):
        is_new = hunk.id not in known
        if (
            is_new
            and hunk.old_start <= here.old_start + here.old_lines
            and here.old_start <= hunk.old_start + hunk.old_lines
        ):
            return index
    for hunk in [*before[current + 1 :], *reversed(before[:current])]:
        if hunk.id in places:
            return places[hunk.id]
    return min(current, len(now) - 1)
