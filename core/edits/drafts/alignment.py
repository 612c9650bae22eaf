"""Alignment of a draft with a file by dynamic programming, in which markers take up old lines at no cost.

Equal lines, and lines that define the same name at the same depth, score a match; a line that the draft leaves out
without a marker is deleted at a cost. A marker only takes lines of its depth and deeper, and begins with one of its
depth, so that it neither leaves its scope nor revives half of a rewritten body. If two best alignments give different
texts, the draft is undecided.

The recurrence is that of Needleman & Wunsch (1970), with free runs for markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.edits.drafts.line_matches import OPENER, DraftToken, find_matches, is_continuation
from core.patterns import compile_lazily

_INSERT, _DELETE, _OUTSIDE, _LEAVE, _STAY, _NEVER = -10, -30, -25, -300, -9000, -(10**9)
CLOSER: Final = compile_lazily(r"[)\]}]|</|end\b|fi\b|done\b|esac\b")
_MAX_CELLS: Final = 6_000_000  # of the score table


class AlignmentStep(NamedTuple):
    """One step: `token` matches the line `old`, or is inserted (`old` None); `token` None: the line `old` stays."""

    token: int | None
    old: int | None


class AlignmentUndecided(Exception):
    """The draft fits the file in more than one way, or is too long to be aligned."""


def align(
    tokens: Sequence[DraftToken], old: Sequence[str], depths: Sequence[int], *, open_start: bool, open_end: bool
) -> list[AlignmentStep]:
    """Return the steps of the best alignment; no line may be blank.

    `depths` are those of the old lines, in columns. `open_start` and `open_end`: the lines of the file before or after
    the draft may stay. Raises `AlignmentUndecided`.
    """
    if (len(tokens) + 1) * (len(old) + 1) > _MAX_CELLS:
        raise AlignmentUndecided
    table = _ScoreTable(tokens, old, depths, (open_start, open_end))
    first, second = table.find_steps(late=False), table.find_steps(late=True)
    if _build_aligned_text(first, tokens, old) != _build_aligned_text(second, tokens, old):
        raise AlignmentUndecided
    return first


def _build_aligned_text(steps: Sequence[AlignmentStep], tokens: Sequence[DraftToken], old: Sequence[str]) -> list[str]:
    texts = []
    for token, line in steps:
        if token is None and line is not None:
            texts.append(old[line].strip())
        elif token is not None and tokens[token].kind == "line":
            texts.append(tokens[token].text.strip())
    return texts


class _ScoreTable:
    """Scores of every (token, old line) cell; a marker has one row before it took lines and one after."""

    def __init__(
        self, tokens: Sequence[DraftToken], old: Sequence[str], depths: Sequence[int], open_ends: tuple[bool, bool]
    ) -> None:
        self.tokens, self.old, self.depths = tokens, old, depths
        self.open_start, self.open_end = open_ends
        self.base = min((token.depth for token in tokens if token.kind == "line"), default=0)
        self.costs = [_DELETE] * len(old)
        self.matches = find_matches(tokens, old, self.depths)

    def find_steps(self, *, late: bool) -> list[AlignmentStep]:
        """Find one best alignment; of equal ones the one that takes old lines as early, or as `late`, as possible."""
        rows, backs = self._fill_rows(late)
        width = len(self.old)
        column = width
        if self.open_end:
            ends = [
                score + (0 if index == width else _OUTSIDE if self._can_begin_at(index, self.base) else _NEVER)
                for index, score in enumerate(rows[-1])
            ]
            best = max(ends)
            column = max(index for index, score in enumerate(ends) if score == best)
        steps = [AlignmentStep(None, index) for index in range(width - 1, column - 1, -1)]
        steps += self._trace_back(backs, column)
        return steps[::-1]

    def _trace_back(self, backs: Sequence[bytearray], column: int) -> Iterator[AlignmentStep]:
        row = len(backs) - 1
        while row > 0 or column > 0:
            move = chr(backs[row][column])
            token = self.owners[row]
            if move in "mdkbx":
                column -= 1
            if move in "kb":
                yield AlignmentStep(None, column)
            elif move == "m":
                yield AlignmentStep(token, column)
            elif move == "i":
                yield AlignmentStep(token, None)
            if move in "mibsw" and row > 0:
                row -= 2 if move == "w" else 1
            elif move in "tx":
                row -= 1

    def _fill_rows(self, late: bool) -> tuple[list[list[int]], list[bytearray]]:
        width = len(self.old)
        start = [0] + [_NEVER] * width
        back = bytearray(b"k" * (width + 1))
        if self.open_start:
            start = [0] + [
                _OUTSIDE if self._can_begin_at(index, self.base) else _NEVER for index in range(1, width + 1)
            ]
        else:
            for index in range(width):
                start[index + 1] = start[index] + self.costs[index]
            back = bytearray(b"d" * (width + 1))
        rows, backs = [start], [back]
        self.owners: list[int | None] = [None]
        for index, token in enumerate(self.tokens):
            fill = self._fill_marker_rows if token.kind == "marker" else self._fill_line_row
            for row, moves in fill(index, rows[-1], late):
                rows.append(row)
                backs.append(moves)
                self.owners.append(index)
        return rows, backs

    def _can_begin_at(self, index: int, depth: int) -> bool:
        """True if something of this depth or less begins at an old line, and the cut before it splits nothing."""
        if index >= len(self.old) or self.depths[index] < depth:
            return True
        return self.depths[index] == depth and not is_continuation(self.old, index)

    def _fill_line_row(self, index: int, before: list[int], late: bool) -> Iterator[tuple[list[int], bytearray]]:
        token, matches = self.tokens[index], self.matches[index]
        costs = self._compute_deletion_costs(index)
        insert = 0 if token.kind == "removal" else _STAY if opens_marker_scope(self.tokens, index) else _INSERT
        row = [score + insert for score in before]
        moves = bytearray(b"i" * len(row))
        for column in range(1, len(row)):
            gain = matches.get(column - 1)
            if gain is not None:
                score = before[column - 1] + gain
                if score > row[column] or (score == row[column] and not late):
                    row[column], moves[column] = score, 109  # m
            score = row[column - 1] + costs[column - 1]
            if score > row[column] or (score == row[column] and late):
                row[column], moves[column] = score, 100  # d
        yield row, moves

    def _compute_deletion_costs(self, index: int) -> list[int]:
        """Compute the cost of deleting every line after a token: high if that leaves the scope of the lines around."""
        if opens_marker_scope(self.tokens, index):
            return [_STAY] * len(self.old)
        around = self.tokens[index : index + 2]
        depth = min((token.floor if token.kind == "marker" else token.depth for token in around), default=0)
        return self._compute_scope_costs(depth) if len(around) == 2 else self.costs

    def _compute_scope_costs(self, depth: int) -> list[int]:
        return [_LEAVE if below < depth else _DELETE for below in self.depths] if depth else self.costs

    def _fill_marker_rows(self, index: int, before: list[int], late: bool) -> Iterator[tuple[list[int], bytearray]]:
        token = self.tokens[index]
        waiting = list(before)
        costs = [_STAY] * len(self.old) if token.is_scope_opened else self._compute_scope_costs(token.floor)
        moves = bytearray(b"s" * len(waiting))
        for column in range(1, len(waiting)):
            score = waiting[column - 1] + costs[column - 1]
            if score > waiting[column]:
                waiting[column], moves[column] = score, 100  # d
        yield waiting, moves
        taking = [_NEVER] * len(waiting)
        moves = bytearray(b"s" * len(taking))
        for column in range(1, len(taking)):
            line = column - 1
            if self.depths[line] < token.floor and not (token.is_first or token.is_last):
                continue
            fresh = waiting[line] if self._can_marker_begin(token, self.depths[line]) else _NEVER
            if taking[line] > _NEVER and (taking[line] > fresh or (taking[line] == fresh and not late)):
                taking[column], moves[column] = taking[line], 107  # k, continues
            elif fresh > _NEVER:
                taking[column], moves[column] = fresh, 98  # b, begins
        yield taking, moves
        left_row, moves = self._fill_left_row(index, waiting, taking, late)
        yield left_row, moves
        yield from self._fill_deleted_rows(index, left_row)

    def _fill_deleted_rows(self, index: int, left_row: list[int]) -> Iterator[tuple[list[int], bytearray]]:
        """Yield the rows after a marker in an inner scope: lines behind that scope may be deleted up to the next line
        of the draft."""
        after = next((token for token in self.tokens[index + 1 :] if token.kind == "line"), None)
        floor = self.tokens[index].floor
        if after is None or after.depth >= floor:
            return
        deletion_row, moves = [_NEVER] * len(left_row), bytearray(b"d" * len(left_row))
        for column in range(1, len(left_row)):
            depth = self.depths[column - 1]
            if depth < after.depth:
                continue
            deletion_row[column] = deletion_row[column - 1] + _DELETE
            if depth < floor and left_row[column - 1] + _DELETE > deletion_row[column]:
                deletion_row[column], moves[column] = left_row[column - 1] + _DELETE, 120  # x
        yield deletion_row, moves
        row, moves = list(left_row), bytearray(b"w" * len(left_row))
        for column, score in enumerate(deletion_row):
            if score > row[column]:
                row[column], moves[column] = score, 116  # t
        yield row, moves

    def _can_marker_begin(self, token: DraftToken, depth: int) -> bool:
        if token.is_first or depth == token.floor:
            return True
        return depth > token.floor if token.is_scope_opened else token.is_last and depth < token.floor

    def _fill_left_row(
        self, index: int, waiting: list[int], taking: list[int], late: bool
    ) -> tuple[list[int], bytearray]:
        """Fill the row after a marker, which took nothing or ends where no part of its lines is cut off."""
        token = self.tokens[index]
        after = next((candidate for candidate in self.tokens[index + 1 :] if candidate.kind == "line"), None)
        depth = token.floor if after is None else max(token.floor, after.depth)
        row, moves = list(waiting), bytearray(b"w" * len(waiting))
        for column, score in enumerate(taking):
            if score < row[column] or (score == row[column] and late) or score <= _NEVER // 2:
                continue
            if self._can_begin_at(column, depth) or (
                after is not None
                and (self.old[column].strip(), self.depths[column]) == (after.text.strip(), after.depth)
            ):
                row[column], moves[column] = score, 116  # t
        return row, moves


def assign_scopes(tokens: Sequence[DraftToken]) -> list[DraftToken]:
    """Return the tokens, with the scope of every marker."""
    nonblank_indexes = [index for index, token in enumerate(tokens) if token.text.strip()]
    base = min((tokens[index].depth for index in nonblank_indexes if tokens[index].kind == "line"), default=0)
    scoped_tokens = list(tokens)
    for index in nonblank_indexes:
        if tokens[index].kind == "marker":
            floor, has_opener = _find_scope(tokens, index)
            first, last = index == nonblank_indexes[0], index == nonblank_indexes[-1]
            scoped_tokens[index] = tokens[index]._replace(
                floor=max(floor, base), is_scope_opened=has_opener, is_first=first, is_last=last
            )
    return scoped_tokens


def mark_exposed(tokens: Sequence[DraftToken]) -> list[DraftToken]:
    """Return the tokens; a line without lines below it, next to a marker that may cover a similar line, is exposed."""
    nonblank_indexes = [index for index, token in enumerate(tokens) if token.text.strip()]
    marked_tokens = list(tokens)
    for before, index, after in zip(
        [-1, *nonblank_indexes], nonblank_indexes, [*nonblank_indexes[1:], -1], strict=False
    ):
        neighbours = [tokens[position] for position in (before, after) if position >= 0]
        heads = after >= 0 and tokens[after].depth > tokens[index].depth
        if not heads and any(token.kind == "marker" for token in neighbours):
            marked_tokens[index] = tokens[index]._replace(is_exposed=tokens[index].kind == "line")
    return marked_tokens


def opens_marker_scope(tokens: Sequence[DraftToken], index: int) -> bool:
    """True if a marker is the first line in the scope that a line opens: then the line can't be new."""
    return is_marked_inside(tokens, index) and bool(OPENER.match(tokens[index].text))


