"""The rules for markers: the lines that a marker covers stay, and a piece belongs where the file has lines of it.

Whichever way a draft was placed, it has to mention the lines that are removed: they are between two lines that the same
piece shares with the file, or an added line is a version of them by its name. Next to a marker, an added line that may
be an addition or a replacement is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from core.edits.drafts.gap_rules import GapRules
from core.edits.drafts.line_costs import compute_replacement_cost, is_informative
from core.edits.drafts.line_keys import CALL, is_same_call, parse_line_key
from core.edits.drafts.line_matches import BRANCH, CONTINUED, PREFIX, DraftToken, ResultRow, compile_subject
from core.edits.drafts.marked_draft import LEAVES, NAMED, OPENS, Gap, MarkedDraft, count_open
from core.edits.drafts.piece_rules import PieceRules
from core.edits.errors import EditError
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily

_WORD: Final = compile_lazily(r"[A-Za-z_]\w+")
_KEYWORD: Final = compile_lazily(
    r"\b(?:self|this|return|raise|throw|new|def|let|const|var|if|else|for|in|of|not|and|or|the|an|is|to|func|fn|function"
    r"|public|private|static|final|void|int|string|true|false|null|none|nil|await|async|import|from|print|assert)\b"
)
_CLOSES: Final = compile_lazily(r"[)\]}]|</|end\b")
_IMPORT_LINE: Final = compile_lazily(r"(?:import|from|use|using|#include|require)\b")
_REPEATS: Final = compile_lazily(r"(?:assert\w*|expect|self\.assert\w+|insert into)\b", re.IGNORECASE)
_HEADING: Final = compile_lazily(r"#{2,6}\s|\[+[\w.\"' -]+\]+$")
_DEEP: Final = 10**6
_FEW: Final = 2  # informative lines that are enough to expect one of them in the file
_MANY: Final = 6  # lines that are removed beyond those added, between lines that the file has twice
_TELLING: Final = 8  # characters of a text that is informative
_SHARED: Final = 0.5  # part of the words of new lines above which they may be a version of their neighbours


def find_violation(draft: MarkedDraft) -> str | None:
    """Return why the result of a draft with markers breaks the rules; None: it breaks none."""
    if not draft.markers:
        return None
    rules = _MarkerRules(draft)
    return (
        next(filter(None, map(rules.judge_gap, draft.iterate_gaps())), None)
        or rules.find_stray_piece()
        or GapRules(draft).find_violation()
    )


def check_target(rows: Sequence[str], marker_flags: Sequence[bool], bodies: Sequence[str]) -> None:
    """Raise `EditError` if the file has no line of a draft with markers, and the draft is not one new definition."""
    draft_lines = [row for row, mark in zip(rows, marker_flags, strict=True) if not mark and is_informative(row)]
    file_lines = {body.strip() for body in bodies}
    keys = {parse_line_key(body) for body in bodies} - {None}
    if len(draft_lines) < _FEW or not any(marker_flags) or not any(map(is_informative, bodies)):
        return
    if any(row.strip() in file_lines or parse_line_key(row) in keys for row in draft_lines) or any(
        map(_is_named, _find_tops(draft_lines))
    ):
        return
    raise EditError(
        f"None of the edit's lines is in the file: not {draft_lines[0].strip()[:80]!r}, and nothing after it.",
        hint="The file differs from what the edit assumes. Read it again, and repeat a line of it "
        "before and after each change. Nothing was changed.",
    )


def _is_named(row: str) -> bool:
    return NAMED.match(parse_line_key(row) or "") is not None or _HEADING.match(row) is not None


class _MarkerRules:
    def __init__(self, draft: MarkedDraft) -> None:
        self.draft, self.bodies, self.tokens, self.depths = draft, draft.bodies, draft.tokens, draft.depths
        removed_indexes = {index for gap in draft.iterate_gaps() for index in gap.removed}
        self._removed_texts = {self.bodies[index].strip() for index in removed_indexes}
        self._retained_lines = {line for index, line in enumerate(draft.lines) if index not in removed_indexes}
        self._removal_patterns = [compile_subject(token.removed) for token in draft.tokens if token.kind == "removal"]

    def judge_gap(self, gap: Gap) -> str | None:
        if gap.is_split:
            return "one of its markers stands for nothing"
        if twice := self._find_second_import(gap) or self._find_misplaced_line(gap):
            return twice
        has_marker = gap.is_retained_above or gap.is_retained_below
        lost_indexes = [index for index in gap.removed if not self._is_replaced(index, gap)]
        if not gap.added and (has_marker or gap.left is None or gap.right is None):
            return self._report_removed(lost_indexes)
        if not has_marker:
            return self._judge_inside(gap, [index for index in lost_indexes if is_informative(self.bodies[index])])
        if lost_indexes and not self._shows_whole_block(gap):
            return self._report_removed(lost_indexes)
        return None if gap.removed else self._judge_addition(gap)

    def _find_second_import(self, gap: Gap) -> str | None:
        """Object to a new import at the top level that the file retains elsewhere: that one may be meant to be
        removed."""
        added_lines = [token.text.rstrip() for token in (self.tokens[index] for index in gap.added) if token.depth == 0]
        removed_lines = {self.draft.lines[index] for index in gap.removed}
        repeats = (
            row
            for row in added_lines
            if _IMPORT_LINE.match(row) and row in self._retained_lines and row not in removed_lines
        )
        return next((f"{row[:80]!r} would be there twice" for row in repeats), None)

    def _find_misplaced_line(self, gap: Gap) -> str | None:
        """Object to lines that are added at an end of the edit without a marker, if the file has them elsewhere and
        others of it are removed: the edit may begin or end there."""
        first, last = self.draft.markers[0], self.draft.markers[-1]
        is_at_start = gap.left is None and bool(gap.added) and gap.added[0] < first
        is_at_end = gap.right is None and bool(gap.added) and gap.added[-1] > last
        draft_lines = {token.text.strip() for token in self.tokens}
        if sum(is_informative(row) and row not in draft_lines for row in self._removed_texts) < _FEW:
            return None
        ends = ([gap.added] if is_at_start else []) + ([gap.added[::-1]] if is_at_end else [])
        for rows in ([self.tokens[index].text.strip() for index in end] for end in ends):
            known_rows = list(takewhile(self.draft.stripped_lines.__contains__, rows))
            is_removed = bool(known_rows) and known_rows[0] in self._removed_texts
            if (is_removed or len(known_rows) >= _FEW) and any(
                is_informative(row) and not CONTINUED.match(row) and not _IMPORT_LINE.match(row) for row in known_rows
            ):
                return f"{known_rows[0][:80]!r} is elsewhere in the file"
        return None

    def _report_removed(self, removed_indexes: Sequence[int]) -> str | None:
        return f"line {removed_indexes[0] + 1} would be deleted, and it does not say so" if removed_indexes else None

    def _judge_inside(self, gap: Gap, lost_indexes: Sequence[int]) -> str | None:
        """Object to lines that would be removed within a piece: more than are added at an end of the file without a
        marker; many between lines that the file has twice; or those next to an uninformative line at a marker, unless
        that line closes their block."""
        added_count = len(gap.added)
        if gap.left is None or gap.right is None:
            new = [self.tokens[index].text for index in gap.added]
            has_known_lines = any(is_informative(row) and row.strip() in self.draft.stripped_lines for row in new)
            return (
                ""
                if not has_known_lines and self._is_rewritten(lost_indexes, gap)
                else self._report_removed(lost_indexes)
            )
        min_depth = min((self.depths[index] for index in lost_indexes), default=0)
        if self._is_ambiguous(gap):
            return "the lines around its changes occur more than once"
        for row, step in ((gap.left, -1), (gap.right, 1)):
            run, is_open = self.draft.find_run(row, step, min_depth)
            has_neighbour = any(self.depths[index] <= self.depths[row.old or 0] for index in lost_indexes)
            if (
                is_open
                and has_neighbour
                and len(lost_indexes) > added_count
                and not any(map(is_informative, run))
                and len(self.draft.find_positions(run)) != 1
            ):
                return self._report_removed(lost_indexes)
            ends = self._is_at_open_end(row, step)
            if ends and has_neighbour and len(lost_indexes) > added_count and len(self.draft.find_positions(run)) != 1:
                return self._report_removed(lost_indexes)
            has_marker = (row.token or 0) < self.draft.markers[-1] and self.draft.is_inside(row.token or 0)
            is_placed = has_marker or len(self.draft.find_positions(run)) == 1 or any(map(_is_named, run))
            if run and len(lost_indexes) > added_count + _MANY and not is_placed:
                return self._report_removed(lost_indexes)
        return None

    def _is_rewritten(self, removed_indexes: Sequence[int], gap: Gap) -> bool:
        """True if the removed lines are in a definition shown by its head, or every one has a similar added line."""
        added_lines = [self.tokens[index].text for index in gap.added]
        min_depth = min((self.depths[index] for index in removed_indexes), default=0)
        above = (index for index in self.draft.matched if index < gap.added[0] and self.tokens[index].depth < min_depth)
        if added_lines and any(_is_named(self.tokens[index].text) for index in above):
            return True
        return all(
            any(compute_replacement_cost(row, self.bodies[index]) for row in added_lines) for index in removed_indexes
        )

    def _is_at_open_end(self, row: ResultRow, step: int) -> bool:
        """True if only lines of the file are between a row and an end of the draft that has no marker."""
        rest = self.tokens[row.token or 0 :] if step > 0 else self.tokens[: (row.token or 0) + 1]
        if any(token.kind == "marker" for token in rest):
            return False
        first = row.token or 0 if step > 0 else 0
        return all(first + index in self.draft.same for index, token in enumerate(rest) if token.text.strip())

    def _is_ambiguous(self, gap: Gap) -> bool:
        """True if the lines that a piece shares with the file, from the change to its markers, occur there more than
        once."""
        unique_flags = []
        for row, step in ((gap.left, -1), (gap.right, 1)):
            if row is None or row.token is None:
                return False
            run, is_open = self.draft.find_run(row, step, _DEEP)
            if not is_open or any(NAMED.match(parse_line_key(line) or "") for line in run):
                return False
            unique_flags.append(len(self.draft.find_positions(run)) == 1 or self.draft.is_inside(row.token))
        return not any(unique_flags)

    def _is_replaced(self, old: int, gap: Gap) -> bool:
        """True if an added line is a version of a removed one: by its name, as the head of the same lines, or as the
        end of the same block; or if the draft says that the line is removed."""
        line, depth = self.bodies[old], self.depths[old]
        if any(pattern.search(line) for pattern in self._removal_patterns):
            return True
        key, text = parse_line_key(line), line.strip()
        added_lines = [self.tokens[index].text for index in gap.added if self.tokens[index].depth == depth]
        if key is not None and any(parse_line_key(row) == key for row in added_lines):
            return True
        if any(row.strip() == text for row in added_lines):
            return True
        if not is_informative(line):
            return False
        leaves = LEAVES.match(text) if self.draft.find_depth_below(gap) < depth else None
        ends = leaves is not None and any(row.strip().startswith(leaves[0]) for row in added_lines)
        return ends or self._is_new_head(old, gap) or any(is_same_call(row, line) for row in added_lines)

    def _is_new_head(self, old: int, gap: Gap) -> bool:
        """True if a line opens the block below it in the file, and the last added line opens it instead."""
        if not gap.added:
            return False
        last, depth = self.tokens[gap.added[-1]], self.depths[old]
        heads = all(OPENS.search(row.rstrip()) for row in (self.bodies[old], last.text)) and last.depth == depth
        same = _list_open_brackets(self.bodies[old]) == _list_open_brackets(last.text)
        return heads and same and self.draft.find_depth_below(gap) > depth

    def _shows_whole_block(self, gap: Gap) -> bool:
        """True if a block is shown to its end, as a blank line and a marker outside of it indicate, and its last line
        replaces the last one in the file."""
        first, last = self.tokens[gap.added[0]], self.tokens[gap.added[-1]]
        above = (token for token in reversed(self.tokens[: gap.added[0]]) if token.text.strip())
        head = next((token for token in above if token.depth < first.depth or token.kind == "marker"), None)
        rest = self.tokens[gap.added[-1] + 1 :]
        marker = next((token for token in rest if token.text.strip()), None)
        if head is None or head.kind == "marker" or marker is None or marker is rest[0] or gap.is_retained_above:
            return False
        inside = all(self.depths[index] > head.depth for index in gap.removed)
        if marker.kind != "marker" or max(marker.depth, self.draft.find_depth_below(gap)) > head.depth or not inside:
            return False
        is_apart = marker.depth == head.depth or not any(token.text.strip() for token in rest[:2])
        if is_apart and self._begins_piece(head):
            return True
        end, now = self.bodies[gap.removed[-1]].strip(), last.text.strip()
        if LEAVES.match(now):
            return last.depth == self.depths[gap.removed[-1]] and LEAVES.match(end) is not None
        call = CALL.match(now)
        is_similar = compute_replacement_cost(now, end) is not None or (call and end.startswith(call["callee"]))
        return len(gap.removed) == 1 and bool(is_similar)

    def _begins_piece(self, head: DraftToken) -> bool:
        """True if a piece begins with this named head, apart from the lines that it is nested in."""
        for piece in self.draft.iterate_pieces():
            for index in piece:
                token = self.tokens[index]
                if token is head:
                    return NAMED.match(parse_line_key(head.text) or "") is not None
                if token.depth >= head.depth and not PREFIX.match(token.text.strip()):
                    break
        return False

    def _judge_addition(self, gap: Gap) -> str | None:
        """Object to new lines next to a marker that may replace lines which the marker covers."""
        new = [self.tokens[index].text for index in gap.added]
        head = new[0].strip()
        if gap.is_retained_below and (OPENS.search(new[-1].rstrip()) or count_open(new) > 0):
            return f"{new[-1].strip()[:80]!r} opens what it does not show"
        if gap.is_retained_above and _CLOSES.match(head):
            return f"{head[:80]!r} closes what it does not show"
        tops = _find_tops(new)
        is_prefix = not tops and gap.right is not None and gap.right.token is not None and PREFIX.match(head)
        is_block_end = _REPEATS.match(head) and self.draft.find_depth_below(gap) < measure_depth(new[0])
        is_heading = len(new) == 1 and _HEADING.match(head) is not None
        if (
            (any(map(parse_line_key, tops)) and not is_heading)
            or is_prefix
            or is_block_end
            or BRANCH.match(head)
            or head in ("{", "[")
        ):
            return None
        nonblank_indexes = [index for index, body in enumerate(self.bodies) if body.strip()]
        above = [index for index in nonblank_indexes if gap.left is not None and index <= (gap.left.old or 0)][
            -len(new) :
        ]
        below = [index for index in nonblank_indexes if gap.right is not None and index >= (gap.right.old or 0)][
            : len(new)
        ]
        neighbours = (above if gap.is_retained_above else []) + (below if gap.is_retained_below else [])
        is_held = len(new) == 1 and any(_contains_other(self.bodies[index], head) for index in neighbours)
        if is_held or (
            neighbours and _measure_shared_words(new, [self.bodies[index] for index in neighbours]) > _SHARED
        ):
            return f"{head[:80]!r} may be new, or take the place of line {neighbours[0] + 1}"
        return None

    def find_stray_piece(self) -> str | None:
        """Object to a piece that has no hold in the file where it was placed."""
        gaps = list(self.draft.iterate_gaps())
        versions = {token for gap in gaps for token in self._find_versions(gap)}
        whole_tokens = {
            token for gap in gaps if gap.added and gap.removed and self._shows_whole_block(gap) for token in gap.added
        }
        return PieceRules(self.draft, versions, frozenset(whole_tokens)).find_stray_piece()

    def _find_versions(self, gap: Gap) -> list[int]:
        """Return the added tokens of a gap that are versions of its removed lines, by their name or call."""
        replaced_indexes = [
            index for index in gap.removed if is_informative(self.bodies[index]) and self._is_replaced(index, gap)
        ]
        one = len(replaced_indexes) == len(gap.added) == 1 and not LEAVES.match(
            self.bodies[replaced_indexes[0]].strip()
        )
        return list(gap.added) if one else []


def _find_tops(rows: Sequence[str]) -> list[str]:
    """Return the least indented lines that neither close a block nor precede a definition."""
    heads = [
        row
        for row in rows
        if not CONTINUED.match(row.strip()) and (_HEADING.match(row) or not PREFIX.match(row.strip()))
    ]
    min_depth = min(map(measure_depth, heads), default=0)
    return [row.strip() for row in heads if measure_depth(row) == min_depth]


def _list_open_brackets(row: str) -> list[str]:
    """Return the brackets that a line opens and does not close, in order."""
    brackets: list[str] = []
    for letter in row:
        if letter in "([{":
            brackets.append(letter)
        elif letter in ")]}" and brackets:
            brackets.pop()
    return brackets


def _contains_other(row: str, other: str) -> bool:
    """True if one of two lines contains the whole text of the other."""
    one, two = (text.strip().rstrip(",;") for text in (row, other))
    return min(len(one), len(two)) >= _TELLING and (one in two or two in one)


def _measure_shared_words(new: Sequence[str], old: Sequence[str]) -> float:
    new_words, old_words = (set(_WORD.findall(_KEYWORD.sub(" ", "\n".join(rows)))) for rows in (new, old))
    return len(new_words & old_words) / max(1, min(len(new_words), len(old_words)))
