"""The positions of the hunks of a patch in a file, found by the lines of a hunk and not by its header.

Line numbers only choose between positions that fit equally, and anchors (the lines that an `@@` names) narrow the
search to the scope that they open: a hunk that is nowhere in the scope of its anchor is not meant for another position
that merely looks like it. Hunks follow each other; one that is only found above the one before it is accepted where
every hunk of the file is found once.

A hunk without a line to find it by (it only adds lines, or all its old lines are blank) needs an unambiguous position:
by its anchor, by its line number, at the end of the file, or at the only blank lines of that number. Otherwise it is
refused; it is never applied without an effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

from core.edits.errors import EditError, format_part
from core.edits.formats.patch_records import PatchHunk, Row
from core.edits.indentation import Shift, extract_indent, measure_depth
from core.edits.matching.failures import build_ambiguity_error, build_not_found_error
from core.edits.matching.line_edit import LineEdit, MatchedBlock, touches_unknown_blanks
from core.edits.matching.misspelling import find_misspelt_context
from core.edits.matching.new_lines import mend_new_lines
from core.edits.matching.search_text import SearchText
from core.patterns import compile_lazily
from core.text.lines import Opcode, Splice, TextLines, apply_splices, count_shared_ends, split_whole_lines
from core.text.similarity import measure_similarity

_MAX_NAMESAKES: Final = 100  # scopes of one anchor
_CONTINUES = compile_lazily(r"[)\]}{#]|(?:else|elif|except|finally|catch|case|default|end)\b|\w+\s*:$")
_MAX_STARTS = 50  # runs of blank lines that are compared
_HINT = "Give a line of the file before or after the change. Nothing was changed."
_STEPS: Final = (("trailing_space", False), ("indentation", False), ("look_alikes", True), ("spacing", True))
_LOST_SPACE: Final = "lost_space"
_FUZZY: Final = "fuzzy"
_NEAR: Final = 10  # lines by which the number of a hunk may always be wrong
_AROUND: Final = 5  # lines around the number of a hunk that are searched for changed old lines
_SIMILAR: Final = 0.75  # similarity of old lines that have changed


class PlacedHunk(NamedTuple):
    """The change of a hunk. `end`: the offset where its context ends; `rung`: the rung on which it matched.

    `slips`: the kinds of mistakes that were repaired in its new lines; `drift`: lines by which its line number is
    wrong.
    """

    splice: Splice
    end: int
    rung: str
    slips: tuple[str, ...] = ()
    drift: int = 0


class _Candidate(NamedTuple):
    """A block that may be the position of a hunk, with the edit and the shift of its indentation there."""

    block: MatchedBlock
    edit: LineEdit
    shift: Shift
    rung: str


class _OutOfOrder(Exception):
    """A hunk is above the one before it."""


class _Reach(Struct, frozen=True, kw_only=True):
    """The lines from which a hunk is searched: behind the `context` of the previous hunk, else behind its `change`.

    `drift`: lines by which the number of the previous hunk is wrong. `is_ordered` False: hunks may be in any order.
    """

    context: int = 0
    change: int = 0
    drift: int = 0
    is_ordered: bool = True


def place_hunks(search_text: SearchText, hunks: Sequence[PatchHunk]) -> list[PlacedHunk]:
    """Find the position of every hunk; a repetition in the same position counts once. Raises `EditError` that names the
    hunk."""
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
    """Return the first line that begins at an offset or behind it."""
    if offset >= len(search_text.text):
        return len(search_text.lines)
    line = search_text.lines.find_line(offset)
    return line if search_text.lines.starts[line] == offset else line + 1


class _HunkSearch:
    """The search for one hunk."""

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
        """Find the position of the hunk. Raises `EditError`, or `_OutOfOrder`."""
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
        raise self._build_not_found_error()

    def _build_not_found_error(self) -> EditError:
        return build_not_found_error(self.search_text, _join_rows(self.rows, "+"))

    def _build_moved_error(self, candidates: Sequence[_Candidate], location: str) -> EditError:
        """Build the `EditError` for lines that are missing in the named position, but occur elsewhere."""
        line_list = ", ".join(str(candidate.block.first + 1) for candidate in candidates[:20])
        return EditError(
            f"The lines of the hunk are not {location}, but elsewhere: line {line_list}.",
            hint="Nothing was changed. Read the file again, and give the lines before and after the change.",
        )

    def _find_scopes(self) -> list[Scope]:
        """Find the scopes of the anchors. A wrong anchor is ignored if the hunk can be found without it."""
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
            shift = None if touches_unknown_blanks(block, edit.change.opcodes) else edit.deduce_shift(block)
            if repaired_edit is not None and (shift is None or not _is_shift_meant(edit, block, rows)):
                yield _Candidate(block, repaired_edit, str, _LOST_SPACE)
            elif shift is not None:
                same = all(old_line == present for old_line, present in edit.pair_lines(block))
                yield _Candidate(block, edit, shift, "exact" if same else fold)

    def _repair_signs(self, rows: Sequence[Row], block: MatchedBlock) -> LineEdit | None:
        """Give rows of context the leading space back that was taken for their sign, if the block has them like that;
        None unless all rows match the block then."""
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
        """Find the hunk by misspelt context; removed lines have to match the file."""
        edit = _build_edit(self.search_text, rows)
        signs = [sign for sign, _ in rows if sign != "+"]
        block = find_misspelt_context(edit, [number for number, sign in enumerate(signs) if sign == "-"])
        shift = edit.deduce_shift(block) if block else None
        return None if block is None or shift is None else _Candidate(block, edit, shift, _FUZZY)

    def _choose(self, candidates: Sequence[_Candidate], scopes: Sequence[Scope]) -> _Candidate:
        """Choose the only suitable position. Raises `EditError` if there are several, or `_OutOfOrder`."""
        reachable = [candidate for candidate in candidates if candidate.block.first >= self.reach.context]
        reachable = reachable or [candidate for candidate in candidates if candidate.block.first >= self.reach.change]
        if not reachable:
            raise _OutOfOrder
        inside = [candidate for candidate in reachable if any(scope.contains(candidate.block) for scope in scopes)]
        if not inside and any(map(self._is_stale_in, scopes)):
            raise self._build_moved_error(reachable, "in what its @@ line names")
        options = inside or reachable
        if len(options) == 1:
            if self._is_stale_at_line(options[0].block):
                raise self._build_moved_error(options, f"near line {self.hunk.line}, which it names")
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
        """True if a scope has all the context of the hunk, so that it is meant, but lacks the lines to change."""
        scope_lines = {body.strip() for body in self.search_text.lines.bodies[max(scope.line, 0) : scope.stop]}
        context = [line.strip() for sign, line in self.rows if sign == " " and line.strip()]
        return scope_lines.issuperset(context)

    def _is_stale_at_line(self, block: MatchedBlock) -> bool:
        """True if a block is not at the line that the hunk names, and either has no context, or is far from lines near
        the named one which are similar to the old lines: those were meant, and have changed. A hunk that names the
        first line names none."""
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
            >= _SIMILAR * nonblank_count
            for start in range(max(0, line - _AROUND), line + _AROUND + 1)
            for pairs in [list(zip(old_lines, bodies[start : start + len(old_lines)], strict=False))]
        )

    def _build_placed(self, candidate: _Candidate) -> PlacedHunk:
        splice = candidate.edit.build_splice(candidate.block, candidate.shift)
        drift = 0 if self.hunk.line is None else candidate.block.first + 1 - self.hunk.line
        return PlacedHunk(_trim_splice(self.search_text.text, splice), splice.end, candidate.rung, self.slips, drift)


def _is_shift_meant(edit: LineEdit, block: MatchedBlock, rows: Sequence[Row]) -> bool:
    """True if new lines are indented like the context in the patch, and not like that in the file."""
    pairs = edit.pair_lines(block)
    fresh = {extract_indent(line) for sign, line in rows if sign == "+" and line.strip()}
    hunk_indents, present = ({extract_indent(pair[side]) for pair in pairs} for side in (0, 1))
    return len(fresh & hunk_indents) > len(fresh & present)


def _build_edit(search_text: SearchText, rows: Sequence[Row]) -> LineEdit:
    """Build the edit of a hunk; its signs determine the opcodes."""
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
    """Return the splice without unchanged whole lines at its ends."""
    old, new = split_whole_lines(text[splice.start : splice.end]), split_whole_lines(splice.text)
    head, tail = count_shared_ends(old, new)
    start = splice.start + sum(map(len, old[:head]))
    end = splice.end - sum(map(len, old[len(old) - tail :]))
    return Splice(start, end, "".join(new[head : len(new) - tail]))


class Scope(NamedTuple):
    """Lines from an anchor (`line`, 0-indexed) up to `stop`, the first line outside of the block that the anchor opens.

    `is_open` False: it opens no block, and the scope reaches to the end of the file.
    """

    line: int
    stop: int
    is_open: bool

    def contains(self, block: MatchedBlock) -> bool:
        """True if a block is in the scope, touches its anchor or begins at its end."""
        return block.last >= self.line and block.first <= self.stop


def find_scopes(bodies: Sequence[str], anchors: Sequence[str], first: int) -> list[Scope]:
    """Find every scope that anchors name, each within that of the anchor before it, else behind it.

    Scopes before line `first` only count if there is none behind it. Raises `EditError` for an anchor that the file
    does not have.
    """
    scopes = [Scope(first - 1, len(bodies), is_open=False)]
    for number, anchor in enumerate(anchors):
        within = [
            scope
            for outer_scope in scopes
            for scope in _find_named(bodies, anchor, outer_scope.line + 1, outer_scope.stop)
        ]
        behind = within or list(
            _find_named(bodies, anchor, min(outer_scope.line for outer_scope in scopes) + 1, len(bodies))
        )
        scopes = behind or (list(_find_named(bodies, anchor, 0, len(bodies))) if number == 0 else [])
        if not scopes:
            raise EditError(
                f"The line that @@ names was not found: {anchor.strip()[:120]!r}.",
                hint="Copy a line of the file after @@, or leave it out. Nothing was changed.",
            )
    return scopes if anchors else []


def _find_named(bodies: Sequence[str], anchor: str, start: int, stop: int) -> Iterator[Scope]:
    """Yield the scope of every line that equals an anchor; if there is none, that begins with it, or else that contains
    it."""
    needle = anchor.strip()
    rows = [(number, bodies[number].strip()) for number in range(max(0, start), min(stop, len(bodies)))]
    for same in (str.__eq__, str.startswith, str.__contains__):
        lines = [number for number, row in rows if same(row, needle)]
        if lines:
            yield from (_build_scope(bodies, line) for line in lines[:_MAX_NAMESAKES])
            return


def _build_scope(bodies: Sequence[str], line: int) -> Scope:
    depth = measure_depth(bodies[line])
    below = (number for number in range(line + 1, len(bodies)) if bodies[number].strip())
    first = next(below, None)
    if first is None or (measure_depth(bodies[first]) <= depth and bodies[first].strip() != "{"):
        return Scope(line, len(bodies), is_open=False)
    for number in below:
        line_depth = measure_depth(bodies[number])
        if line_depth < depth or (line_depth == depth and not _CONTINUES.match(bodies[number].strip())):
            return Scope(line, number, is_open=True)
    return Scope(line, len(bodies), is_open=True)


def place_blank_hunk(search_text: SearchText, hunk: PatchHunk, rows: Sequence[Row], scopes: Sequence[Scope]) -> Splice:
    """Return the change of a hunk whose old lines are blank, or that has none. Raises `EditError` if its position is
    ambiguous."""
    lines = search_text.lines
    size = sum(sign != "+" for sign, _ in rows)
    if not size:
        return _build_insertion(search_text, rows, _find_gap(lines, hunk, scopes))
    starts = [
        start
        for start in range(len(lines) - size + 1)
        if not any(body.strip() for body in lines.bodies[start : start + size])
    ]
    preferred_starts = [hunk.line - 1] if hunk.line is not None else [scope.line + 1 for scope in scopes]
    if hunk.is_at_end:
        preferred_starts = [start for start in starts if not any(body.strip() for body in lines.bodies[start:])][:1]
    candidate_starts = [start for start in starts if start in preferred_starts] or (starts if not scopes else [])
    if not candidate_starts:
        raise EditError("The hunk only names blank lines, and there are none at its place.", hint=_HINT)
    splices = [_build_splice(lines, rows, start) for start in candidate_starts[:_MAX_STARTS]]
    results = {apply_splices(search_text.text, [splice]) for splice in splices}
    if len(results) > 1 or len(candidate_starts) > _MAX_STARTS:
        raise build_ambiguity_error(search_text, [start + 1 for start in candidate_starts], "exact")
    return splices[0]


def _find_gap(lines: TextLines, hunk: PatchHunk, scopes: Sequence[Scope]) -> int:
    """Return the line before which a hunk that only adds lines inserts them."""
    if scopes:
        if len(scopes) > 1:
            line_list = ", ".join(str(scope.line + 1) for scope in scopes[:20])
            raise EditError(f"The line that @@ names occurs at several places: lines {line_list}.", hint=_HINT)
        return scopes[0].line + 1
    if hunk.line is None or hunk.is_at_end:
        return len(lines)
    if hunk.old_count or hunk.line > len(lines):
        raise EditError(
            f"The hunk only adds lines, and what it says of line {hunk.line} does not fit the file.", hint=_HINT
        )
    return hunk.line


def _build_insertion(search_text: SearchText, rows: Sequence[Row], index: int) -> Splice:
    lines, end = search_text.lines, search_text.lines.find_dominant_ending()
    offset = lines.starts[index] if index < len(lines) else len(search_text.text)
    text = "".join(f"{line}{end}" for _, line in rows)
    if index >= len(lines) and lines.bodies and not lines.ends[-1]:
        return Splice(offset, offset, end + text.removesuffix(end))
    return Splice(offset, offset, text)


def _build_splice(lines: TextLines, rows: Sequence[Row], start: int) -> Splice:
    """Build the change of a run of blank lines that begins at a line."""
    end, index, parts = lines.find_dominant_ending(), start, []
    for sign, line in rows:
        if sign == "+":
            parts.append(f"{line}{end}")
            continue
        if sign == " ":
            parts.append(lines.bodies[index] + (lines.ends[index] or end))
        index += 1
    text = "".join(parts)
    is_open_ended = index == len(lines) and not lines.ends[-1]
    return Splice(lines.starts[start], lines.find_end(index - 1), text.removesuffix(end) if is_open_ended else text)
