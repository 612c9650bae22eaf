"""A change laid out as rows: the lines of a diff, safe to show, in one column or two. No widgets, no colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, zip_longest
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from core.patterns import compile_lazily
from core.protocol.language import Diagnostic
from core.protocol.review import Change, ChangeDiff, DiffLine, FileState, Hunk
from core.text.counting import count
from tui.review.descriptions import describe_kind
from tui.text import expose_text, fit_line, format_path, render_prose, shorten_lines
from tui.widgets import text_rows
from tui.widgets.diagnostics import MAX_PER_LINE, format_diagnostic, group_by_line
from tui.widgets.highlight import HighlightedText

CONTEXT_ABOVE: Final = 3  # rows of context above a hunk that is scrolled into view
MAX_LINE_LENGTH: Final = 8_000
MAX_MARKS: Final = 200
MAX_LINE_ROWS: Final = 40  # of a wrapped line
MAX_SENT: Final = 2_000  # characters of a line that the engine sends; its end says how many it left out
LINE_END_MARKS: Final = {"crlf": "␍␊", "lf": "␊", "none": " ⊘ no newline at end"}
CHANGED: Final = ("removed", "added")
LEFT_OUT: Final = "This diff is very long; the rest is not shown. A verdict applies to all of it."
MAX_DIAGNOSTIC_ROWS: Final = 4  # of one diagnostic

_LEFT_OUT = compile_lazily(r"… \[([\d,]+) more characters\]\Z")  # what the engine says of a very long line

# group, file: above the lines of a file; rest, more: continuation of a note or of a diagnostic
RowKind = Literal[
    "group", "file", "line", "hunk", "proof", "gap", "note", "rest", "comment", "diagnostic", "more", "folded",
]  # fmt: skip


class CleanLine(NamedTuple):
    """A line of the diff that is safe to show: `text` is clean, `marks` are positions in it."""

    kind: str
    old: int
    new: int
    text: str
    hunk: int
    eol: str
    marks: Sequence[tuple[int, int]]
    left_out: int = 0  # characters that the engine left out, which the end of `text` says in `note_length` characters
    note_length: int = 0


class FoldedHunk(NamedTuple):
    """A judged hunk: its former line in the pending file, and a text about its verdict."""

    line: int
    text: str
    is_accepted: bool


class DiffRow(NamedTuple):
    """One row on screen. `left` and `right` are indices of lines, -1 = none there; `text` is that of other kinds.
    `severity` of a diagnostic; of a folded hunk: its verdict. `part`: the row of a wrapped line, from 0."""

    kind: RowKind
    hunk: int = -1
    left: int = -1
    right: int = -1
    text: str = ""
    severity: str = ""
    part: int = 0


class Remarks(NamedTuple):
    """Remarks between the lines: `comments` by hunk id, below their hunk; `diagnostics` below their lines (at the
    end for lines outside of the diff); `folded` hunks above their former line; `judged`: ids of the hunks with
    evidence, which is below their head."""

    comments: Mapping[str, str] = MappingProxyType({})
    diagnostics: Sequence[Diagnostic] = ()
    folded: Sequence[FoldedHunk] = ()
    judged: Collection[str] = ()


NO_REMARKS: Final = Remarks()


class DiffLayout(NamedTuple):
    """The rows of a diff; `heads[n]` is the row at which hunk n begins, `tails[n]` the one after its last. `breaks`:
    the characters [start, end) of every row of a wrapped line, by its index."""

    rows: Sequence[DiffRow]
    head_rows: Sequence[int]
    end_rows: Sequence[int]
    breaks: Mapping[int, Sequence[tuple[int, int]]] = MappingProxyType({})


def find_visible_targets(
    diff: ChangeDiff, layout: DiffLayout, current: int, visible_rows: range
) -> list[tuple[str, ...]]:
    """Return the targets that can be judged among the visible rows: the buttons of hunk `current` (-1 = none), and
    path and id of each hunk that is fully visible, or partly if it is taller than the view, and its end."""
    targets: list[tuple[str, ...]] = []
    for hunk, head, tail in zip(diff.change.hunks, layout.head_rows, layout.end_rows, strict=False):
        visible_count, above = (
            min(tail, visible_rows.stop) - max(head, visible_rows.start),
            min(CONTEXT_ABOVE, len(visible_rows) // 4),
        )
        if visible_count >= min(tail - head, max(len(visible_rows) - above, 1)) or (
            tail - head > len(visible_rows) and visible_count > 0
        ):
            targets.append((diff.change.path, hunk.id))
            if tail <= visible_rows.stop:
                targets.append(build_end_target(diff.change.path, hunk.id))
    if current >= 0 and layout.head_rows[current] in visible_rows:
        targets.append(build_buttons_target(diff, current))
    return targets


def build_end_target(path: str, hunk: str) -> tuple[str, str, str]:
    """Return the visibility target of the end of a hunk: it is visible with the whole of it, or with its last rows if
    it is taller than the view."""
    return path, hunk, "end"


def build_buttons_target(diff: ChangeDiff, current: int) -> tuple[str, str, str]:
    """Return the visibility target of the current hunk's buttons."""
    return diff.change.path, diff.change.hunks[current].id, "chips"


