"""The rules for gaps: lines are removed only between two anchors of one piece that have a unique position.

Nothing is removed next to a marker: a new line there is an addition, or the edit agent decides. A similar line never
counts as the one that a new line replaces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from core.edits.drafts.alignment import is_marked_inside
from core.edits.drafts.line_keys import is_same_call, parse_line_key
from core.edits.drafts.line_matches import CONTINUED, PREFIX, compile_subject
from core.edits.drafts.marked_draft import LEAVES, NAMED, OPENS, Gap, MarkedDraft, count_open, is_distinctive
from core.edits.drafts.markers import is_marker, may_be_marker
from core.patterns import compile_lazily

_BRACKETS: Final = ("()", "[]", "{}")
_FEW: Final = 2  # lines at an end of a piece
_MANY: Final = 6  # lines that are removed beyond those added, next to a single line
_SOME: Final = 4  # added lines between two single lines or below a head; removed lines next to an uninformative one
_LONG: Final = 30  # characters of a line that is unlikely to occur twice by chance
_SECTION: Final = compile_lazily(r"\[+[\w.\"' -]+\]+")
_TEXT: Final = compile_lazily(r":\s*[|>][+-]?$")
_DEFINITION: Final = "definition "


class GapRules:
    """The objections of the rules for gaps to a draft."""

    def __init__(self, draft: MarkedDraft) -> None:
        self.draft, self.tokens, self.lines = draft, draft.tokens, draft.lines
        self._gaps = list(draft.iterate_gaps())
        self._pieces = list(draft.iterate_pieces())
        self._anchors = [[token for token in piece if self._is_anchor(token)] for piece in self._pieces]
        self._removal_patterns = [compile_subject(token.removed) for token in draft.tokens if token.kind == "removal"]

    def find_violation(self) -> str | None:
        """Return why a piece may not belong where it was placed, or why lines may not be removed; None: both may."""
        positions = (self._judge_piece(number) for number in range(len(self._pieces)))
        return next(filter(None, positions), None) or next(filter(None, map(self._judge_gap, self._gaps)), None)

    def _judge_piece(self, number: int) -> str | None:
        piece, anchors = self._pieces[number], self._anchors[number]
        excerpt = repr(self.tokens[piece[0]].text.strip()[:80])
        if not any(self._anchors) and sum(_SECTION.fullmatch(line) is not None for line in self.lines) > 1:
            return f"{excerpt} may belong to any section of the file"
        if any(token in self.draft.same for token in piece) and not anchors:
            return f"{excerpt} is in the file at another depth"
        if not anchors:
            return self._judge_lone_piece(piece, excerpt)
        runs = self.draft.split_runs(anchors)
        for new, neighbour in (
            ([token for token in piece if token < anchors[0]], anchors[0]),
            ([token for token in reversed(piece) if token > anchors[-1]], anchors[-1]),
        ):
            if new and self._is_displaced(new, neighbour):
                return f"{self.tokens[new[0]].text.strip()[:80]!r} may be new, or belong where the file has it"
        if not self._has_unique_position(number, runs):
            return f"{excerpt} and what is next to it fit in more than one place"
        return None

    def _judge_lone_piece(self, piece: Sequence[int], label: str) -> str | None:
        """Object to a piece without an anchor that is not below a shown head, that names a definition which stays next
        to it, or that replaces a line inside of a block that the draft does not show."""
        is_inside = self.draft.is_inside(piece[0])
        if is_inside and not self._is_below_anchor(piece[0]):
            return f"{label} and the lines around it are not in the file"
        for gap in (gap for gap in self._gaps if any(token in piece for token in gap.added)):
            if self._repeats_name(gap):
                return f"{label} matches something in the file, and keeps"
            is_open = any(self.draft.depths[old] > 0 or OPENS.search(self.lines[old]) for old in gap.removed)
            if is_open and not is_inside:
                return f"{label} may be new, or take the place of line {gap.removed[0] + 1}"
        return None

    def _repeats_name(self, gap: Gap) -> bool:
        """True if one of the outermost added lines names the same thing as a retained line of its block."""
        depth, scope = self._measure_scope(gap)
        keys = (parse_line_key(self.tokens[token].text) for token in gap.added if self.tokens[token].depth == depth)
        rivals = (index for key in keys for index in self._by_key[key or ""] if index not in self._removed_lines)
        return any(self.draft.depths[rival] == depth and self._find_scope(rival, depth) == scope for rival in rivals)

    def _measure_scope(self, gap: Gap) -> tuple[int, int]:
        """Return the depth of the outermost added lines, and the line of the file that opens their block."""
        depth = min((self.tokens[token].depth for token in gap.added), default=0)
        return depth, self._find_scope(gap.left.old or 0 if gap.left is not None else -1, depth)

    def _is_displaced(self, new: Sequence[int], neighbour: int) -> bool:
        """True if new lines at an end of a piece belong elsewhere.

        `new` lists the outermost token first. They belong elsewhere if they begin with lines that the file has
        elsewhere or contain a long one of them, if they would end up in another section, or if they leave a bracket
        unbalanced at an end of the file.
        """
        if self._find_whole_head(min(new), max(new)) is not None:
            return False
        outer = [self.tokens[token].text.strip() for token in new[:_FEW]]
        if all(row in self.draft.stripped_lines for row in outer) and (
            len(outer) == _FEW or any(map(str.isalnum, outer[0]))
        ):
            return True
        rows = [self.tokens[token].text.rstrip() for token in new if token not in self.draft.matched]
        if any(len(row.strip()) >= _LONG and self.lines.count(row) == 1 for row in rows):
            return True
        sections = [token for token in (*new, neighbour) if _SECTION.fullmatch(self.tokens[token].text.strip())]
        if new[0] < neighbour and (sections == [neighbour] or max(new) in sections):
            return True  # the lines belong to a section that is not shown, or would end up in another one
        gap = next((gap for gap in self._gaps if new[0] in gap.added), None)
        if gap is None:  # they are retained as versions by name
            return False
        is_bound = gap.left is None if new[0] < neighbour else gap.right is None
        text = "".join(self.tokens[token].text for token in new)
        return is_bound and any(text.count(one) != text.count(other) for one, other in _BRACKETS)

    def _has_unique_position(self, number: int, runs: Sequence[Sequence[int]]) -> bool:
        """True if the anchors of a piece fit in one position between those of its neighbours. The lines between two
        runs of anchors are removed, so one run has to be unique, and the other has to be the nearest of its kind to
        it."""
        above = self.draft.matched[self._anchors[number - 1][-1]] if number and self._anchors[number - 1] else -1
        after = self._anchors[number + 1] if number + 1 < len(self._anchors) else []
        below = self.draft.matched[after[0]] if after else len(self.lines)
        piece, (first, last) = self._pieces[number], (runs[0], runs[-1])
        is_head_alone = len(piece) == 1 and piece[0] not in self.draft.same and not self.draft.is_inside(piece[0])
        if is_head_alone and not is_marked_inside(self.tokens, piece[0]):
            return False  # it may be another version of a head, or an addition
        if len(runs) == 1:
            is_changed = len(first) < len(piece)
            is_wordless = not any(any(map(str.isalnum, self.tokens[token].text)) for token in piece)
            if not (is_changed or is_wordless) or self.draft.is_inside(piece[0]):
                return True
            return (not is_changed or self._has_distinctive_line(first)) and self._is_placed(first, above, below)
        if not any(self._has_distinctive_line(run) for run in (first, last)):
            return False
        return self._is_chained(runs, above, below) and not self._is_wide(runs)

    def _is_wide(self, runs: Sequence[Sequence[int]]) -> bool:
        """True if runs may match by chance: many more lines are removed than added and one run is a single line; much
        is changed and both runs are single lines; or many lines are removed next to a run without an informative line
        that ends no shown block."""
        for upper, lower in pairwise(runs):
            removed_count = self.draft.matched[lower[0]] - self.draft.matched[upper[-1]] - 1
            added_count = lower[0] - upper[-1] - 1
            single = sum(len(run) == 1 and not self._is_shown(run) for run in (upper, lower))
            if single and removed_count > (added_count + _MANY if single == 1 or added_count < _SOME else 0):
                return True
            if removed_count >= _SOME and not all(
                self._has_distinctive_line(run) or self._is_end_of_shown(run[0]) for run in (upper, lower)
            ):
                return True
        return False

    def _is_chained(self, runs: Sequence[Sequence[int]], above: int, below: int) -> bool:
        """True if every run of a piece has a unique position, or is the nearest of its kind to a distinctive
        neighbour."""
        placement_flags = [self._is_placed(run, above, below) for run in runs]
        steps = list(pairwise(range(len(runs))))
        for upper, lower in [*steps, *((lower, upper) for upper, lower in reversed(steps))]:
            if placement_flags[upper] and not placement_flags[lower] and self._has_distinctive_line(runs[upper]):
                first, last = sorted((upper, lower))
                end, start = self.draft.matched[runs[first][-1]], self.draft.matched[runs[last][0]]
                added_count, removed_count = runs[last][0] - runs[first][-1] - 1, start - end - 1
                is_held = (
                    len(runs[lower]) > 1
                    or abs(added_count - removed_count) <= _FEW
                    or not self._has_distinctive_line(runs[lower])
                )
                placement_flags[lower] = is_held and self._is_nearest(runs[lower], end, start)
        return all(placement_flags)

    def _judge_gap(self, gap: Gap) -> str | None:
        """Object to lines that are removed without two anchors around them, and to duplicates of a definition."""
        if twice := self._find_second_definition(gap):
            return f"{twice[:80]!r} would be there twice"
        if duplicate := self._find_duplicate_end(gap):
            return f"{duplicate[:80]!r} is kept, and would be deleted"
        if self._may_rewrite_start(gap):
            return f"{self.tokens[gap.added[0]].text.strip()[:80]!r} and more may be new, or the start of existing code"
        removed_indexes = [index for index in gap.removed if not self._is_mentioned(index, gap)]
        if (
            not removed_indexes
            or self._is_enclosed(gap)
            or self._is_rewritten_end(gap, removed_indexes)
            or self._is_whole_block(gap, removed_indexes)
        ):
            return None
        return f"line {removed_indexes[0] + 1} would be deleted, and it does not say so"

    def _may_rewrite_start(self, gap: Gap) -> bool:
        """True if many lines are added right below the head of a block, and may be an addition or its new beginning."""
        head = gap.left.token if gap.left is not None else None
        is_open = gap.is_retained_below or gap.right is None
        if head is None or gap.removed or len(gap.added) < _SOME or not is_open:
            return False
        return self.tokens[gap.added[0]].depth > self.tokens[head].depth

    def _find_duplicate_end(self, gap: Gap) -> str | None:
        """Return a removed line that equals an end of the piece, if the other side of that end is an end of the file:
        the removed line may be the one that the draft shows."""
        first, last = self.draft.markers[0], self.draft.markers[-1]
        open_ends = [piece for piece in self._pieces if piece[-1] < first or piece[0] > last]
        sides = [row.token for row in (gap.left, gap.right) if row is not None and row.token is not None]
        pieces = [piece for piece in open_ends if any(token in piece for token in sides)]
        outer = {token for piece in pieces for token in (piece[0], piece[-1]) if token in self.draft.same}
        rows = {self.tokens[token].text.rstrip() for token in outer if is_distinctive(self.tokens[token].text)}
        return next((self.lines[index].strip() for index in gap.removed if self.lines[index] in rows), None)

    def _is_mentioned(self, index: int, gap: Gap) -> bool:
        """True if the draft says that a line is removed, if it is the only line of its name in its block and exactly
        one added line has that name, or if it leaves the block at its end, as the last added line does."""
        line, depth = self.draft.bodies[index], self.draft.depths[index]
        if any(pattern.search(line) for pattern in self._removal_patterns):
            return True
        added_tokens = [self.tokens[token] for token in gap.added if self.tokens[token].depth == depth]
        if gap.left is not None and self.draft.find_depth_below(gap) < depth and LEAVES.match(line.strip()):
            return bool(added_tokens) and LEAVES.match(added_tokens[-1].text.strip()) is not None
        if len(gap.removed) == len(gap.added) == 1 and self._is_varied(line, gap):
            return True
        key = parse_line_key(line)
        namesakes = [token for token in added_tokens if parse_line_key(token.text) == key]
        if self._opens_block(index) and not any(OPENS.search(token.text.rstrip()) for token in namesakes):
            return False
        return key is not None and len(namesakes) == 1 and self._is_only_one(index)

    def _opens_block(self, index: int) -> bool:
        """True if the lines after a line of the file belong to it, as a list belongs to its key."""
        below = next((position for position in range(index + 1, len(self.lines)) if self.lines[position]), index)
        is_list = self.lines[below].lstrip().startswith("- ") and self.draft.depths[below] == self.draft.depths[index]
        return OPENS.search(self.lines[index]) is not None and (
            self.draft.depths[below] > self.draft.depths[index] or is_list
        )

    def _is_varied(self, line: str, gap: Gap) -> bool:
        """True if one line right below an anchor becomes a call of the same function with more arguments."""
        left_token = gap.left.token if gap.left is not None else None
        is_adjacent = left_token is not None and left_token == gap.added[0] - 1 and self._is_anchor(left_token)
        return is_adjacent and is_same_call(self.tokens[gap.added[0]].text, line)

    def _is_only_one(self, index: int) -> bool:
        """True if no other line of its block has the same name at its depth."""
        depth, key = self.draft.depths[index], parse_line_key(self.lines[index])
        start = self._find_scope(index, depth)
        if start >= 0 and _TEXT.search(self.lines[start]):
            return False  # text below `run: |` has no keys
        rest = range(index + 1, len(self.lines))
        stop = next(
            (position for position in rest if self.lines[position] and self.draft.depths[position] < depth),
            len(self.lines),
        )
        positions = self._by_key[key or ""]
        return sum(start < position < stop and self.draft.depths[position] == depth for position in positions) == 1

    def _is_enclosed(self, gap: Gap) -> bool:
        """True if lines are removed between two anchors of one piece, or between two definitions that are shown one
        after the other."""
        above = gap.left.token if gap.left is not None else None
        below = gap.right.token if gap.right is not None else None
        if below is None or not self._is_anchor(below):
            return False
        markers = [marker for marker in self.draft.markers if (-1 if above is None else above) < marker < below]
        if markers:
            return self._is_between_definitions(gap, markers, below)
        return above is not None and self._is_anchor(above) and (bool(gap.added) or self._may_omit(gap, above))

    def _find_anchors(self, token: int) -> Sequence[int]:
        """Return the anchors of the piece of a token."""
        return next((anchors for piece, anchors in zip(self._pieces, self._anchors, strict=True) if token in piece), ())

    def _may_omit(self, gap: Gap, above: int) -> bool:
        """True if lines may be removed without a replacement: below a distinctive anchor, if none of them is a
        definition, or if the draft begins like an outline of definitions."""
        keys = (parse_line_key(self.lines[index]) or "" for index in gap.removed)
        if self._has_distinctive_line([token for token in self._find_anchors(above) if token <= above]) or not any(
            key.startswith(_DEFINITION) for key in keys
        ):
            return True
        first = self._pieces[0][0]
        return self.draft.is_named(first) or PREFIX.match(self.tokens[first].text.strip()) is not None

    def _is_between_definitions(self, gap: Gap, markers: Sequence[int], below: int) -> bool:
        """True if whole lines are removed between the end of a block, shown by its head above a marker, and another
        head."""
        first = gap.added[0] if gap.added else below
        is_whole = count_open([self.lines[index] for index in gap.removed]) == 0
        is_apart = is_whole and not CONTINUED.match(self.lines[gap.removed[0]].strip()) and not gap.is_retained_above
        head = next((token for token in range(markers[0] - 1, -1, -1) if self.tokens[token].text.strip()), None)
        has_named_head = head is not None and self.draft.is_named(head) and self.tokens[head].kind != "marker"
        return is_apart and has_named_head and self.draft.is_named(first) and markers[-1] < first

    def _is_whole_block(self, gap: Gap, removed_indexes: Sequence[int]) -> bool:
        """True if the removed lines are the end of a definition that is shown from its head to its end: it has no
        marker inside, and a marker, the end of the draft, or a line of the file outside of it follows."""
        if not gap.added:
            return False
        first = self.tokens[gap.added[0]]
        head = next((t for t in range(gap.added[0] - 1, -1, -1) if self._is_outside(t, first.depth)), None)
        if head is None or self.tokens[head].kind == "marker" or not self._is_anchor(head):
            return False
        depth = self.tokens[head].depth
        after = self.tokens[gap.added[-1] + 1 :]
        end = next((token for token in after if token.text.strip()), None)
        is_closed = end is None or (end.depth <= depth and (end.kind != "marker" or end is not after[0]))
        below = self.draft.find_depth_below(gap)
        inside = all(self.draft.depths[index] > depth for index in removed_indexes) and below <= depth
        return is_closed and inside

    def _is_outside(self, token: int, depth: int) -> bool:
        """True if a token is a marker, or less indented than `depth`."""
        draft_token = self.tokens[token]
        return draft_token.kind == "marker" or (bool(draft_token.text.strip()) and draft_token.depth < depth)

    def _is_rewritten_end(self, gap: Gap, removed_indexes: Sequence[int]) -> bool:
        """True if lines at an end of the file become as many or more, without a marker there, and the draft does not
        begin or end with a line that the file has elsewhere."""
        first, last = self.draft.markers[0], self.draft.markers[-1]
        is_at_start = gap.left is None and all(token < first for token in gap.added)
        is_at_end = gap.right is None and all(token > last for token in gap.added)
        outer = ([gap.added[0]] if is_at_start else []) + ([gap.added[-1]] if is_at_end else []) if gap.added else []
        rows = [self.tokens[token].text.strip() for token in outer]
        is_known = any(is_distinctive(row) and row in self.draft.stripped_lines for row in rows)
        return bool(outer) and not is_known and len(removed_indexes) <= len(gap.added)

    def _find_second_definition(self, gap: Gap) -> str | None:
        """Return the head of an added definition if its scope retains a definition of that name and kind."""
        min_depth, scope = self._measure_scope(gap)
        for token in gap.added:
            row, key = self.tokens[token].text.strip(), parse_line_key(self.tokens[token].text)
            if self.tokens[token].depth != min_depth or key is None or not NAMED.match(key):
                continue
            rivals = (
                index
                for index in self._by_key[key]
                if self.draft.depths[index] == min_depth and self._is_retained(index)
            )
            for index in rivals if not self._is_decorated(token) else ():
                if self._has_same_prefix(row, index, key) and self._find_scope(index, min_depth) == scope:
                    return row
        return None

    def _is_retained(self, index: int) -> bool:
        return index not in self._removed_lines and index not in self._matched_lines

    def _has_same_prefix(self, row: str, index: int, key: str) -> bool:
        """True if a line of the file and a row have the same words before the name: they are of the same kind."""
        name = key.rpartition(" ")[2]
        return self.lines[index].strip().partition(name)[0] == row.partition(name)[0]

    def _is_decorated(self, token: int) -> bool:
        """True if a decorator that the file does not have, such as that of a setter, precedes a line."""
        above = self.tokens[token - 1].text.strip() if token else ""
        return above.startswith("@") and above not in self.draft.stripped_lines

    def _find_scope(self, index: int, depth: int) -> int:
        """Return the nearest line from `index` upwards that is less indented than `depth`; -1 = there is none."""
        while index >= 0 and not (self.lines[index] and self.draft.depths[index] < depth):
            index -= 1
        return index

    @cached_property
    def _by_key(self) -> dict[str, list[int]]:
        """The lines of the file by their keys."""
        positions = defaultdict[str, list[int]](list)
        for index, line in enumerate(self.lines):
            if (key := parse_line_key(line)) is not None:
                positions[key].append(index)
        return positions

    @cached_property
    def _removed_lines(self) -> set[int]:
        return {index for gap in self._gaps for index in gap.removed}

    @cached_property
    def _matched_lines(self) -> set[int]:
        return set(self.draft.matched.values())

    def _is_anchor(self, token: int) -> bool:
        """True if a token is a line of the file, or the head of the only definition of its name in the shown part."""
        text, same = self.tokens[token].text, self.draft.same.get(token)
        if is_marker(text) or may_be_marker(text):
            return False  # the file has a line that looks like one
        if same is not None and self.tokens[token].depth == self.draft.depths[same]:
            return True
        if not self.draft.is_named(token) or token not in self.draft.matched:
            return False
        return len(self._by_key[parse_line_key(text) or ""]) == 1 or self._is_only_in_shown(token)

    def _is_only_in_shown(self, token: int) -> bool:
        """True if a name is defined once in the block whose head the draft shows, or once at the top level."""
        old, head = self.draft.matched[token], self._find_head(token)
        scope = self._find_scope(old, self.draft.depths[old])
        is_shown = scope < 0 if head is None else self._is_anchor(head) and self.draft.matched[head] == scope
        return is_shown and self._is_only_one(old)

    def _find_head(self, token: int) -> int | None:
        """Return the nearest less indented line of the draft above a token that is no marker."""
        rows = (index for index in range(token - 1, -1, -1) if self._is_outside(index, self.tokens[token].depth))
        return next((index for index in rows if self.tokens[index].kind != "marker"), None)

    def _is_below_anchor(self, token: int) -> bool:
        """True if the nearest less indented line of the draft above a token is an anchor."""
        head = self._find_head(token)
        return head is not None and self._is_anchor(head)

    def _find_whole_head(self, first: int, last: int) -> int | None:
        """Return the head of the definition around two lines of a piece, if the piece shows the definition to its
        end."""
        head = self._find_head(first)
        while head is not None and not (self.draft.is_named(head) and self._is_anchor(head)):
            head = self._find_head(head)
        if head is None:
            return None
        depth = self.tokens[head].depth
        rest = range(head + 1, len(self.tokens))
        nonblank_indexes = (
            index for index in rest if self.tokens[index].kind == "marker" or self.tokens[index].text.strip()
        )
        end = next(
            (
                index
                for index in nonblank_indexes
                if self.tokens[index].kind == "marker" or self.tokens[index].depth <= depth
            ),
            None,
        )
        return head if end is None or (end > last and self.tokens[end].depth <= depth) else None

    def _is_in_whole_block(self, run: Sequence[int]) -> bool:
        """True if a run is inside a definition that its piece shows from head to end, in the draft as in the file."""
        if (head := self._find_whole_head(run[0], run[-1])) is None:
            return False
        start, old = self.draft.matched[head], self.draft.matched[run[-1]]
        inner = range(start + 1, old + 1)
        return all(not self.lines[index] or self.draft.depths[index] > self.draft.depths[start] for index in inner)

    def _is_placed(self, run: Sequence[int], above: int, below: int) -> bool:
        """True if a run has one position between two lines of the file, or contains or ends a shown definition."""
        if self._is_shown(run):
            return True
        return sum(span.start > above and span.stop <= below for span in self.draft.find_run_positions(run)) == 1

    def _is_shown(self, run: Sequence[int]) -> bool:
        """True if a run has the head of a definition, or is inside a shown definition or ends it."""
        return any(map(self.draft.is_named, run)) or self._is_end_of_shown(run[0]) or self._is_in_whole_block(run)

    def _is_end_of_shown(self, token: int) -> bool:
        """True if a line ends, in the file, a block whose head the draft shows."""
        depth, old = self.tokens[token].depth, self.draft.matched[token]
        rows = (
            t for t in range(token - 1, -1, -1) if self._is_outside(t, depth + 1) and self.tokens[t].kind != "marker"
        )
        head = next(rows, None)
        if head is None or self.tokens[head].depth != depth or head not in self.draft.matched:
            return False
        start = self.draft.matched[head]
        inner = range(start + 1, old)
        return start < old and not any(
            self.lines[index] and self.draft.depths[index] <= self.draft.depths[start] for index in inner
        )

    def _is_nearest(self, run: Sequence[int], end: int, start: int) -> bool:
        """True if a run has no other position between the lines `end` and `start` of the file."""
        return not any(end < span.start < start for span in self.draft.find_run_positions(run))

    def _has_distinctive_line(self, run: Sequence[int]) -> bool:
        """True if a line of a run is distinctive."""
        return any(is_distinctive(self.tokens[token].text) for token in run)
