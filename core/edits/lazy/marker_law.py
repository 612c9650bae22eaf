"""The law of markers: what a marker stands for is kept, and a piece belongs where lines of it are.

Whatever a draft was laid on a file by, the lines that go must be spoken of: they lie between two lines that the same
piece shares with the file, or a line that comes is a version of them by its name. Next to a marker, where nothing
tells whether a new line is one more or takes the place of another, that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.hunks.costs import compute_replacement_cost, is_telling
from core.edits.indentation import measure_depth
from core.edits.lazy.blank_lines import ResultRow
from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.line_matches import CONTINUED, PREFIX, DraftToken, compile_thing

_WORD: Final = re.compile(r"[A-Za-z_]\w+")
_KEYWORD: Final = frozenset(
    "self this return def let const var new if else for in of not and or the a an is to func fn function public private "
    "static final void int string true false null none nil await async import from print assert".split()
)
_OPENS: Final = re.compile(r"[{(\[:]$|\b(?:do|then|begin)$")
_CLOSES: Final = re.compile(r"[)\]}]|</|end\b")
_LEAVES: Final = re.compile(r"(?:return|raise|throw)\b")
_ONCE_CALLED: Final = re.compile(r"[\w.]*\b(?:listen|main|run|start|serve|exit|render|mount)\(")
_CALL: Final = re.compile(r"(?P<callee>(?:await\s+)?[\w.$>:-]+\()(?P<given>.*)\)[;,]?")
_SHARED: Final = 0.4  # of the words of new lines: they may be a version of lines beside them


class Gap(NamedTuple):
    """What changes between two rows that stay (None: an end of the file): lines that go, lines of the draft that come.
    A side `is_kept` if a marker, or the outside of the draft, lies between it and what comes."""

    left: ResultRow | None
    right: ResultRow | None
    gone: tuple[int, ...]
    come: tuple[int, ...]
    is_kept_above: bool
    is_kept_below: bool
    is_split: bool


class MarkedDraft:
    """A file, a draft and the filled rows that they make: `rows` say which line of each every one is."""

    def __init__(self, bodies: Sequence[str], tokens: Sequence[DraftToken], rows: Sequence[ResultRow]) -> None:
        self.bodies, self.tokens, self.rows = bodies, tokens, rows
        self._markers = [index for index, token in enumerate(tokens) if token.kind == "marker"]

    def find_breach(self) -> str:
        """Return what the law has against the result; "" = nothing."""
        if not self._markers:
            return ""
        return next(filter(None, map(self._find_gap_breach, self._iterate_gaps())), "") or self._find_stray_piece()

    def _stays(self, row: ResultRow) -> bool:
        return row.old is not None and (row.token is None or self._is_same(row.token, row.old))

    def _is_same(self, token: int, old: int) -> bool:
        return self.tokens[token].text.strip() == self.bodies[old].strip()

    def _has_marker(self, first: int, last: int) -> bool:
        return any(first < index < last for index in self._markers)

    def _iterate_gaps(self) -> Iterator[Gap]:
        places = [index for index, row in enumerate(self.rows) if self._stays(row)]
        for above, below in pairwise([-1, *places, len(self.rows)]):
            left = self.rows[above] if above >= 0 else None
            right = self.rows[below] if below < len(self.rows) else None
            inner = [row.token for row in self.rows[above + 1 : below] if row.token is not None]
            first = 0 if left is None else (left.old or 0) + 1
            last = len(self.bodies) if right is None else right.old or 0
            gone = tuple(index for index in range(first, last) if self.bodies[index].strip())
            if not inner and not gone:
                continue
            start = -1 if left is None else left.token
            stop = len(self.tokens) if right is None else right.token
            lower, upper = (inner[0], inner[-1]) if inner else (stop or 0, start or 0)
            yield Gap(
                left, right, gone, tuple(inner),
                is_kept_above=start is None or self._has_marker(start, lower),
                is_kept_below=stop is None or self._has_marker(upper, stop),
                is_split=self._has_marker(lower, upper),
            )  # fmt: skip

    def _find_gap_breach(self, gap: Gap) -> str:
        if gap.is_split:
            return "one of its markers stands for nothing"
        marked = gap.is_kept_above or gap.is_kept_below
        gone = [index for index in gap.gone if not self._is_told_removed(index)]
        if not gap.come and (marked or gap.left is None or gap.right is None):
            return self._tell_gone(gone) if gone else ""
        if not marked:
            return ""
        left = [index for index in gap.gone if not self._is_replaced(index, gap)]
        if left and not self._shows_whole_block(gap):
            return self._tell_gone(left)
        return "" if gap.gone else self._find_addition_breach(gap)

    def _tell_gone(self, gone: Sequence[int]) -> str:
        return f"line {gone[0] + 1} would go, and it does not say so"

    def _is_told_removed(self, old: int) -> bool:
        things = [compile_thing(token.removed) for token in self.tokens if token.kind == "removal"]
        return any(thing.search(self.bodies[old]) for thing in things)

    def _is_replaced(self, old: int, gap: Gap) -> bool:
        """True if a line that comes is a version of one that goes, by its name or as the head of the same lines, or
        words say that it is removed."""
        line = self.bodies[old]
        depth, key = measure_depth(line), parse_line_key(line)
        come = [self.tokens[index].text for index in gap.come if self.tokens[index].depth == depth]
        if self._is_told_removed(old):
            return True
        if not is_telling(line):
            return any(row.strip() == line.strip() for row in come)
        if key is not None and any(parse_line_key(row) == key for row in come):
            return True
        return self._is_new_head(line, gap) or any(_is_same_call(row, line) for row in come)

    def _is_new_head(self, line: str, gap: Gap) -> bool:
        """True if a line opens what stands below it in the file, and the last line that comes opens it instead."""
        last, depth = self.tokens[gap.come[-1]], measure_depth(line)
        heads = all(_OPENS.search(row.rstrip()) for row in (line, last.text)) and last.depth == depth
        return heads and gap.right is not None and measure_depth(self.bodies[gap.right.old or 0]) > depth

    def _shows_whole_block(self, gap: Gap) -> bool:
        """True if a block is shown to its end, as a blank line and a marker outside of it tell, and what goes is the
        rest of it: its last line takes the place of the last one there."""
        last = gap.come[-1]
        above = [token for token in self.tokens[: gap.come[0]] if token.text.strip()]
        rest = self.tokens[last + 1 :]
        head = next((token for token in reversed(above) if token.depth < self.tokens[gap.come[0]].depth), None)
        if head is None or head.kind == "marker" or gap.is_kept_above or len(rest) < 2 or rest[0].text.strip():
            return False
        marker = next(token for token in rest if token.text.strip())
        below = -1 if gap.right is None else measure_depth(self.bodies[gap.right.old or 0])
        inside = all(measure_depth(self.bodies[index]) > head.depth for index in gap.gone)
        if marker.kind != "marker" or marker.depth > head.depth or below > head.depth or not inside:
            return False
        end, now = self.bodies[gap.gone[-1]].strip(), self.tokens[last].text.strip()
        ends = _LEAVES.match(now) is not None and self.tokens[last].depth == measure_depth(self.bodies[gap.gone[-1]])
        return ends or (len(gap.gone) == 1 and compute_replacement_cost(now, end) is not None)

    def _find_addition_breach(self, gap: Gap) -> str:
        """Object to new lines beside a marker that may take the place of what it stands for."""
        new = [self.tokens[index].text for index in gap.come]
        if gap.is_kept_below and _OPENS.search(new[-1].rstrip()):
            return f"{new[-1].strip()[:80]!r} opens what it does not show"
        if gap.is_kept_above and _CLOSES.match(new[0].strip()):
            return f"{new[0].strip()[:80]!r} closes what it does not show"
        if any(parse_line_key(row) for row in self._find_tops(new)):
            return ""
        there = [index for index, body in enumerate(self.bodies) if body.strip()]
        above = [index for index in there if gap.left is not None and index <= (gap.left.old or 0)][-len(new) :]
        below = [index for index in there if gap.right is not None and index >= (gap.right.old or 0)][: len(new)]
        beside = (above if gap.is_kept_above else []) + (below if gap.is_kept_below else [])
        if beside and _share_words(new, [self.bodies[index] for index in beside]) >= _SHARED:
            return f"{new[0].strip()[:80]!r} may be new, or take the place of line {beside[0] + 1}"
        return ""

    def _find_stray_piece(self) -> str:
        """Object to a piece that begins and ends with lines that the file does not have."""
        where = {row.token: row.old for row in self.rows if row.token is not None}
        held = {index for index, old in where.items() if index is not None and self._is_held(index, old)}
        for piece in self._iterate_pieces():
            if all(index in held for index in piece):
                continue
            telling = any(index in held and is_telling(self.tokens[index].text) for index in piece)
            depth = self.tokens[piece[0]].depth
            inside = any(index in held and self.tokens[index].depth < depth for index in range(piece[0]))
            if ((piece[0] in held or piece[-1] in held) and (telling or inside)) or self._is_new_part(piece):
                continue
            return f"{self.tokens[piece[0]].text.strip()[:80]!r} is not in the file"
        return ""

    def _is_held(self, token: int, old: int | None) -> bool:
        if old is None:
            return False
        key = parse_line_key(self.tokens[token].text)
        return self._is_same(token, old) or (key is not None and key == parse_line_key(self.bodies[old]))

    def _is_new_part(self, piece: Sequence[int]) -> bool:
        """True if a piece is made of whole things that have a name."""
        tops = self._find_tops([self.tokens[index].text for index in piece])
        return bool(tops) and all(parse_line_key(row) is not None for row in tops)

    def _find_tops(self, rows: Sequence[str]) -> list[str]:
        """The lines of the least depth that neither close what others open nor stand before them."""
        least = min(map(measure_depth, rows))
        tops = [row.strip() for row in rows if measure_depth(row) == least]
        return [row for row in tops if not CONTINUED.match(row) and not PREFIX.match(row)]

    def _iterate_pieces(self) -> Iterator[list[int]]:
        piece: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.kind == "line" and token.text.strip():
                piece.append(index)
            elif token.kind == "marker" and piece:
                yield piece
                piece = []
        if piece:
            yield piece


def _share_words(new: Sequence[str], old: Sequence[str]) -> float:
    mine, theirs = (set(_WORD.findall("\n".join(rows))) - _KEYWORD for rows in (new, old))
    return len(mine & theirs) / max(1, min(len(mine), len(theirs)))


def _is_same_call(new: str, old: str) -> bool:
    """True if one of two calls of the same thing is given all that the other one is, and it is given at least that."""
    one, other = _CALL.fullmatch(new.strip()), _CALL.fullmatch(old.strip())
    if one is None or other is None or one["callee"] != other["callee"]:
        return False
    return one["given"].startswith(other["given"]) or _ONCE_CALLED.fullmatch(one["callee"]) is not None


def find_breach(bodies: Sequence[str], tokens: Sequence[DraftToken], rows: Sequence[ResultRow]) -> str:
    """Return what the law has against a result; "" = nothing."""
    return MarkedDraft(bodies, tokens, rows).find_breach()