def clean_lines(diff: ChangeDiff) -> list[CleanLine]:
    return [_clean_line(line) for line in diff.lines]


def _clean_line(line: DiffLine) -> CleanLine:
    raw = line.text
    if len(raw) <= MAX_LINE_LENGTH and raw.isascii() and raw.isprintable() and raw[-1:] != " ":
        return CleanLine(line.kind, line.old, line.new, raw, line.hunk, line.eol, line.marks)
    note = _LEFT_OUT.search(raw) if len(raw) > MAX_SENT else None
    left_out = (int(note[1].replace(",", "")), len(note[0])) if note is not None else (0, 0)
    if len(raw) > MAX_LINE_LENGTH:
        length, raw = len(raw), shorten_lines(raw, MAX_LINE_LENGTH)
        left_out = length - MAX_LINE_LENGTH, len(raw) - MAX_LINE_LENGTH
    text = expose_text(raw).replace("\n", "␊")
    marks: Sequence[tuple[int, int]] = line.marks[:MAX_MARKS]
    if text != raw:
        marks = [_move_mark(raw, mark, len(text)) for mark in marks]
    return CleanLine(line.kind, line.old, line.new, text, line.hunk, line.eol, marks, *left_out)


def _move_mark(raw: str, mark: tuple[int, int], limit: int) -> tuple[int, int]:
    start, end = (min(len(expose_text(raw[:edge])), limit) for edge in mark)
    return start, end


def count_changed(diff: ChangeDiff, lines: Iterable[CleanLine]) -> Mapping[tuple[str, int], int]:
    """Count the lines of each hunk by ("added" or "removed", index); a hunk without visible lines counts its own
    size."""
    counts = Counter((line.kind, line.hunk) for line in lines if line.kind in CHANGED)
    for index, hunk in enumerate(diff.change.hunks):
        if not any(counts[kind, index] for kind in CHANGED):
            counts.update({("added", index): hunk.new_lines, ("removed", index): hunk.old_lines})
    return counts


class DiffSyntax:
    """The syntax colours of a diff. Old and new text are highlighted separately and as a whole, because neither
    parses when mixed with lines of the other."""

    def __init__(self, lines: Sequence[CleanLine], language: str, path: str) -> None:
        self._sides: list[tuple[HighlightedText, list[int]]] = []
        for other in ("added", "removed"):
            side_lines = [line for line in lines if line.kind != other]
            places = list(accumulate((line.kind != other for line in lines), initial=-1))[1:]
            texts = ["" if line.kind == "gap" else line.text for line in side_lines]
            breaks = [index for index, line in enumerate(side_lines) if line.kind == "gap"]
            self._sides.append((HighlightedText(texts, language, path, breaks), places))

    def find_line(self, side: int, index: int) -> tuple[HighlightedText, int]:
        """Return the text of a side (0 = old, 1 = new) and the index in it of a line of the diff."""
        text, places = self._sides[side]
        return text, places[index]


