"""The changes that a draft makes to a file, as gaps between the lines that stay, whatever it was laid on the file by.

A gap says which lines go and which come, and on which of its sides a marker stands. A marker that stands for the inside
of something is not beside lines that lie outside of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import BRANCH, CONTINUED, DraftToken, ResultRow
from core.edits.indentation import measure_depth

OPENS: Final = re.compile(r"[{(\[:]$|\b(?:do|then|begin)$")
_BARE: Final = re.compile(r"```\S*$|(?:try|do|begin|loop|unsafe|async)\s*[:{]?$")
LEAVES: Final = re.compile(r"(?:return|raise|throw)\b")
NAMED: Final = re.compile(r"(?:definition|block) ")


class Gap(NamedTuple):
    """The change between two rows that stay (None: an end of the file): old lines that go, tokens that come. A side
    `is_kept` if a marker, or what is outside of the draft, lies between it and what comes; `is_split` if one lies
    within what comes."""

    left: ResultRow | None
    right: ResultRow | None
    gone: tuple[int, ...]
    come: tuple[int, ...]
    is_kept_above: bool
    is_kept_below: bool
    is_split: bool


class MarkedDraft:
    """A file, a draft and the filled rows that they make: `rows` say which line of each every one is. `depths` are
    those of the lines of the file; None: as they are indented."""

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
        """The lines of the file without the white space at their ends."""
        return [body.rstrip() for body in self.bodies]

    @cached_property
    def own(self) -> frozenset[str]:
        """The lines of the file without their indentation."""
        return frozenset(body.strip() for body in self.bodies)

    @cached_property
    def matched(self) -> dict[int, int]:
        """The line of the file that each token is, or is a version of by its name."""
        pairs = ((row.token, row.old) for row in self.rows)
        return {t: old for t, old in pairs if t is not None and old is not None and self._is_version(t, old)}

    @cached_property
    def same(self) -> dict[int, int]:
        """The line of the file that each token is to the letter."""
        return {token: old for token, old in self.matched.items() if self._is_same(token, old)}

    def find_places(self, run: Sequence[str]) -> list[range]:
        """Return where the file has lines, one after the other."""
        size, rows = len(run), list(run)
        starts = range(len(self.lines) - size + 1)
        return [range(start, start + size) for start in starts if self.lines[start : start + size] == rows]

    def find_places_of_run(self, tokens: Sequence[int]) -> list[range]:
        """Return where the file has a run of tokens; but for blank lines if it has others in the run than the draft."""
        places = [self.matched[token] for token in tokens]
        pairs = zip(pairwise(tokens), pairwise(places), strict=True)
        if all((second - first > 1) == (below - above > 1) for (first, second), (above, below) in pairs):
            return self.find_places(self.lines[places[0] : places[-1] + 1])
        nonblank_indexes = [index for index, line in enumerate(self.lines) if line]
        rows = [line for line in self.lines[places[0] : places[-1] + 1] if line]
        windows = (
            nonblank_indexes[position : position + len(rows)]
            for position, index in enumerate(nonblank_indexes)
            if self.lines[index] == rows[0]
        )
        return [
            range(window[0], window[-1] + 1) for window in windows if [self.lines[index] for index in window] == rows
        ]

    def find_run(self, row: ResultRow, step: int, depth: int) -> tuple[list[str], bool]:
        """Return the lines of the file that the draft shares with it without a break, from a row of both on, and
        whether a marker that may stand for lines of a depth is next to them."""
        run: list[int] = []
        index = row.token or 0
        while 0 <= index < len(self.tokens) and self.tokens[index].kind != "marker":
            if self.tokens[index].text.strip():
                if index not in self.same or (run and not self.is_next(run[-1], self.same[index])):
                    return self._take(run), False
                run.append(self.same[index])
            index += step
        return self._take(run), 0 <= index < len(self.tokens) and self._may_hold([index], depth)

    def is_next(self, one: int, other: int) -> bool:
        """Return True if there is nothing but blank lines between two lines of the file."""
        first, last = sorted((one, other))
        return not any(self.lines[first + 1 : last])

    def is_named(self, token: int) -> bool:
        """Return True if a token is the head of a definition or of a block that has a name."""
        return NAMED.match(parse_line_key(self.tokens[token].text) or "") is not None

    def split_runs(self, anchors: Sequence[int]) -> list[list[int]]:
        """Split tokens that the file has into runs of those that follow each other in it."""
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
        """Return True if an earlier line of the draft that the file has, or its head by name, lies further out."""
        depth = self.tokens[token].depth
        return any(index in self.matched and self.tokens[index].depth < depth for index in range(token))

    def find_depth_below(self, gap: Gap) -> int:
        """Return the depth of the line of the file that follows a gap; -1: none does."""
        return -1 if gap.right is None else self.depths[gap.right.old or 0]

    def iterate_pieces(self) -> Iterator[list[int]]:
        """Yield the filled tokens between two markers, or an end of the draft and a marker."""
        for first, last in pairwise([-1, *self.markers, len(self.tokens)]):
            inner = range(first + 1, last)
            piece = [i for i in inner if self.tokens[i].kind == "line" and self.tokens[i].text.strip()]
            if piece:
                yield piece

    def iterate_gaps(self) -> Iterator[Gap]:
        """Yield the gaps, in order."""
        places = [index for index, row in enumerate(self.rows) if self._stays(row)]
        for above, below in pairwise([-1, *places, len(self.rows)]):
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
            is_kept_above=self._may_hold(upper[-1:], depth) if upper else start is None,
            is_kept_below=self._may_hold(lower[:1], depth) if lower else stop is None,
            is_split=bool(added_tokens) and any(added_tokens[0] < marker < added_tokens[-1] for marker in self.markers),
        )  # fmt: skip

    def _may_hold(self, markers: Sequence[int], depth: int | None) -> bool:
        """True if markers may stand for lines of a depth: not, if more of the draft follows, they stand in what the
        lines right above them open, and lines of that depth lie outside of that."""
        tokens = [(index, self.tokens[index]) for index in markers]
        inner = [index for index, token in tokens if token.is_scope_opened and not (token.is_first or token.is_last)]
        return depth is None or len(inner) < len(markers) or any(self._find_base(index) < depth for index in inner)

    def _find_base(self, marker: int) -> int:
        """The depth of what the lines right above a marker open, which may be several."""
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
    """Return how many brackets and long strings more than they close some lines open; below 0 if they close more."""
    text = "".join(rows)
    strings = any(text.count(quotes) % 2 for quotes in ('"""', "'''", "```"))
    return sum(map(text.count, "({[")) - sum(map(text.count, ")}]")) + strings


def says_more(line: str) -> bool:
    """Return True if a line says more than that something begins or ends, or goes on in another branch."""
    text = line.strip()
    if _BARE.match(text):
        return False
    closing = CONTINUED.match(text)
    rest = text[closing.end() :] if closing else text
    return any(map(str.isalnum, rest)) and not BRANCH.match(text)
