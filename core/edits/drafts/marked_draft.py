"""The changes that a draft makes to a file, as gaps between the retained lines, whichever way the draft was placed.

A gap lists the removed and the added lines, and on which of its sides a marker is. A marker for the inside of a block
does not count for lines outside of that block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import BRANCH, CONTINUED, DraftToken, ResultRow
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily

OPENS: Final = compile_lazily(r"[{(\[:]$|\b(?:do|then|begin)$")
_BARE: Final = compile_lazily(r"```\S*$|(?:try|do|begin|loop|unsafe|async)\s*[:{]?$")
LEAVES: Final = compile_lazily(r"(?:return|raise|throw)\b")
NAMED: Final = compile_lazily(r"(?:definition|block) ")


class Gap(NamedTuple):
    """The change between two retained rows (None: an end of the file): old lines that are removed, tokens that are
    added.

    A side is retained (`is_retained_above`, `is_retained_below`) if a marker, or an end of the draft, is between it and
    the added tokens; `is_split`: a marker is between the added tokens.
    """

    left: ResultRow | None
    right: ResultRow | None
    removed: tuple[int, ...]
    added: tuple[int, ...]
    is_retained_above: bool
    is_retained_below: bool
    is_split: bool


class MarkedDraft:
    """A file, a draft and the filled rows of their result: `rows` map the lines of the result to those of both.

    `depths` are those of the lines of the file; None = their indentation.
    """

    def __init__(
        self,
        bodies: Sequence[str],
        tokens: Sequence[DraftToken],
        rows: Sequence[ResultRow],
        depths: Sequence[int] | None = None,
    ) -> None:
        self.bodies, self.tokens, self.rows = bodies, tokens, rows
        self.depths = [measure_depth(body) for body in bodies] if depths is None else depths
        self.markers = [index for index, token in enumerate(tokens) if token.kind == "marker"]

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file without trailing white space."""
        return [body.rstrip() for body in self.bodies]

    @cached_property
    def stripped_lines(self) -> frozenset[str]:
        """The lines of the file without indentation and trailing white space."""
        return frozenset(body.strip() for body in self.bodies)

    @cached_property
    def matched(self) -> dict[int, int]:
        """The line of the file that every token equals, or is a version of by its name."""
        pairs = ((row.token, row.old) for row in self.rows)
        return {t: old for t, old in pairs if t is not None and old is not None and self._is_version(t, old)}

    @cached_property
    def same(self) -> dict[int, int]:
        """The line of the file that every token equals to the letter."""
        return {token: old for token, old in self.matched.items() if self._is_same(token, old)}

    def find_positions(self, run: Sequence[str]) -> list[range]:
        """Return where the file has the lines of a run, one after the other."""
        size, rows = len(run), list(run)
        starts = range(len(self.lines) - size + 1)
        return [range(start, start + size) for start in starts if self.lines[start : start + size] == rows]

    def find_run_positions(self, tokens: Sequence[int]) -> list[range]:
        """Return where the file has a run of tokens; blank lines are ignored if draft and file differ in them within
        the run."""
        positions = [self.matched[token] for token in tokens]
        pairs = zip(pairwise(tokens), pairwise(positions), strict=True)
        if all((second - first > 1) == (below - above > 1) for (first, second), (above, below) in pairs):
            return self.find_positions(self.lines[positions[0] : positions[-1] + 1])
        nonblank_indexes = [index for index, line in enumerate(self.lines) if line]
        rows = [line for line in self.lines[positions[0] : positions[-1] + 1] if line]
        windows = (
            nonblank_indexes[position : position + len(rows)]
            for position, index in enumerate(nonblank_indexes)
            if self.lines[index] == rows[0]
        )
        return [
            range(window[0], window[-1] + 1) for window in windows if [self.lines[index] for index in window] == rows
        ]

    def find_run(self, row: ResultRow, step: int, depth: int) -> tuple[list[str], bool]:
        """Return the unbroken run of lines that the draft shares with the file from `row` on, in the direction of
        `step`, and whether the run ends at a marker that may cover lines of `depth`."""
        run: list[int] = []
        index = row.token or 0
        while 0 <= index < len(self.tokens) and self.tokens[index].kind != "marker":
            if self.tokens[index].text.strip():
                if index not in self.same or (run and not self.is_next(run[-1], self.same[index])):
                    return self._take(run), False
                run.append(self.same[index])
            index += step
        return self._take(run), 0 <= index < len(self.tokens) and self._may_cover([index], depth)

    def is_next(self, one: int, other: int) -> bool:
        """True if only blank lines are between two lines of the file."""
        first, last = sorted((one, other))
        return not any(self.lines[first + 1 : last])

    def is_named(self, token: int) -> bool:
        """True if a token is the head of a definition or of a named block."""
        return NAMED.match(parse_line_key(self.tokens[token].text) or "") is not None

    def split_runs(self, anchors: Sequence[int]) -> list[list[int]]:
        """Split tokens that the file has into runs that are contiguous in the file."""
        runs: list[list[int]] = []
        for token in anchors:
            if runs and self.is_next(self.matched[runs[-1][-1]], self.matched[token]):
                runs[-1].append(token)
            else:
                runs.append([token])
        return runs

    def _take(self, run: Sequence[int]) -> list[str]:
        return self.lines[min(run) : max(run) + 1] if run else []

    def is_inside(self, token: int) -> bool:
        """True if an earlier token that the file has, or whose name it defines, is less indented."""
        depth = self.tokens[token].depth
        return any(index in self.matched and self.tokens[index].depth < depth for index in range(token))

    def find_depth_below(self, gap: Gap) -> int:
        """Return the depth of the line of the file that follows a gap; -1 = there is none."""
        return -1 if gap.right is None else self.depths[gap.right.old or 0]

    def iterate_pieces(self) -> Iterator[list[int]]:
        """Yield the filled tokens of every piece: between two markers, or a marker and an end of the draft."""
        for first, last in pairwise([-1, *self.markers, len(self.tokens)]):
            inner = range(first + 1, last)
            piece = [i for i in inner if self.tokens[i].kind == "line" and self.tokens[i].text.strip()]
            if piece:
                yield piece

    def iterate_gaps(self) -> Iterator[Gap]:
        """Yield the gaps, in order."""
        positions = [index for index, row in enumerate(self.rows) if self._stays(row)]
        for above, below in pairwise([-1, *positions, len(self.rows)]):
            left = self.rows[above] if above >= 0 else None
            right = self.rows[below] if below < len(self.rows) else None
            added_tokens = tuple(row.token for row in self.rows[above + 1 : below] if row.token is not None)
            first = 0 if left is None else (left.old or 0) + 1
            last = len(self.bodies) if right is None else right.old or 0
            removed_indexes = tuple(index for index in range(first, last) if self.bodies[index].strip())
            if added_tokens or removed_indexes:
                yield self._describe_gap((left, right), removed_indexes, added_tokens)

    def _describe_gap(
        self,
        sides: tuple[ResultRow | None, ResultRow | None],
        removed_indexes: tuple[int, ...],
        added_tokens: tuple[int, ...],
    ) -> Gap:
        left, right = sides
        start = -1 if left is None else left.token
        stop = len(self.tokens) if right is None else right.token
        upper = [
            m
            for m in self.markers
            if (-1 if start is None else start) < m < (added_tokens[0] if added_tokens else stop or 0)
        ]
        lower = [
            m
            for m in self.markers
            if (added_tokens[-1] if added_tokens else start or 0) < m and (stop is None or m < stop)
        ]
        depth = min((self.depths[index] for index in removed_indexes), default=None)
        return Gap(
            left, right, removed_indexes, added_tokens,
            is_retained_above=self._may_cover(upper[-1:], depth) if upper else start is None,
            is_retained_below=self._may_cover(lower[:1], depth) if lower else stop is None,
            is_split=bool(added_tokens) and any(added_tokens[0] < marker < added_tokens[-1] for marker in self.markers),
        )  # fmt: skip

    def _may_cover(self, markers: Sequence[int], depth: int | None) -> bool:
        """True if markers may cover lines of `depth`. They may not if they are inside of a block, more of the draft
        follows, and lines of that depth are outside of that block."""
        tokens = [(index, self.tokens[index]) for index in markers]
        inner = [index for index, token in tokens if token.is_scope_opened and not (token.is_first or token.is_last)]
        return depth is None or len(inner) < len(markers) or any(self._find_base(index) < depth for index in inner)

    def _find_base(self, marker: int) -> int:
        """Return the depth of the block that the lines right above a marker open, which may be several."""
        base, bracket_balance = -1, 0
        for token in reversed(self.tokens[:marker]):
            if token.text.strip():
                base, bracket_balance = token.depth, bracket_balance + token.text.count(")") - token.text.count("(")
                if bracket_balance <= 0:
                    break
        return base

    def _stays(self, row: ResultRow) -> bool:
        if row.old is None or row.token is None:
            return row.old is not None
        match = NAMED.match(parse_line_key(self.tokens[row.token].text) or "")
        return self._is_version(row.token, row.old) if match else self._is_same(row.token, row.old)

    def _is_same(self, token: int, old: int) -> bool:
        return self.tokens[token].text.strip() == self.bodies[old].strip()

    def _is_version(self, token: int, old: int) -> bool:
        key = parse_line_key(self.tokens[token].text)
        return self._is_same(token, old) or (key is not None and key == parse_line_key(self.bodies[old]))


def count_open(rows: Sequence[str]) -> int:
    """Count the brackets and long strings that lines open and do not close; negative if they close more."""
    text = "".join(rows)
    strings = any(text.count(quotes) % 2 for quotes in ('"""', "'''", "```"))
    return sum(map(text.count, "({[")) - sum(map(text.count, ")}]")) + strings


def is_distinctive(line: str) -> bool:
    """True if a line is more than the start, the end or another branch of a block."""
    text = line.strip()
    if _BARE.match(text):
        return False
    closing = CONTINUED.match(text)
    rest = text[closing.end() :] if closing else text
    return any(map(str.isalnum, rest)) and not BRANCH.match(text)
