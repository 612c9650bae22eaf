"""The places of the hunks of a patch in a file: each is looked for by its lines, wherever its header says that it is.

Line numbers only choose between places that fit equally, and anchors narrow the search to what they open. Hunks follow
each other; one that only stands above the one before it is taken where every hunk of the file stands once. A hunk that
has no line to be found by needs a place that its anchor, its number or the file itself leaves no choice about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

from core.edits.errors import EditError, format_part
from core.edits.indentation import Shift, extract_indent
from core.edits.matching.block_merge import MatchedBlock, is_torn
from core.edits.matching.failures import build_ambiguity_error, build_not_found_error
from core.edits.matching.line_edit import LineEdit
from core.edits.matching.misspelling import find_misspelt_context
from core.edits.matching.new_lines import mend_new_lines
from core.edits.matching.search_text import SearchText
from core.edits.patches.blank_hunks import place_blank_hunk
from core.edits.patches.patch_anchors import Scope, find_scopes
from core.edits.patches.patch_records import PatchHunk, Row
from core.text.lines import Opcode, Splice, count_shared_ends, split_whole_lines
from core.text.similarity import measure_similarity

_STEPS: Final = (("trailing_space", False), ("indentation", False), ("look_alikes", True), ("spacing", True))
_LOST_SPACE: Final = "lost_space"
_FUZZY: Final = "fuzzy"
_NEAR: Final = 10  # lines that the number of a hunk may be wrong by, whatever stands there
_AROUND: Final = 5  # lines around the number of a hunk among which its old lines are looked for, changed
_ALIKE: Final = 0.75


class PlacedHunk(NamedTuple):
    """The change of a hunk, up to which offset its context reaches, how it was matched, the kinds of slip that were put
    right in its new lines, and by how many lines its number is wrong."""

    splice: Splice
    end: int
    rung: str
    slips: tuple[str, ...] = ()
    drift: int = 0


class _Candidate(NamedTuple):
    """A block that may be the place of a hunk, and the edit and the shift of its indentation there."""

    block: MatchedBlock
    edit: LineEdit
    shift: Shift
    rung: str


class _OutOfOrder(Exception):
    """A hunk stands above the one before it."""


class _Reach(Struct, frozen=True, kw_only=True):
    """The lines from which a hunk is looked for: behind the `context` of the hunk before it, else behind its `change`.
    `drift`: by how many lines the number of the hunk before it is wrong. `is_ordered` False: hunks may stand in any
    order."""

    context: int = 0
    change: int = 0
    drift: int = 0
    is_ordered: bool = True


def place_hunks(search_text: SearchText, hunks: Sequence[PatchHunk]) -> list[PlacedHunk]:
    """Find the place of every hunk; one that was given twice for one place has it once. Raises `EditError` that names
    the hunk."""
    try:
        return _place_all(search_text, hunks, is_ordered=True)
    except _OutOfOrder:
        return _place_all(search_text, hunks, is_ordered=False)


def _place_all(search_text: SearchText, hunks: Sequence[PatchHunk], *, is_ordered: bool) -> list[PlacedHunk]:
    placed_hunks: list[PlacedHunk] = []
    reach = _Reach(is_ordered=is_ordered)
    for number, hunk in enumerate(hunks, start=1):
        try:
            placed_hunk = _HunkSearch(search_text, hunk, reach).place()
            same = next(
                (index for index, earlier_hunk in enumerate(placed_hunks) if earlier_hunk.splice == placed_hunk.splice),
                None,
            )
            if same is not None:
                placed_hunks[same] = placed_hunks[same]._replace(slips=(*placed_hunks[same].slips, "repeated"))
                continue
            if any(_overlap(earlier_hunk.splice, placed_hunk.splice) for earlier_hunk in placed_hunks):
                raise EditError("It changes lines that another hunk changes, too.", hint="Nothing was changed.")
        except EditError as error:
            raise error.name_part(format_part("Hunk", number, len(hunks))) from error
        placed_hunks.append(placed_hunk)
        if is_ordered:
            context, change = (_find_line(search_text, offset) for offset in (placed_hunk.end, placed_hunk.splice.end))
            reach = _Reach(context=context, change=change, drift=placed_hunk.drift)
    return placed_hunks


def _overlap(one: Splice, other: Splice) -> bool:
    first, second = sorted((one, other))
    return first.end > second.start or (first.start == second.start and second.end > second.start == first.end)


def _find_line(search_text: SearchText, offset: int) -> int:
    """The first line that begins at an offset or behind it."""
    if offset >= len(search_text.text):
        return len(search_text.lines)
    line = search_text.lines.find_line(offset)
    return line if search_text.lines.starts[line] == offset else line + 1


class _HunkSearch:
    """Looks for one hunk."""

    def __init__(self, search_text: SearchText, hunk: PatchHunk, reach: _Reach) -> None:
        self.search_text = search_text
        self.hunk = hunk
        self.reach = reach
        old_lines = [line for sign, line in hunk.rows if sign != "+"]
        fresh = [line for sign, line in hunk.rows if sign == "+"]
        mended_lines, self.slips = mend_new_lines(search_text, old_lines, fresh)
        lines = iter(mended_lines)
        self.rows = [(sign, next(lines) if sign == "+" else line) for sign, line in hunk.rows]
        self.is_blank = not any(line.strip() for line in old_lines)

    def place(self) -> PlacedHunk:
        """Find the place. Raises `EditError`, or `_OutOfOrder`."""
        scopes = self._find_scopes()
        bare = self.rows[: len(self.rows) - self.hunk.spare]
        if self.is_blank:
            splice = place_blank_hunk(self.search_text, self.hunk, bare, scopes)
            return PlacedHunk(splice, splice.end, "exact", self.slips)
        readings = [self.rows, bare] if self.hunk.spare else [self.rows]
        for fold, skip_blank in _STEPS:
            for rows in readings:
                candidates = list(self._find_candidates(rows, fold, skip_blank=skip_blank))
                if candidates:
                    return self._build_placed(self._choose(candidates, scopes))
        misspelt = [candidate for candidate in map(self._find_misspelt, readings) if candidate is not None]
        if misspelt:
            return self._build_placed(self._choose(misspelt[:1], scopes))
        raise self._build_not_found()

    def _build_not_found(self) -> EditError:
        return build_not_found_error(self.search_text, _join_rows(self.rows, "+"))

    def _build_elsewhere(self, candidates: Sequence[_Candidate], location: str) -> EditError:
        """An `EditError` for lines that are gone from the place that is meant, while others like them are not."""
        places = ", ".join(str(candidate.block.first + 1) for candidate in candidates[:20])
        return EditError(
            f"The lines of the hunk do not stand {location}, but in another place: line {places}.",
            hint="Nothing was changed. Read the file again, and give the lines before and after the change.",
        )

    def _find_scopes(self) -> list[Scope]:
        """Find what the anchors open. A wrong anchor counts for nothing where the hunk can be found without it."""
        try:
            return find_scopes(self.search_text.lines.bodies, self.hunk.anchors, self.reach.change)
        except EditError:
            if self.is_blank:
                raise
            return []

    def _find_candidates(self, rows: Sequence[Row], fold: str, *, skip_blank: bool) -> Iterator[_Candidate]:
        edit = _build_edit(self.search_text, rows)
        for block in edit.find_blocks(fold, skip_blank):
            if self.hunk.is_at_end and any(body.strip() for body in self.search_text.lines.bodies[block.last + 1 :]):
                continue
            repaired_edit = self._repair_signs(rows, block) if fold == "indentation" else None
            shift = None if is_torn(block, edit.change.opcodes) else edit.deduce_shift(block)
            if repaired_edit is not None and (shift is None or not _is_shift_meant(edit, block, rows)):
                yield _Candidate(block, repaired_edit, str, _LOST_SPACE)
            elif shift is not None:
                same = all(old_line == present for old_line, present in edit.pair_lines(block))
                yield _Candidate(block, edit, shift, "exact" if same else fold)

    def _repair_signs(self, rows: Sequence[Row], block: MatchedBlock) -> LineEdit | None:
        """Read rows of context as lines that begin with the space that was taken for their sign, where they stand in
        the block like that; None unless all rows are the lines of the block then."""
        present = (self.search_text.lines.bodies[position] for position in block.mapping)
        repaired_rows = [
            (sign, f" {line}" if sign == " " and f" {line}".rstrip() == body.rstrip() else line)
            for sign, line, body in ((*row, next(present) if row[0] != "+" else "") for row in rows)
        ]
        edit = _build_edit(self.search_text, repaired_rows)
        if repaired_rows == list(rows) or any(one.rstrip() != two.rstrip() for one, two in edit.pair_lines(block)):
            return None
        return edit

    def _find_misspelt(self, rows: Sequence[Row]) -> _Candidate | None:
        """Find the hunk by context that is misspelt; the lines that go are those of the file."""
        edit = _build_edit(self.search_text, rows)
        signs = [sign for sign, _ in rows if sign != "+"]
        block = find_misspelt_context(edit, [number for number, sign in enumerate(signs) if sign == "-"])
        shift = edit.deduce_shift(block) if block else None
        return None if block is None or shift is None else _Candidate(block, edit, shift, _FUZZY)

    def _choose(self, candidates: Sequence[_Candidate], scopes: Sequence[Scope]) -> _Candidate:
        """Choose the one place that is meant. Raises `EditError` where that can't be told, or `_OutOfOrder`."""
        reachable = [candidate for candidate in candidates if candidate.block.first >= self.reach.context]
        reachable = reachable or [candidate for candidate in candidates if candidate.block.first >= self.reach.change]
        if not reachable:
            raise _OutOfOrder
        inside = [candidate for candidate in reachable if any(scope.holds(candidate.block) for scope in scopes)]
        if not inside and any(map(self._is_stale_in, scopes)):
            raise self._build_elsewhere(reachable, "in what its @@ line names")
        options = inside or reachable
        if len(options) == 1:
            if self._is_stale_at_line(options[0].block):
                raise self._build_elsewhere(options, f"near line {self.hunk.line}, which it names")
            return options[0]
        if self.hunk.is_at_end:
            return options[-1]
        matches = [
            candidate for candidate in options if candidate.block.first + 1 == (self.hunk.line or 0) + self.reach.drift
        ]
        if matches:
            return matches[0]
        raise build_ambiguity_error(
            self.search_text, [candidate.block.first + 1 for candidate in options], options[0].rung
        )

    def _is_stale_in(self, scope: Scope) -> bool:
        """True if a scope has all the context of the hunk, so that it is meant, but its lines to change are gone."""
        scope_lines = {body.strip() for body in self.search_text.lines.bodies[max(scope.line, 0) : scope.stop]}
        context = [line.strip() for sign, line in self.rows if sign == " " and line.strip()]
        return scope_lines.issuperset(context)

    def _is_stale_at_line(self, block: MatchedBlock) -> bool:
        """True if a block is not at the line that the hunk names, and has no context that speaks for it, or is far and
        what stands there is what the hunk was made for, changed by now. A hunk that names the first line names none."""
        line, old_lines = (self.hunk.line or 0) - 1, [row for sign, row in self.rows if sign != "+"]
        if line < 0 or block.first == line + self.reach.drift:
            return False
        if line > 0 and not any(sign == " " and row.strip() for sign, row in self.rows):
            return True
        if abs(block.first - line) <= max(_NEAR, 2 * len(old_lines)):
            return False
        bodies, nonblank_count = self.search_text.lines.bodies, sum(bool(row.strip()) for row in old_lines)
        return any(
            sum(measure_similarity(row.strip(), body.strip()) for row, body in pairs if row.strip())
            >= _ALIKE * nonblank_count
            for start in range(max(0, line - _AROUND), line + _AROUND + 1)
            for pairs in [list(zip(old_lines, bodies[start : start + len(old_lines)], strict=False))]
        )

    def _build_placed(self, candidate: _Candidate) -> PlacedHunk:
        splice = candidate.edit.build_splice(candidate.block, candidate.shift)
        drift = 0 if self.hunk.line is None else candidate.block.first + 1 - self.hunk.line
        return PlacedHunk(_trim_splice(self.search_text.text, splice), splice.end, candidate.rung, self.slips, drift)


