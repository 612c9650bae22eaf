"""The law of markers: what a marker stands for is kept, and a piece belongs where lines of it are.

Whatever a draft was laid on a file by, the lines that go must be spoken of: they lie between two lines that the same
piece shares with the file, or a line that comes is a version of them by its name. Next to a marker, where nothing
tells whether a new line is one more or takes the place of another, that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from core.edits.drafts.gap_rules import GapLaw
from core.edits.drafts.line_costs import compute_replacement_cost, is_telling
from core.edits.drafts.line_keys import CALL, is_same_call, parse_line_key
from core.edits.drafts.line_matches import BRANCH, CONTINUED, PREFIX, DraftToken, ResultRow, compile_thing
from core.edits.drafts.marked_draft import LEAVES, NAMED, OPENS, Gap, MarkedDraft, count_open
from core.edits.drafts.piece_rules import PlaceLaw
from core.edits.errors import EditError
from core.edits.indentation import measure_depth

_WORD: Final = re.compile(r"[A-Za-z_]\w+")
_KEYWORD: Final = re.compile(
    r"\b(?:self|this|return|raise|throw|new|def|let|const|var|if|else|for|in|of|not|and|or|the|an|is|to|func|fn|function"
    r"|public|private|static|final|void|int|string|true|false|null|none|nil|await|async|import|from|print|assert)\b"
)
_CLOSES: Final = re.compile(r"[)\]}]|</|end\b")
_BROUGHT: Final = re.compile(r"(?:import|from|use|using|#include|require)\b")
_IMPORT: Final = re.compile(r"(?:import|from|use|using|#include|require|export|const)\b|\w+\s*=\s")
_REPEATS: Final = re.compile(r"(?:assert\w*|expect|self\.assert\w+|insert into)\b", re.IGNORECASE)
_HEADING: Final = re.compile(r"#{2,6}\s|\[+[\w.\"' -]+\]+$")
_ANNOUNCES: Final = re.compile(r":\W*$|^#\s")
_DEEP: Final = 10**6
_FEW: Final = 2  # lines that say something and are looked for
_MANY: Final = 6  # lines that go, more than come, between lines that the file has twice
_LONG: Final = 4  # new lines that lie beside one line of the file alone and are no whole thing
_TELLING: Final = 8  # signs that say something
_SHARED: Final = 0.5  # of the words of new lines: more, and they may be a version of the lines beside them


def find_breach(draft: MarkedDraft) -> str:
    """Return what the law has against what a draft with markers makes of a file; "" = nothing."""
    if not draft.markers:
        return ""
    court = _Court(draft)
    return (
        next(filter(None, map(court.judge_gap, draft.iterate_gaps())), "")
        or court.find_stray_piece()
        or GapLaw(draft).find_breach()
    )


def check_target(rows: Sequence[str], marker_flags: Sequence[bool], bodies: Sequence[str]) -> None:
    """Raise `EditError` when nothing that a draft with markers shows is in the file, and it is not one new thing."""
    draft_lines = [row for row, mark in zip(rows, marker_flags, strict=True) if not mark and is_telling(row)]
    file_lines = {body.strip() for body in bodies}
    keys = {parse_line_key(body) for body in bodies} - {None}
    if len(draft_lines) < _FEW or not any(marker_flags) or not any(map(is_telling, bodies)):
        return
    if any(row.strip() in file_lines or parse_line_key(row) in keys for row in draft_lines) or any(
        map(_is_named, _find_tops(draft_lines))
    ):
        return
    raise EditError(
        f"None of the lines of the edit is in the file: not {draft_lines[0].strip()[:80]!r}, and nothing after it.",
        hint="The file is not as the edit takes it to be. Read it again, and repeat a line of it before and after each "
        "change. Nothing was changed.",
    )


def _is_named(row: str) -> bool:
    return NAMED.match(parse_line_key(row) or "") is not None or _HEADING.match(row) is not None


class _Court:
    def __init__(self, draft: MarkedDraft) -> None:
        self.draft, self.bodies, self.tokens, self.depths = draft, draft.bodies, draft.tokens, draft.depths
        removed_indexes = {index for gap in draft.iterate_gaps() for index in gap.gone}
        self._going = {self.bodies[index].strip() for index in removed_indexes}
        self._staying = {line for index, line in enumerate(draft.lines) if index not in removed_indexes}
        self._removed = [compile_thing(token.removed) for token in draft.tokens if token.kind == "removal"]

    def judge_gap(self, gap: Gap) -> str:
        if gap.is_split:
            return "one of its markers stands for nothing"
        if twice := self._find_second_import(gap) or self._find_misplaced_line(gap):
            return twice
        has_marker = gap.is_kept_above or gap.is_kept_below
        lost_indexes = [index for index in gap.gone if not self._is_replaced(index, gap)]
        if not gap.come and (has_marker or gap.left is None or gap.right is None):
            return self._tell_gone(lost_indexes)
        if not has_marker:
            return self._judge_inside(gap, [index for index in lost_indexes if is_telling(self.bodies[index])])
        if lost_indexes and not self._shows_whole_block(gap):
            return self._tell_gone(lost_indexes)
        return "" if gap.gone else self._judge_addition(gap)

    def _find_second_import(self, gap: Gap) -> str:
        """Object to an import at the top level that stays elsewhere: that one may be what goes."""
        added_lines = [token.text.rstrip() for token in (self.tokens[index] for index in gap.come) if token.depth == 0]
        removed_lines = {self.draft.lines[index] for index in gap.gone}
        repeats = (
            row for row in added_lines if _BROUGHT.match(row) and row in self._staying and row not in removed_lines
        )
        return next((f"{row[:80]!r} would be there twice" for row in repeats), "")

    def _find_misplaced_line(self, gap: Gap) -> str:
        """Object to lines that come at an end of the edit without a marker, though the file has them elsewhere and
        others of it go: the edit may begin or end there."""
        first, last = self.draft.markers[0], self.draft.markers[-1]
        is_at_start = gap.left is None and bool(gap.come) and gap.come[0] < first
        is_at_end = gap.right is None and bool(gap.come) and gap.come[-1] > last
        draft_lines = {token.text.strip() for token in self.tokens}
        if sum(is_telling(row) and row not in draft_lines for row in self._going) < _FEW:
            return ""
        ends = ([gap.come] if is_at_start else []) + ([gap.come[::-1]] if is_at_end else [])
        for rows in ([self.tokens[index].text.strip() for index in end] for end in ends):
            known_rows = list(takewhile(self.draft.own.__contains__, rows))
            is_removed = bool(known_rows) and known_rows[0] in self._going
            if (is_removed or len(known_rows) >= _FEW) and any(
                is_telling(row) and not CONTINUED.match(row) and not _BROUGHT.match(row) for row in known_rows
            ):
                return f"{known_rows[0][:80]!r} stands elsewhere"
        return ""

    def _tell_gone(self, removed_indexes: Sequence[int]) -> str:
        return f"line {removed_indexes[0] + 1} would go, and it does not say so" if removed_indexes else ""

    def _judge_inside(self, gap: Gap, lost_indexes: Sequence[int]) -> str:
        """Object to lines that would go within a piece: more than come at an end of the file that has no marker; many
        between lines that the file has twice; or what stands beside a line that tells nothing and is next to a marker,
        unless that closes what they lie in."""
        added_count = len(gap.come)
        if gap.left is None or gap.right is None:
            new = [self.tokens[index].text for index in gap.come]
            has_known_lines = any(is_telling(row) and row.strip() in self.draft.own for row in new)
            return (
                "" if not has_known_lines and self._is_rewritten(lost_indexes, gap) else self._tell_gone(lost_indexes)
            )
        min_depth = min((self.depths[index] for index in lost_indexes), default=0)
        if self._is_loose(gap):
            return "what it shows around its changes is there more than once"
        for row, step in ((gap.left, -1), (gap.right, 1)):
            run, is_open = self.draft.find_run(row, step, min_depth)
            has_neighbour = any(self.depths[index] <= self.depths[row.old or 0] for index in lost_indexes)
            if (
                is_open
                and has_neighbour
                and len(lost_indexes) > added_count
                and not any(map(is_telling, run))
                and len(self.draft.find_places(run)) != 1
            ):
                return self._tell_gone(lost_indexes)
            ends = self._is_at_open_end(row, step)
            if ends and has_neighbour and len(lost_indexes) > added_count and len(self.draft.find_places(run)) != 1:
                return self._tell_gone(lost_indexes)
            has_marker = (row.token or 0) < self.draft.markers[-1] and self.draft.is_inside(row.token or 0)
            is_placed = has_marker or len(self.draft.find_places(run)) == 1 or any(map(_is_named, run))
            if run and len(lost_indexes) > added_count + _MANY and not is_placed:
                return self._tell_gone(lost_indexes)
        return ""

    def _is_rewritten(self, removed_indexes: Sequence[int], gap: Gap) -> bool:
        """True if what goes lies in a definition shown by its head, or each line has one like it that comes."""
        added_lines = [self.tokens[index].text for index in gap.come]
        min_depth = min((self.depths[index] for index in removed_indexes), default=0)
        above = (index for index in self.draft.matched if index < gap.come[0] and self.tokens[index].depth < min_depth)
        if added_lines and any(_is_named(self.tokens[index].text) for index in above):
            return True
        return all(
            any(compute_replacement_cost(row, self.bodies[index]) for row in added_lines) for index in removed_indexes
        )

    def _is_at_open_end(self, row: ResultRow, step: int) -> bool:
        """True if nothing but lines of the file lies between a row and an end of the draft that has no marker."""
        rest = self.tokens[row.token or 0 :] if step > 0 else self.tokens[: (row.token or 0) + 1]
        if any(token.kind == "marker" for token in rest):
            return False
        first = row.token or 0 if step > 0 else 0
        return all(first + index in self.draft.same for index, token in enumerate(rest) if token.text.strip())

    def _is_loose(self, gap: Gap) -> bool:
        """True if the file has all that a piece shares with it, from what changes to its markers, more than once."""
        unique_flags = []
        for row, step in ((gap.left, -1), (gap.right, 1)):
            if row is None or row.token is None:
                return False
            run, is_open = self.draft.find_run(row, step, _DEEP)
            if not is_open or any(NAMED.match(parse_line_key(line) or "") for line in run):
                return False
            unique_flags.append(len(self.draft.find_places(run)) == 1 or self.draft.is_inside(row.token))
        return not any(unique_flags)

    def _is_replaced(self, old: int, gap: Gap) -> bool:
        """True if a line that comes is a version of one that goes: by its name, as the head of the same lines, as the
        end of the same block; or if words say that it is removed."""
        line, depth = self.bodies[old], self.depths[old]
        if any(thing.search(line) for thing in self._removed):
            return True
        key, text = parse_line_key(line), line.strip()
        added_lines = [self.tokens[index].text for index in gap.come if self.tokens[index].depth == depth]
        if key is not None and any(parse_line_key(row) == key for row in added_lines):
            return True
        if any(row.strip() == text for row in added_lines):
            return True
        if not is_telling(line):
            return False
        leaves = LEAVES.match(text) if self.draft.find_depth_below(gap) < depth else None
        ends = leaves is not None and any(row.strip().startswith(leaves[0]) for row in added_lines)
        return ends or self._is_new_head(old, gap) or any(is_same_call(row, line) for row in added_lines)

    def _is_new_head(self, old: int, gap: Gap) -> bool:
        """True if a line opens what stands below it in the file, and the last line that comes opens it instead."""
        if not gap.come:
            return False
        last, depth = self.tokens[gap.come[-1]], self.depths[old]
        heads = all(OPENS.search(row.rstrip()) for row in (self.bodies[old], last.text)) and last.depth == depth
        same = _list_open_brackets(self.bodies[old]) == _list_open_brackets(last.text)
        return heads and same and self.draft.find_depth_below(gap) > depth

    def _shows_whole_block(self, gap: Gap) -> bool:
        """True if a block is shown to its end, as a blank line and a marker outside of it tell, and its last line takes
        the place of the last one there."""
        first, last = self.tokens[gap.come[0]], self.tokens[gap.come[-1]]
        above = (token for token in reversed(self.tokens[: gap.come[0]]) if token.text.strip())
        head = next((token for token in above if token.depth < first.depth or token.kind == "marker"), None)
        rest = self.tokens[gap.come[-1] + 1 :]
        marker = next((token for token in rest if token.text.strip()), None)
        if head is None or head.kind == "marker" or marker is None or marker is rest[0] or gap.is_kept_above:
            return False
        inside = all(self.depths[index] > head.depth for index in gap.gone)
        if marker.kind != "marker" or max(marker.depth, self.draft.find_depth_below(gap)) > head.depth or not inside:
            return False
        is_apart = marker.depth == head.depth or not any(token.text.strip() for token in rest[:2])
        if is_apart and self._begins_piece(head):
            return True
        end, now = self.bodies[gap.gone[-1]].strip(), last.text.strip()
        if LEAVES.match(now):
            return last.depth == self.depths[gap.gone[-1]] and LEAVES.match(end) is not None
        call = CALL.match(now)
        is_similar = compute_replacement_cost(now, end) is not None or (call and end.startswith(call["callee"]))
        return len(gap.gone) == 1 and bool(is_similar)

    def _begins_piece(self, head: DraftToken) -> bool:
        """True if a piece begins with the head of something that has a name, but for what that lies in."""
        for piece in self.draft.iterate_pieces():
            for index in piece:
                token = self.tokens[index]
                if token is head:
                    return NAMED.match(parse_line_key(head.text) or "") is not None
                if token.depth >= head.depth and not PREFIX.match(token.text.strip()):
                    break
        return False

    def _judge_addition(self, gap: Gap) -> str:
        """Object to new lines beside a marker that may take the place of what it stands for."""
        new = [self.tokens[index].text for index in gap.come]
        head = new[0].strip()
        if gap.is_kept_below and (OPENS.search(new[-1].rstrip()) or count_open(new) > 0):
            return f"{new[-1].strip()[:80]!r} opens what it does not show"
        if gap.is_kept_above and _CLOSES.match(head):
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
            return ""
        nonblank_indexes = [index for index, body in enumerate(self.bodies) if body.strip()]
        above = [index for index in nonblank_indexes if gap.left is not None and index <= (gap.left.old or 0)][
            -len(new) :
        ]
        below = [index for index in nonblank_indexes if gap.right is not None and index >= (gap.right.old or 0)][
            : len(new)
        ]
        neighbours = (above if gap.is_kept_above else []) + (below if gap.is_kept_below else [])
        is_held = len(new) == 1 and any(_holds(self.bodies[index], head) for index in neighbours)
        if is_held or (
            neighbours and _measure_shared_words(new, [self.bodies[index] for index in neighbours]) > _SHARED
        ):
            return f"{head[:80]!r} may be new, or take the place of line {neighbours[0] + 1}"
        return ""

    def find_stray_piece(self) -> str:
        """Object to a piece that does not hold on to the file where it was laid."""
        gaps = list(self.draft.iterate_gaps())
        versions = {token for gap in gaps for token in self._find_versions(gap)}
        whole_tokens = {
            token for gap in gaps if gap.come and gap.gone and self._shows_whole_block(gap) for token in gap.come
        }
        return PlaceLaw(self.draft, versions, frozenset(whole_tokens)).find_stray_piece()

    def _find_versions(self, gap: Gap) -> list[int]:
        """The tokens of a gap that are versions of what goes in it, by what they name or call."""
        replaced_indexes = [
            index for index in gap.gone if is_telling(self.bodies[index]) and self._is_replaced(index, gap)
        ]
        one = len(replaced_indexes) == len(gap.come) == 1 and not LEAVES.match(self.bodies[replaced_indexes[0]].strip())
        return list(gap.come) if one else []


def _find_tops(rows: Sequence[str]) -> list[str]:
    """The lines of the least depth that neither close what others open nor stand before them."""
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


def _holds(row: str, other: str) -> bool:
    """True if one of two lines holds all that the other one says."""
    one, two = (text.strip().rstrip(",;") for text in (row, other))
    return min(len(one), len(two)) >= _TELLING and (one in two or two in one)


def _measure_shared_words(new: Sequence[str], old: Sequence[str]) -> float:
    new_words, old_words = (set(_WORD.findall(_KEYWORD.sub(" ", "\n".join(rows)))) for rows in (new, old))
    return len(new_words & old_words) / max(1, min(len(new_words), len(old_words)))
