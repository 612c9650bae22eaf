"""The law of gaps: lines go only between two lines of the file that one piece shows, and those tell one place.

Beside a marker nothing goes: what is new there is one more, or the edit agent decides. No line that goes is guessed by
what it resembles.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from core.edits.drafts.alignment import is_marked_inside
from core.edits.drafts.line_keys import is_same_call, parse_line_key
from core.edits.drafts.line_matches import CONTINUED, PREFIX, compile_thing
from core.edits.drafts.marked_draft import LEAVES, NAMED, OPENS, Gap, MarkedDraft, count_open, says_more
from core.edits.drafts.markers import is_marker, may_be_marker

_BRACKETS: Final = ("()", "[]", "{}")
_FEW: Final = 2  # lines at an end of a piece
_MANY: Final = 6  # lines that go, more than come, beside a single line
_SOME: Final = 4  # lines that come between two single lines or below a head, or go beside a line that tells nothing
_LONG: Final = 30  # signs of a line that is hardly written twice
_SECTION: Final = re.compile(r"\[+[\w.\"' -]+\]+")
_TEXT: Final = re.compile(r":\s*[|>][+-]?$")
_DEFINITION: Final = "definition "


class GapLaw:
    """The objections that the law of gaps has to a draft."""

    def __init__(self, draft: MarkedDraft) -> None:
        self.draft, self.tokens, self.lines = draft, draft.tokens, draft.lines
        self._gaps = list(draft.iterate_gaps())
        self._pieces = list(draft.iterate_pieces())
        self._anchors = [[token for token in piece if self._is_anchor(token)] for piece in self._pieces]
        self._removed = [compile_thing(token.removed) for token in draft.tokens if token.kind == "removal"]

    def find_breach(self) -> str:
        """Return why a piece may not belong where it was laid, or may not say what goes; "" = nothing is against it."""
        places = (self._judge_piece(number) for number in range(len(self._pieces)))
        return next(filter(None, places), "") or next(filter(None, map(self._judge_gap, self._gaps)), "")

    def _judge_piece(self, number: int) -> str:
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
        if not self._tells_place(number, runs):
            return f"{excerpt} and what is next to it fit in more than one place"
        return ""

    def _judge_lone_piece(self, piece: Sequence[int], label: str) -> str:
        """Object to a piece without an anchor that is not below a head that is shown, names what stays beside it, or
        takes the place of a line inside of something that the draft does not show."""
        is_inside = self.draft.is_inside(piece[0])
        if is_inside and not self._is_below_anchor(piece[0]):
            return f"{label} and the lines around it are not in the file"
        for gap in (gap for gap in self._gaps if any(token in piece for token in gap.come)):
            if self._repeats_name(gap):
                return f"{label} names what the file has there, and keeps"
            is_open = any(self.draft.depths[old] > 0 or OPENS.search(self.lines[old]) for old in gap.gone)
            if is_open and not is_inside:
                return f"{label} may be new, or take the place of line {gap.gone[0] + 1}"
        return ""

    def _repeats_name(self, gap: Gap) -> bool:
        """True if one of the outermost lines that come names what another line of its block names, which stays."""
        depth, scope = self._measure_scope(gap)
        keys = (parse_line_key(self.tokens[token].text) for token in gap.come if self.tokens[token].depth == depth)
        rivals = (index for key in keys for index in self._by_key[key or ""] if index not in self._gone)
        return any(self.draft.depths[rival] == depth and self._find_scope(rival, depth) == scope for rival in rivals)

    def _measure_scope(self, gap: Gap) -> tuple[int, int]:
        """Return the depth of the outermost lines that come, and the line of the file that their block lies below."""
        depth = min((self.tokens[token].depth for token in gap.come), default=0)
        return depth, self._find_scope(gap.left.old or 0 if gap.left is not None else -1, depth)

    def _is_displaced(self, new: Sequence[int], neighbour: int) -> bool:
        """True if new lines at an end of a piece, the outermost first, begin with lines that the file has elsewhere or
        hold a long one of them, would be in another section than they are meant for, or go on at an end of the file
        with something that is open there."""
        if self._find_whole_head(min(new), max(new)) is not None:
            return False
        outer = [self.tokens[token].text.strip() for token in new[:_FEW]]
        if all(row in self.draft.own for row in outer) and (len(outer) == _FEW or any(map(str.isalnum, outer[0]))):
            return True
        rows = [self.tokens[token].text.rstrip() for token in new if token not in self.draft.matched]
        if any(len(row.strip()) >= _LONG and self.lines.count(row) == 1 for row in rows):
            return True
        sections = [token for token in (*new, neighbour) if _SECTION.fullmatch(self.tokens[token].text.strip())]
        if new[0] < neighbour and (sections == [neighbour] or max(new) in sections):
            return True  # the lines belong to a section that is not shown, or would be in another one
        gap = next((gap for gap in self._gaps if new[0] in gap.come), None)
        if gap is None:  # versions by name that stay
            return False
        is_bound = gap.left is None if new[0] < neighbour else gap.right is None
        text = "".join(self.tokens[token].text for token in new)
        return is_bound and any(text.count(one) != text.count(other) for one, other in _BRACKETS)

    def _tells_place(self, number: int, runs: Sequence[Sequence[int]]) -> bool:
        """True if the anchors of a piece fit in one place between those of its neighbours. What lies between two runs
        of anchors goes, so one of them is there once, and the other is the nearest of its kind to it."""
        above = self.draft.matched[self._anchors[number - 1][-1]] if number and self._anchors[number - 1] else -1
        after = self._anchors[number + 1] if number + 1 < len(self._anchors) else []
        below = self.draft.matched[after[0]] if after else len(self.lines)
        piece, (first, last) = self._pieces[number], (runs[0], runs[-1])
        is_head_alone = len(piece) == 1 and piece[0] not in self.draft.same and not self.draft.is_inside(piece[0])
        if is_head_alone and not is_marked_inside(self.tokens, piece[0]):
            return False  # nothing tells whether it is another version of a head, or one more
        if len(runs) == 1:
            is_changed = len(first) < len(piece)
            is_dumb = not any(any(map(str.isalnum, self.tokens[token].text)) for token in piece)
            if not (is_changed or is_dumb) or self.draft.is_inside(piece[0]):
                return True
            return (not is_changed or self._tells(first)) and self._is_placed(first, above, below)
        if not any(self._tells(run) for run in (first, last)):
            return False
        return self._is_chained(runs, above, below) and not self._is_wide(runs)

    def _is_wide(self, runs: Sequence[Sequence[int]]) -> bool:
        """True if runs may be there by chance: much more goes between two than comes and one of them is a single line,
        much is changed and both of them are, or many lines go beside one that tells nothing and ends nothing shown."""
        for upper, lower in pairwise(runs):
            removed_count = self.draft.matched[lower[0]] - self.draft.matched[upper[-1]] - 1
            added_count = lower[0] - upper[-1] - 1
            single = sum(len(run) == 1 and not self._is_shown(run) for run in (upper, lower))
            if single and removed_count > (added_count + _MANY if single == 1 or added_count < _SOME else 0):
                return True
            if removed_count >= _SOME and not all(
                self._tells(run) or self._is_end_of_shown(run[0]) for run in (upper, lower)
            ):
                return True
        return False

    def _is_chained(self, runs: Sequence[Sequence[int]], above: int, below: int) -> bool:
        """True if every run of a piece is placed, or is the nearest of its kind to one beside it that tells."""
        placement_flags = [self._is_placed(run, above, below) for run in runs]
        steps = list(pairwise(range(len(runs))))
        for upper, lower in [*steps, *((lower, upper) for upper, lower in reversed(steps))]:
            if placement_flags[upper] and not placement_flags[lower] and self._tells(runs[upper]):
                first, last = sorted((upper, lower))
                end, start = self.draft.matched[runs[first][-1]], self.draft.matched[runs[last][0]]
                added_count, removed_count = runs[last][0] - runs[first][-1] - 1, start - end - 1
                is_held = (
                    len(runs[lower]) > 1 or abs(added_count - removed_count) <= _FEW or not self._tells(runs[lower])
                )
                placement_flags[lower] = is_held and self._is_nearest(runs[lower], end, start)
        return all(placement_flags)

    def _judge_gap(self, gap: Gap) -> str:
        """Object to lines that go without two anchors around them, and to a definition that would be there twice."""
        if twice := self._find_second_definition(gap):
            return f"{twice[:80]!r} would be there twice"
        if twin := self._find_twin(gap):
            return f"{twin[:80]!r} stays, and would go"
        if self._may_rewrite_start(gap):
            return f"{self.tokens[gap.come[0]].text.strip()[:80]!r} and more may be new, or the start of what is there"
        removed_indexes = [index for index in gap.gone if not self._is_spoken_of(index, gap)]
        if (
            not removed_indexes
            or self._is_enclosed(gap)
            or self._is_rewritten_end(gap, removed_indexes)
            or self._is_whole_block(gap, removed_indexes)
        ):
            return ""
        return f"line {removed_indexes[0] + 1} would go, and it does not say so"

    def _may_rewrite_start(self, gap: Gap) -> bool:
        """True if many lines come right below the head of a block, and nothing tells whether they are more of it or
        what it begins with now."""
        head = gap.left.token if gap.left is not None else None
        is_open = gap.is_kept_below or gap.right is None
        if head is None or gap.gone or len(gap.come) < _SOME or not is_open:
            return False
        return self.tokens[gap.come[0]].depth > self.tokens[head].depth

    def _find_twin(self, gap: Gap) -> str:
        """Return a line that goes though an end of the piece is the same, which is held by an end of the file alone on
        its other side: that one may be what is shown."""
        first, last = self.draft.markers[0], self.draft.markers[-1]
        open_ends = [piece for piece in self._pieces if piece[-1] < first or piece[0] > last]
        sides = [row.token for row in (gap.left, gap.right) if row is not None and row.token is not None]
        pieces = [piece for piece in open_ends if any(token in piece for token in sides)]
        outer = {token for piece in pieces for token in (piece[0], piece[-1]) if token in self.draft.same}
        rows = {self.tokens[token].text.rstrip() for token in outer if says_more(self.tokens[token].text)}
        return next((self.lines[index].strip() for index in gap.gone if self.lines[index] in rows), "")

    def _is_spoken_of(self, index: int, gap: Gap) -> bool:
        """True if words say that a line is removed, the only line of its block that names something becomes the only
        one that comes by that name, or it leaves the block at its end, as the last line that comes does."""
        line, depth = self.draft.bodies[index], self.draft.depths[index]
        if any(thing.search(line) for thing in self._removed):
            return True
        added_tokens = [self.tokens[token] for token in gap.come if self.tokens[token].depth == depth]
        if gap.left is not None and self.draft.find_depth_below(gap) < depth and LEAVES.match(line.strip()):
            return bool(added_tokens) and LEAVES.match(added_tokens[-1].text.strip()) is not None
        if len(gap.gone) == len(gap.come) == 1 and self._is_varied(line, gap):
            return True
        key = parse_line_key(line)
        namesakes = [token for token in added_tokens if parse_line_key(token.text) == key]
        if self._opens_block(index) and not any(OPENS.search(token.text.rstrip()) for token in namesakes):
            return False
        return key is not None and len(namesakes) == 1 and self._is_only_one(index)

    def _opens_block(self, index: int) -> bool:
        """True if what follows a line of the file lies in it, as a list does below its key."""
        below = next((position for position in range(index + 1, len(self.lines)) if self.lines[position]), index)
        is_list = self.lines[below].lstrip().startswith("- ") and self.draft.depths[below] == self.draft.depths[index]
        return OPENS.search(self.lines[index]) is not None and (
            self.draft.depths[below] > self.draft.depths[index] or is_list
        )

    def _is_varied(self, line: str, gap: Gap) -> bool:
        """True if one line right below an anchor becomes a call that is given more."""
        left_token = gap.left.token if gap.left is not None else None
        is_beside = left_token is not None and left_token == gap.come[0] - 1 and self._is_anchor(left_token)
        return is_beside and is_same_call(self.tokens[gap.come[0]].text, line)

    def _is_only_one(self, index: int) -> bool:
        """True if no other line of its block names the same thing at its depth."""
        depth, key = self.draft.depths[index], parse_line_key(self.lines[index])
        start = self._find_scope(index, depth)
        if start >= 0 and _TEXT.search(self.lines[start]):
            return False  # text below `run: |` has no keys
        rest = range(index + 1, len(self.lines))
        stop = next(
            (position for position in rest if self.lines[position] and self.draft.depths[position] < depth),
            len(self.lines),
        )
        places = self._by_key[key or ""]
        return sum(start < position < stop and self.draft.depths[position] == depth for position in places) == 1

    def _is_enclosed(self, gap: Gap) -> bool:
        """True if lines go between two anchors of one piece, or between two definitions that are shown side by side."""
        above = gap.left.token if gap.left is not None else None
        below = gap.right.token if gap.right is not None else None
        if below is None or not self._is_anchor(below):
            return False
        markers = [marker for marker in self.draft.markers if (-1 if above is None else above) < marker < below]
        if markers:
            return self._is_between_definitions(gap, markers, below)
        return above is not None and self._is_anchor(above) and (bool(gap.come) or self._may_omit(gap, above))

    def _find_anchors(self, token: int) -> Sequence[int]:
        """Return the anchors of the piece of a token."""
        return next((anchors for piece, anchors in zip(self._pieces, self._anchors, strict=True) if token in piece), ())

    def _may_omit(self, gap: Gap, above: int) -> bool:
        """True if nothing but lines goes where nothing comes, or the draft begins as an outline of definitions does."""
        keys = (parse_line_key(self.lines[index]) or "" for index in gap.gone)
        if self._tells([token for token in self._find_anchors(above) if token <= above]) or not any(
            key.startswith(_DEFINITION) for key in keys
        ):
            return True
        first = self._pieces[0][0]
        return self.draft.is_named(first) or PREFIX.match(self.tokens[first].text.strip()) is not None

    def _is_between_definitions(self, gap: Gap, markers: Sequence[int], below: int) -> bool:
        """True if whole lines go between the end of what is shown by its head above a marker, and another head."""
        first = gap.come[0] if gap.come else below
        is_whole = count_open([self.lines[index] for index in gap.gone]) == 0
        is_apart = is_whole and not CONTINUED.match(self.lines[gap.gone[0]].strip()) and not gap.is_kept_above
        head = next((token for token in range(markers[0] - 1, -1, -1) if self.tokens[token].text.strip()), None)
        has_named_head = head is not None and self.draft.is_named(head) and self.tokens[head].kind != "marker"
        return is_apart and has_named_head and self.draft.is_named(first) and markers[-1] < first

    def _is_whole_block(self, gap: Gap, removed_indexes: Sequence[int]) -> bool:
        """True if what goes is the end of a definition that is shown from its head to its end: nothing is left out in
        it, and a marker, the end of the draft, or a line of the file outside of it follows."""
        if not gap.come:
            return False
        first = self.tokens[gap.come[0]]
        head = next((t for t in range(gap.come[0] - 1, -1, -1) if self._is_outside(t, first.depth)), None)
        if head is None or self.tokens[head].kind == "marker" or not self._is_anchor(head):
            return False
        depth = self.tokens[head].depth
        after = self.tokens[gap.come[-1] + 1 :]
        end = next((token for token in after if token.text.strip()), None)
        is_closed = end is None or (end.depth <= depth and (end.kind != "marker" or end is not after[0]))
        below = self.draft.find_depth_below(gap)
        inside = all(self.draft.depths[index] > depth for index in removed_indexes) and below <= depth
        return is_closed and inside

    def _is_outside(self, token: int, depth: int) -> bool:
        """True if a token is a marker, or lies further out than a depth."""
        draft_token = self.tokens[token]
        return draft_token.kind == "marker" or (bool(draft_token.text.strip()) and draft_token.depth < depth)

    def _is_rewritten_end(self, gap: Gap, removed_indexes: Sequence[int]) -> bool:
        """True if lines at an end of the file become as many or more, no marker is there, and the draft does not begin
        or end with a line that the file has elsewhere."""
        first, last = self.draft.markers[0], self.draft.markers[-1]
        is_at_start = gap.left is None and all(token < first for token in gap.come)
        is_at_end = gap.right is None and all(token > last for token in gap.come)
        outer = ([gap.come[0]] if is_at_start else []) + ([gap.come[-1]] if is_at_end else []) if gap.come else []
        rows = [self.tokens[token].text.strip() for token in outer]
        is_known = any(says_more(row) and row in self.draft.own for row in rows)
        return bool(outer) and not is_known and len(removed_indexes) <= len(gap.come)

    def _find_second_definition(self, gap: Gap) -> str:
        """Return the head of a definition that comes, though what is around it keeps one that begins just so."""
        min_depth, scope = self._measure_scope(gap)
        for token in gap.come:
            row, key = self.tokens[token].text.strip(), parse_line_key(self.tokens[token].text)
            if self.tokens[token].depth != min_depth or key is None or not NAMED.match(key):
                continue
            rivals = (
                index for index in self._by_key[key] if self.draft.depths[index] == min_depth and self._is_kept(index)
            )
            for index in rivals if not self._is_decorated(token) else ():
                if self._begins_so(row, index, key) and self._find_scope(index, min_depth) == scope:
                    return row
        return ""

    def _is_kept(self, index: int) -> bool:
        return index not in self._gone and index not in self._held

    def _begins_so(self, row: str, index: int, key: str) -> bool:
        """True if a line of the file says before its name what a row does: the same kind of definition."""
        name = key.rpartition(" ")[2]
        return self.lines[index].strip().partition(name)[0] == row.partition(name)[0]

    def _is_decorated(self, token: int) -> bool:
        """True if a decorator that the file does not have stands before a line, such as that of a setter."""
        above = self.tokens[token - 1].text.strip() if token else ""
        return above.startswith("@") and above not in self.draft.own

    def _find_scope(self, index: int, depth: int) -> int:
        """Return the nearest line, from this one up, that lies further out than a depth; -1: none does."""
        while index >= 0 and not (self.lines[index] and self.draft.depths[index] < depth):
            index -= 1
        return index

    @cached_property
    def _by_key(self) -> dict[str, list[int]]:
        """The lines of the file by what they name."""
        places = defaultdict[str, list[int]](list)
        for index, line in enumerate(self.lines):
            if (key := parse_line_key(line)) is not None:
                places[key].append(index)
        return places

    @cached_property
    def _gone(self) -> set[int]:
        return {index for gap in self._gaps for index in gap.gone}

    @cached_property
    def _held(self) -> set[int]:
        return set(self.draft.matched.values())

    def _is_anchor(self, token: int) -> bool:
        """True if a token is a line of the file, or the head of the only thing of its name in what the draft shows."""
        text, same = self.tokens[token].text, self.draft.same.get(token)
        if is_marker(text) or may_be_marker(text):
            return False  # the file has a line that looks like one
        if same is not None and self.tokens[token].depth == self.draft.depths[same]:
            return True
        if not self.draft.is_named(token) or token not in self.draft.matched:
            return False
        return len(self._by_key[parse_line_key(text) or ""]) == 1 or self._is_only_in_shown(token)

    def _is_only_in_shown(self, token: int) -> bool:
        """True if a name is given once in what the draft shows around it by its head, or once at the top level."""
        old, head = self.draft.matched[token], self._find_head(token)
        scope = self._find_scope(old, self.draft.depths[old])
        is_shown = scope < 0 if head is None else self._is_anchor(head) and self.draft.matched[head] == scope
        return is_shown and self._is_only_one(old)

    def _find_head(self, token: int) -> int | None:
        """Return the nearest line above one of the draft that lies further out, and is no marker."""
        rows = (index for index in range(token - 1, -1, -1) if self._is_outside(index, self.tokens[token].depth))
        return next((index for index in rows if self.tokens[index].kind != "marker"), None)

    def _is_below_anchor(self, token: int) -> bool:
        """True if the nearest line of the draft that lies further out is in the file to the letter, or its head is."""
        head = self._find_head(token)
        return head is not None and self._is_anchor(head)

    def _find_whole_head(self, first: int, last: int) -> int | None:
        """Return the head of the definition that two lines of a piece lie in, if the piece shows it to its end."""
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
        """True if a run lies in a definition that its piece shows from head to end, in the draft as in the file."""
        if (head := self._find_whole_head(run[0], run[-1])) is None:
            return False
        start, old = self.draft.matched[head], self.draft.matched[run[-1]]
        inner = range(start + 1, old + 1)
        return all(not self.lines[index] or self.draft.depths[index] > self.draft.depths[start] for index in inner)

    def _is_placed(self, run: Sequence[int], above: int, below: int) -> bool:
        """True if between two lines of the file a run is there once, or has the head of a definition."""
        if self._is_shown(run):
            return True
        return sum(span.start > above and span.stop <= below for span in self.draft.find_places_of_run(run)) == 1

    def _is_shown(self, run: Sequence[int]) -> bool:
        """True if a run has the head of a definition, or lies in one or ends one that is shown by its head."""
        return any(map(self.draft.is_named, run)) or self._is_end_of_shown(run[0]) or self._is_in_whole_block(run)

    def _is_end_of_shown(self, token: int) -> bool:
        """True if a line ends in the file what the draft shows by its head."""
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
        """True if a run is not also there between the line that the first run ends with and the one that the last one
        begins with."""
        return not any(end < span.start < start for span in self.draft.find_places_of_run(run))

    def _tells(self, run: Sequence[int]) -> bool:
        """True if a line of a run says more than that something ends, or goes on in another branch."""
        return any(says_more(self.tokens[token].text) for token in run)
