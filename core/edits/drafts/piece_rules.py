"""The rules for pieces: the file has lines of every piece, and a piece adds one definition at most at its ends.

An *anchor* is a line of a piece that the file has to the letter and that stays, or the head of a definition whose name
the file defines. A piece between two anchors replaces the lines between them. A piece that begins or ends with a new
line may be an addition, or the rest of an edit for another text of the file: it is accepted only if it adds a single
definition and its anchors have a unique position. A piece without an anchor is a version of a line by its name, or one
whole definition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from core.edits.drafts.alignment import CLOSER
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import BRANCH, CONTINUED, PREFIX
from core.edits.drafts.marked_draft import NAMED, OPENS, MarkedDraft, count_open, is_distinctive
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily

_HASHED: Final = compile_lazily(r"#(?:\w|#+\s)")
_FEW: Final = 2  # lines of an addition without a name


class PieceRules:
    """The rules for the pieces of a draft. `versions` are tokens that replace a line of the file by its name,
    `whole_tokens` those of blocks that are shown to their ends."""

    def __init__(self, draft: MarkedDraft, versions: Collection[int], whole_tokens: frozenset[int]) -> None:
        self.draft, self.tokens, self._versions, self._whole = draft, draft.tokens, versions, whole_tokens

    def find_stray_piece(self) -> str | None:
        """Return why a piece may not belong where it was placed; None: no objection."""
        return next(filter(None, map(self._judge, self.draft.iterate_pieces())), None)

    def _judge(self, piece: Sequence[int]) -> str | None:
        anchors = [index for index in piece if self.is_anchor(index)]
        runs = self.draft.split_runs(anchors)
        excerpt = repr(self.tokens[piece[0]].text.strip()[:80])
        if not anchors:
            return None if self._is_self_contained(piece) else f"{excerpt} and the lines around it are not in the file"
        if len(runs) == 1 and len(anchors) == len(piece):
            return None
        if self._loses_definition(runs):
            return f"a definition would go between {excerpt} and what follows it, and it does not say so"
        if not self._has_unique_position(runs, piece) or (
            not self.draft.is_inside(piece[0]) and self._has_rival(piece)
        ):
            return f"{excerpt} and what is next to it fit in more than one place"
        return self._judge_ends(piece, anchors)

    def _judge_ends(self, piece: Sequence[int], anchors: Sequence[int]) -> str | None:
        """Object to a new beginning or end of a piece with anchors, if it may not be an addition."""
        above, below = [i for i in piece if i < anchors[0]], [i for i in piece if i > anchors[-1]]
        if self.draft.is_named(anchors[0]) and all(PREFIX.match(self.tokens[index].text.strip()) for index in above):
            above = []  # decorators and comments before a definition are part of it
        if above and below:
            return f"{self.tokens[piece[0]].text.strip()[:80]!r} and the last line of its part are not in the file"
        new = above or below
        if not new or self._is_addition(new, anchors):
            return None
        return f"{self.tokens[new[0]].text.strip()[:80]!r} may be new, or the file differs from what the edit assumes"

    def is_anchor(self, token: int) -> bool:
        """True if a token is a line of the file, or the head of a definition whose name the file defines."""
        match = NAMED.match(parse_line_key(self.tokens[token].text) or "")
        old = (self.draft.matched if match else self.draft.same).get(token)
        return old is not None and (bool(match) or self.tokens[token].depth == self.draft.depths[old])

    def _has_unique_position(self, runs: Sequence[Sequence[int]], piece: Sequence[int]) -> bool:
        """True if the anchors of a piece have a unique position, or the piece only adds to a block shown by its head.
        Anchors that begin the draft without a marker need one themselves, as the lines before them may be meant to
        stay."""
        if len(runs) > 1 and piece[0] in runs[0] and piece[0] < self.draft.markers[0] and not self._is_placed(runs[0]):
            return False
        is_addition = len(runs) == 1 and self.draft.rows[-1].token != piece[-1] and self.draft.is_inside(piece[0])
        return is_addition or any(map(self._is_placed, runs))

    def _loses_definition(self, runs: Sequence[Sequence[int]]) -> bool:
        """True if a definition is removed, and only scattered lines of the file match between a single line at an end
        of the piece and the other end: they may match by chance."""
        first, last = self.draft.matched[runs[0][0]], self.draft.matched[runs[-1][-1]]
        keys = {parse_line_key(token.text) for token in self.tokens}
        removed_keys = (parse_line_key(self.draft.lines[index]) for index in range(first, last))
        has_lost_definition = any(
            key is not None and key.startswith("definition ") and key not in keys for key in removed_keys
        )
        return has_lost_definition and len(runs) > _FEW and min(len(runs[0]), len(runs[-1])) < _FEW

    def _is_placed(self, run: Sequence[int]) -> bool:
        has_name = any(map(self.draft.is_named, run))
        return has_name or self._is_at_end(run) or self._is_unique(run)

    def _is_at_end(self, run: Sequence[int]) -> bool:
        """True if the draft begins or ends with the line that the file begins or ends with."""
        first, last = run[0], run[-1]
        nonblank_indexes = [index for index, line in enumerate(self.draft.lines) if line]
        before, after = self.tokens[:first], self.tokens[last + 1 :]
        starts = self.draft.matched[first] == nonblank_indexes[0] and not any(token.text.strip() for token in before)
        return starts or (
            self.draft.matched[last] == nonblank_indexes[-1] and not any(token.text.strip() for token in after)
        )

    def _is_unique(self, run: Sequence[int]) -> bool:
        return len(self.draft.find_positions(self._list_lines(run))) == 1

    def _list_lines(self, run: Sequence[int]) -> list[str]:
        old = [self.draft.matched[index] for index in run]
        return self.draft.lines[old[0] : old[-1] + 1]

    def _has_rival(self, piece: Sequence[int]) -> bool:
        """True if another position in the file has more of the first or of the last lines of a piece in sequence."""
        same = self.draft.same
        for tokens in (list(piece), list(piece)[::-1]):
            pairs = zip([tokens[0], *tokens], tokens, strict=False)
            gap_flags = (
                not (successor in same and self.draft.is_next(same[one], same[successor])) for one, successor in pairs
            )
            size = next((position for position, is_apart in enumerate(gap_flags) if is_apart), len(tokens))
            shared_lines = [self.tokens[index].text.strip() for index in tokens[:size]]
            if not 0 < size < len(tokens) or not any(map(is_distinctive, shared_lines)):
                continue
            first, last = sorted((tokens[0], tokens[size]))
            longer = [token.text.rstrip() for token in self.tokens[first : last + 1]]
            if any(same[tokens[0]] not in span for span in self.draft.find_positions(longer)):
                return True
        return False

    def _is_self_contained(self, piece: Sequence[int]) -> bool:
        """True if a piece without an anchor is a version of a line, a line of a block shown by its head, or one whole
        definition."""
        first = piece[0]
        if len(piece) == 1 and (self._is_version(first) or self.draft.is_inside(first)):
            return True
        heads = self._find_heads(piece)
        one = len(heads) == 1 and first > self.draft.markers[0] and self._is_whole(piece, heads[0])
        key = parse_line_key(self.tokens[first].text)
        has_known_lines = any(is_distinctive(self.tokens[index].text) for index in self.draft.same) or not any(
            self.draft.lines
        )
        return one and has_known_lines and (self.draft.is_named(heads[0]) or (len(piece) == 1 and key is not None))

    def _is_version(self, token: int) -> bool:
        """True if a line replaces the only one with its name at its depth, or its only call; a remark about the
        following lines, such as an attribute, has no name."""
        row, depth = self.tokens[token].text, self.tokens[token].depth
        if _is_remark(row.strip()) or token not in self.draft.matched:
            return token in self._versions and not _is_remark(row.strip())
        key, depths = parse_line_key(row), self.draft.depths
        positions = [index for index, line in enumerate(self.draft.lines) if line and parse_line_key(line) == key]
        return len(positions) == 1 and depths[positions[0]] == depth

    def _is_addition(self, new: Sequence[int], anchors: Sequence[int]) -> bool:
        """True if new lines at an end of a piece are one definition, or belong to the definition that the piece
        shows."""
        neighbour = anchors[0] if new[0] < anchors[0] else anchors[-1]
        text = self.tokens[neighbour].text.strip()
        if not any(map(str.isalnum, text)) and not CONTINUED.match(text):
            return False  # a bare `//!` or `"""` may match the one above or the one below
        if self._is_bounded(new) or self._whole.issuperset(new):
            return True
        if new[0] > neighbour and _is_remark(text):
            return False  # the line that the remark refers to is missing
        if not self.draft.is_named(neighbour) and self._is_changed_within(anchors):
            return False
        heads = self._find_heads(new)
        has_name = parse_line_key(self.tokens[heads[0]].text) is not None or self.draft.is_inside(heads[0])
        has_context = any(is_distinctive(self.tokens[index].text) for index in anchors)
        return (has_name or has_context) and len(heads) == 1 and self._is_whole(new, heads[0])

    def _is_changed_within(self, anchors: Sequence[int]) -> bool:
        """True if lines are also added or removed between anchors."""
        inner = range(anchors[0], anchors[-1])
        has_additions = any(self.tokens[index].text.strip() and index not in anchors for index in inner)
        return has_additions or len(self.draft.split_runs(anchors)) > 1

    def _is_bounded(self, new: Sequence[int]) -> bool:
        """True if new lines are the first or last ones of the draft and of the result, and no marker is there."""
        first, last = self.draft.rows[0].token == new[0], self.draft.rows[-1].token == new[-1]
        return (first and new[0] < self.draft.markers[0]) or (last and new[-1] > self.draft.markers[-1])

    def _is_whole(self, new: Sequence[int], head: int) -> bool:
        """True if `new` is a line or two, or has a name or a closing line, and leaves no bracket open."""
        bare = _is_remark(self.tokens[head].text.strip())
        rows = [self.tokens[index].text for index in new if bare or index >= head]
        is_closed = CLOSER.match(rows[-1].strip()) is not None and measure_depth(rows[-1]) == measure_depth(rows[0])
        has_name = parse_line_key(rows[0]) is not None or BRANCH.match(rows[0].strip()) is not None
        is_open = OPENS.search(rows[-1].rstrip()) is not None or count_open(rows) > 0
        return not is_open and (len(rows) <= _FEW or has_name or is_closed)

    def _find_heads(self, new: Sequence[int]) -> list[int]:
        """Return the heads of the definitions in `new`: the least indented lines that do not close a block. A comment
        or decorator before a head belongs to it."""
        rows = {index: self.tokens[index].text for index in new}
        min_depth = min(map(measure_depth, rows.values()))
        heads: list[int] = []
        is_open, is_noted = (
            False,
            any("/*" in row for row in rows.values()),
        )  # otherwise a star begins an item of a list
        for index, row in rows.items():
            text = row.strip()
            if index != new[0] and (measure_depth(row) > min_depth or CLOSER.match(text) or text == "{"):
                continue
            heads[len(heads) - is_open :] = [index]
            is_open = PREFIX.match(text) is not None and (is_noted or not text.startswith("*"))
        return heads


def _is_remark(text: str) -> bool:
    """True for a comment, a decorator or an attribute: it refers to the following lines."""
    return PREFIX.match(text) is not None and _HASHED.match(text) is None