def layout_diff(
    diff: ChangeDiff,
    lines: Sequence[CleanLine],
    remarks: Remarks = NO_REMARKS,
    *,
    room: int = 0,
    is_split: bool = False,
    code_room: int = 0,
) -> DiffLayout:
    """Lay out a diff: old lines above new ones, or in two columns, paired from the top of each hunk.

    Notes and remarks wrap at `room` cells, changed lines at `code_room`; 0 = no wrapping.
    """
    page = _LayoutBuilder(diff, lines, remarks, room, code_room)
    for (hunk, is_changed), run in groupby(
        enumerate(lines), lambda numbered_line: (numbered_line[1].hunk, numbered_line[1].kind in CHANGED)
    ):
        page.enter_hunk(hunk)
        if is_changed and is_split:
            sides: dict[str, list[int]] = {kind: [] for kind in CHANGED}
            for index, line in run:
                sides[line.kind].append(index)
            pairs = zip_longest(sides["removed"], sides["added"], fillvalue=-1)
            page.add_lines(DiffRow("line", hunk, *pair) for pair in pairs)
        else:
            page.add_lines(_lay_out_line(index, line) for index, line in run)
    return page.build()


def _lay_out_line(index: int, line: CleanLine) -> DiffRow:
    match line.kind:
        case "gap":
            return DiffRow("gap", text=line.text)
        case "removed":
            return DiffRow("line", line.hunk, left=index)
        case "added":
            return DiffRow("line", line.hunk, right=index)
        case _:
            return DiffRow("line", -1, index, index)


def break_line(line: CleanLine, room: int) -> list[tuple[int, int]]:
    """Return the characters [start, end) of the rows that a line takes at `room` cells; the mark of its end is in the
    last one, or below it."""
    spans = text_rows.find_soft_breaks(line.text, room, MAX_LINE_ROWS)
    start, end = spans[-1] if spans else (0, 0)
    mark = LINE_END_MARKS.get(line.eol, "")
    if mark and end == len(line.text) and text_rows.measure_text(line.text[start:end]) + len(mark) > room and end:
        spans.append((end, end))
    return spans or [(0, 0)]


def _describe_hidden(counts: Sequence[int]) -> str:
    """Describe how many characters of a line, or of the two in a row, are not shown."""
    if len(counts) > 1 and all(counts):
        return f"{counts[0]:,} characters on the left and {counts[1]:,} on the right are not shown"
    return f"{count('more character', sum(counts))} of this line"


def count_hidden(line: CleanLine, end: int) -> int:
    """Count the characters after `end` that no row of a wrapped line shows; 0 = it says so itself, or shows all."""
    return len(line.text) - end + line.left_out - line.note_length if end < len(line.text) else 0


def build_folded_row(folded_hunk: FoldedHunk) -> DiffRow:
    return DiffRow("folded", text=folded_hunk.text, severity="accept" if folded_hunk.is_accepted else "reject")