def is_marked_inside(tokens: Sequence[DraftToken], index: int) -> bool:
    """True if the line after a token is a marker, and deeper."""
    after = next((token for token in tokens[index + 1 :] if token.text.strip()), None)
    return after is not None and after.kind == "marker" and after.depth > tokens[index].depth


def _find_scope(tokens: Sequence[DraftToken], index: int) -> tuple[int, bool]:
    """Return the least depth of the lines that a marker covers, and whether the line before it opens their scope."""
    depth = tokens[index].depth
    before = next((t for t in reversed(tokens[:index]) if t.text.strip()), None)
    after = next((t for t in tokens[index + 1 :] if t.kind == "line" and t.text.strip()), None)
    has_opener = before is not None and before.kind == "line" and bool(OPENER.match(before.text))
    if before is not None and has_opener and depth == 0 and before.text.startswith("#"):
        return 0, True
    floor = depth
    if after is not None and not CLOSER.match(after.text.strip()):
        floor = max(floor, after.depth)
    if before is not None and has_opener:
        inside = after is None or after.depth >= before.depth or depth > before.depth
        return (max(floor, before.depth + 1) if inside else depth), True
    if before is not None and after is not None and CLOSER.match(after.text.strip()) and floor <= after.depth:
        floor = max(floor, min(before.depth, after.depth + 8))
    return floor, False
