"""Blocks of code that were moved within their file: definitions that are gone in one hunk, and the same in another.

A block is one or more whole definitions. Code that moves from one body into another may run at another time, so it is
no moved block, and neither is one that moves to another file, where its names may mean something else.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from core.patterns import compile_lazily
from core.protocol.review import Hunk
from core.syntax.symbols import Symbol, find_symbols

_BLOCKS: Final = frozenset({"function", "method", "class"})
_CALL: Final = compile_lazily(r"[\w\])]\s*\(|\bawait\b")


def find_moves(path: str, base: Sequence[str], pending: Sequence[str], hunks: Sequence[Hunk]) -> Mapping[str, str]:
    """Return the hunks that are nothing but moved definitions, each with the hunk on the other side of the move."""
    if len(hunks) < 2:
        return {}
    gone = defaultdict[str, list[str]](list)
    for hunk, block in _list_blocks(hunks, base, path, is_old=True):
        gone[block].append(hunk)
    moves = dict[str, str]()
    for hunk, block in _list_blocks(hunks, pending, path, is_old=False):
        if gone[block]:
            source = gone[block].pop(0)
            moves[hunk], moves[source] = source, hunk
    return moves


def is_deletion_of_definitions(path: str, base: Sequence[str], hunk: Hunk) -> bool:
    """Return True for a hunk that only takes whole definitions away, or constants of the module that call nothing."""
    return any(name == hunk.id for name, _ in _list_blocks([hunk], base, path, is_old=True, with_constants=True))


def _list_blocks(
    hunks: Sequence[Hunk], lines: Sequence[str], path: str, *, is_old: bool, with_constants: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the hunks that have lines on one side only, if these are whole definitions: the id, and their text."""
    one_sided = [hunk for hunk in hunks if not (hunk.new_lines if is_old else hunk.old_lines)]
    if not one_sided:
        return
    extents = {
        (symbol.first, symbol.last)
        for symbol in find_symbols(path, "\n".join(lines)) or ()
        if symbol.kind in _BLOCKS or (with_constants and _is_plain_constant(symbol, lines))
    }
    for hunk in one_sided:
        start = (hunk.old_start if is_old else hunk.new_start) - 1
        end = start + (hunk.old_lines if is_old else hunk.new_lines)
        if _is_whole(lines, start, end, extents):
            yield hunk.id, textwrap.dedent("\n".join(lines[start:end])).strip()


def _is_plain_constant(symbol: Symbol, lines: Sequence[str]) -> bool:
    """Return True for a value of the top level whose definition has no effect but to bind it."""
    text = "\n".join(lines[symbol.first : symbol.last + 1])
    return symbol.kind == "constant" and not text[:1].isspace() and _CALL.search(text) is None


def _is_whole(lines: Sequence[str], start: int, end: int, extents: set[tuple[int, int]]) -> bool:
    """Return True if the lines are definitions, with nothing but blank lines around them."""
    position, count = start, 0
    while position < end:
        if not lines[position].strip():
            position += 1
            continue
        last = max((last for first, last in extents if first == position and last < end), default=-1)
        if last < 0:
            return False
        position, count = last + 1, count + 1
    return count > 0