class _LayoutBuilder:
    """Builds the rows: a head before each hunk, and a note in place of the lines of an empty hunk."""

    def __init__(
        self, diff: ChangeDiff, lines: Sequence[CleanLine], remarks: Remarks, room: int, code_room: int
    ) -> None:
        self._diff, self._shown, self._room, self._code_room = diff, lines, room, code_room
        self._long_lines = {
            index
            for index, line in enumerate(lines)
            if line.kind in CHANGED and (len(line.text) >= code_room or line.eol or not line.text.isascii())
        }
        if not code_room:
            self._long_lines.clear()
        self._breaks: dict[int, Sequence[tuple[int, int]]] = {}
        self.comments = remarks.comments
        self.diagnostics = group_by_line(remarks.diagnostics)
        self.folded = list(remarks.folded)
        self._judged = remarks.judged
        self.rows: list[DiffRow] = []
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        self._open = -1
        self._notes = [fit_line(diff.note, 400)] if diff.note else []
        if any(hunk.moves for hunk in diff.change.hunks[:1]):
            self._add_described_hunk(0)

    def enter_hunk(self, hunk: int) -> None:
        """Assign the following rows to `hunk`, -1 = to none."""
        if hunk == self._open:
            return
        if self._open >= 0:
            text = self.comments.get(self._diff.change.hunks[self._open].id, "")
            lines = render_prose(text).split("\n") if text else []
            self.rows += [DiffRow("comment", self._open, text=part) for line in lines for part in self._wrap_text(line)]
            self._tails[self._open] = len(self.rows)
        self._open = hunk
        if hunk >= 0 and hunk not in self._heads:
            self._add_folded(self._diff.change.hunks[hunk].new_start)
            self._heads[hunk] = len(self.rows)
            self.rows.append(DiffRow("hunk", hunk))
            if self._diff.change.hunks[hunk].id in self._judged:
                self.rows.append(DiffRow("proof", hunk))

    def add_lines(self, rows: Iterable[DiffRow]) -> None:
        """Add lines, with the diagnostics of each below it."""
        for row in rows:
            number = self._shown[row.right].new if row.right >= 0 else 0
            if row.hunk < 0:
                self._add_folded(number)
            self.rows.append(row)
            if row.left in self._long_lines or row.right in self._long_lines:
                self._add_rest_of_lines(row)
            self._add_diagnostics(self.diagnostics.pop(number, ()) if number else (), row.hunk)

    def _add_rest_of_lines(self, row: DiffRow) -> None:
        """Add the rows below the first that the lines of a row take, and a note on what fits none of them."""
        sides = {
            index: break_line(self._shown[index], self._code_room) for index in (row.left, row.right) if index >= 0
        }
        self._breaks.update({index: spans for index, spans in sides.items() if len(spans) > 1})
        height = max(len(spans) for spans in sides.values())
        self.rows += [row._replace(part=part) for part in range(1, height)]
        hidden = [count_hidden(self._shown[index], spans[-1][1]) for index, spans in sides.items()]
        if any(hidden):
            self._add_notes([_describe_hidden(hidden)], row.hunk)

    def _add_folded(self, line_number: int) -> None:
        """Add the folded hunks that were above or at a line."""
        while self.folded and self.folded[0].line <= line_number:
            self.rows.append(build_folded_row(self.folded.pop(0)))

    def _add_diagnostics(self, diagnostics: Sequence[Diagnostic], hunk: int = -1, *, names_line: bool = False) -> None:
        for diagnostic in diagnostics[:MAX_PER_LINE]:
            prefix = f"line {diagnostic.line}: " if names_line and diagnostic.line else ""
            first, *rest = self._wrap_text(f"{prefix}{format_diagnostic(diagnostic)}")
            if len(rest) >= MAX_DIAGNOSTIC_ROWS:
                rest[MAX_DIAGNOSTIC_ROWS - 2 :] = [f"{rest[MAX_DIAGNOSTIC_ROWS - 2][:-1]}…"]
            self.rows.append(DiffRow("diagnostic", hunk, text=first, severity=diagnostic.severity))
            self.rows += [DiffRow("more", hunk, text=text, severity=diagnostic.severity) for text in rest]
        if left_out := diagnostics[MAX_PER_LINE:]:
            text = f"… and {len(left_out):,} more here"
            self.rows.append(DiffRow("more", hunk, text=text, severity=left_out[0].severity))

    def _wrap_text(self, text: str) -> list[str]:
        spans = text_rows.find_line_breaks(text, self._room) if self._room else [(0, len(text))]
        return [text[start:end] for start, end in spans]

    def _add_notes(self, words: Sequence[str], hunk: int = -1) -> None:
        for text in words:
            first, *rest = self._wrap_text(text)
            self.rows += [DiffRow("note", hunk, text=first), *(DiffRow("rest", hunk, text=line) for line in rest)]

    def _add_described_hunk(self, index: int) -> None:
        self.enter_hunk(index)
        change = self._diff.change
        words = _describe_rename(change) if change.hunks[index].moves else []
        words += self._notes or ([] if words else describe_whole_file(change))
        self._add_notes(words, index)
        self.enter_hunk(-1)
        self._notes = []

    def build(self) -> DiffLayout:
        self.enter_hunk(-1)
        for index in range(len(self._diff.change.hunks)):
            if index not in self._heads:
                self._add_described_hunk(index)
        self.rows += map(build_folded_row, self.folded)
        if self._diff.truncated:
            self._notes.append(LEFT_OUT)
        self._add_notes(self._notes)
        for diagnostics in self.diagnostics.values():
            self._add_diagnostics(diagnostics, names_line=True)
        indices = range(len(self._diff.change.hunks))
        heads = [self._heads[index] for index in indices]
        tails = [self._tails.get(index, len(self.rows)) for index in indices]
        return DiffLayout(self.rows, heads, tails, self._breaks)