def _is_shift_meant(edit: LineEdit, block: MatchedBlock, rows: Sequence[Row]) -> bool:
    """True if new lines are indented like the context as it was written, and not as it is in the file."""
    pairs = edit.pair_lines(block)
    fresh = {extract_indent(line) for sign, line in rows if sign == "+" and line.strip()}
    hunk_indents, present = ({extract_indent(pair[side]) for pair in pairs} for side in (0, 1))
    return len(fresh & hunk_indents) > len(fresh & present)


def _build_edit(search_text: SearchText, rows: Sequence[Row]) -> LineEdit:
    """The edit of a hunk, in which what becomes what is as its signs say."""
    old, new = 0, 0
    opcodes: list[Opcode] = []
    for is_context, group in groupby(rows, key=lambda row: row[0] == " "):
        signs = [sign for sign, _ in group]
        removed_count, added_count = (sum(sign != other for sign in signs) for other in "+-")
        tag = (
            "equal"
            if is_context
            else "replace"
            if removed_count and added_count
            else "delete"
            if removed_count
            else "insert"
        )
        opcodes.append((tag, old, old + removed_count, new, new + added_count))
        old, new = old + removed_count, new + added_count
    return LineEdit(search_text, _join_rows(rows, "+"), _join_rows(rows, "-"), opcodes=opcodes)


def _join_rows(rows: Sequence[Row], without: str) -> str:
    return "".join(f"{line}\n" for sign, line in rows if sign != without)


def _trim_splice(text: str, splice: Splice) -> Splice:
    """Return the splice without the whole lines at its ends that stay."""
    old, new = split_whole_lines(text[splice.start : splice.end]), split_whole_lines(splice.text)
    head, tail = count_shared_ends(old, new)
    start = splice.start + sum(map(len, old[:head]))
    end = splice.end - sum(map(len, old[len(old) - tail :]))
    return Splice(start, end, "".join(new[head : len(new) - tail]))