def _describe_rename(change: Change) -> list[str]:
    rest = "; accepting any edit also accepts this, rejecting this rejects them all, s splits it"
    return [f"renamed from {format_path(change.renamed_from)}{rest if len(change.hunks) > 1 else ''}"]


def describe_whole_file(change: Change) -> list[str]:
    """Describe the change of a file whose lines cannot be shown."""
    base, pending = change.base, change.pending
    descriptions = []
    if change.renamed_from:
        descriptions.append(f"renamed from {format_path(change.renamed_from)}")
    if change.binary:
        descriptions.append(f"binary file: {_describe_size(base)} → {_describe_size(pending)}")
    elif change.operation == "create":
        descriptions.append("a new empty file" if not pending.size else f"a new file of {_describe_size(pending)}")
    elif change.operation == "delete":
        descriptions.append(f"the file is deleted ({_describe_size(base)})")
    if base.kind != pending.kind and "absent" not in (base.kind, pending.kind):
        descriptions.append(f"{describe_kind(base)} → {describe_kind(pending)}")
    if base.mode != pending.mode and "absent" not in (base.kind, pending.kind):
        descriptions.append(f"mode {base.mode & 0o7777:o} → {pending.mode & 0o7777:o}")
    return descriptions or ["the whole file"]


def _describe_size(state: FileState) -> str:
    return "nothing" if state.kind == "absent" else f"{state.size:,} bytes"


def find_matching_hunk(before: Sequence[Hunk], current: int, now: Sequence[Hunk]) -> int:
    """Return the index in `now` that replaces hunk `current` of `before`: the same hunk, else the one at its
    position, else the next surviving one, else the last one before it; -1 = none."""
    if not now:
        return -1
    if not 0 <= current < len(before):
        return 0
    current_hunk = before[current]
    places = {hunk.id: index for index, hunk in enumerate(now)}
    if current_hunk.id in places:
        return places[current_hunk.id]
    known_ids = {hunk.id for hunk in before}
    for index, hunk in enumerate(now):
        ends_before = hunk.old_start + hunk.old_lines < current_hunk.old_start
        if (
            hunk.id not in known_ids
            and not ends_before
            and hunk.old_start <= current_hunk.old_start + current_hunk.old_lines
        ):
            return index
    for hunk in [*before[current + 1 :], *reversed(before[:current])]:
        if hunk.id in places:
            return places[hunk.id]
    return min(current, len(now) - 1)
