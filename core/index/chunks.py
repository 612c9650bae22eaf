"""Chunks: a file split at its definitions into pieces about one subject.

A chunk has at most `MAX_CHUNK` characters, unless a single line is longer. A longer definition is split at the
definitions in it, then at blank lines; small neighbours are merged. Text without definitions is split at blank lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct

from core.languages import find_ending
from core.notebooks.notebook import is_notebook_path
from core.notebooks.rendering import CellLines, find_language, list_cells
from core.patterns import compile_lazily
from core.syntax.symbols import Symbol, find_symbols

MAX_CHUNK: Final = 1_600
"""Characters of a chunk, including line endings."""

_MERGED: Final = 800
_MAX_DEPTH: Final = 100  # depth of nested definitions; deeper ones are split as text
_COMMENT: Final = compile_lazily(r"\s*(?:#|//|/\*|\*|--|;;|%|@\w|<!--)")


class Chunk(Struct, frozen=True, kw_only=True):
    """A piece of a file: lines `start` to `end` (1-indexed, inclusive) with their text.

    `symbol` is the first definition that starts there, else the enclosing one ("Class.method", "" = none), and `kind`
    its kind; `defines`: the names of all definitions that start there. `part`: the 0-based number of the piece of a
    split definition or text.
    """

    start: int
    end: int
    symbol: str
    kind: str
    defines: tuple[str, ...]
    text: str
    part: int = 0


class CutFile(Struct, frozen=True, kw_only=True):
    """A text with its symbols; `lines` without endings, `chunks` in order, which cover every line but blank ones
    once."""

    lines: list[str]
    symbols: tuple[Symbol, ...]
    chunks: tuple[Chunk, ...]


class _Span(Struct, frozen=True):
    """Lines `first` up to `after` (0-indexed, exclusive) inside of the definition `within`, and their characters;
    `part` as in `Chunk`."""

    first: int
    after: int
    size: int
    within: Symbol | None
    part: int = 0


def cut_file(path: str, text: str) -> CutFile:
    """Return a text with its symbols and chunks. The path determines the language."""
    lines = split_source(text)
    cells = list_cells(text) if is_notebook_path(path) else []
    symbols = _find_in_cells(text, lines, cells) if cells else find_symbols(path, text) or ()
    spans = _Cutter(lines, symbols).cut(tuple(cell.head - 1 for cell in cells))
    starts = [symbol.first for symbol in symbols]
    chunks = (_build_chunk(lines, span, symbols, starts) for span in _merge(spans))
    return CutFile(lines=lines, symbols=symbols, chunks=tuple(chunk for chunk in chunks if chunk is not None))


def _find_in_cells(text: str, lines: Sequence[str], cells: Sequence[CellLines]) -> tuple[Symbol, ...]:
    """Return the symbols of a notebook. Every cell is parsed separately, so an incomplete one does not spoil the
    next."""
    name = f"cell.{find_ending(find_language(text))}"
    return tuple(
        symbol._replace(first=symbol.first + cell.head, last=symbol.last + cell.head)
        for cell in cells
        if cell.is_code
        for symbol in find_symbols(name, "\n".join(lines[cell.head : cell.last])) or ()
    )


def split_source(text: str) -> list[str]:
    """Return the lines of a text without endings, as the whole index counts them."""
    return [line.removesuffix("\r") for line in text.split("\n")]


class _Cutter:
    """A splitter of the lines of one file. `symbols` are ordered by first line, outer ones first."""

    def __init__(self, lines: Sequence[str], symbols: Sequence[Symbol]) -> None:
        self._lines = lines
        self._symbols = symbols
        self._sizes = [0, *accumulate(len(line) + 1 for line in lines)]

    def cut(self, borders: Sequence[int] = ()) -> Iterator[_Span]:
        """Iterate over the spans; none crosses a border, which is the first line of a part (0-indexed)."""
        for first, after in pairwise((0, *borders, len(self._lines))):
            inside = [symbol for symbol in self._symbols if first <= symbol.first < after] if borders else self._symbols
            yield from self._cut_at(inside, first, after, None)

    def _cut_at(
        self, symbols: Sequence[Symbol], first: int, after: int, within: Symbol | None, depth: int = 0
    ) -> Iterator[_Span]:
        """Split lines at the outermost definitions in them."""
        line_number = first
        for symbol, inner in _list_outermost(symbols, first, after):
            start = self._find_comment(symbol.first, line_number)
            yield from self._cut_text(line_number, start, within)
            line_number = symbol.last + 1
            if self._measure(start, line_number) > MAX_CHUNK:
                yield from self._cut_at(inner if depth < _MAX_DEPTH else (), start, line_number, symbol, depth + 1)
            else:
                yield _Span(start, line_number, self._measure(start, line_number), symbol)
        yield from self._cut_text(line_number, after, within)

    def _cut_text(self, first: int, after: int, within: Symbol | None) -> Iterator[_Span]:
        """Split lines without definitions: after the last blank line that leaves enough, else after any line."""
        part, start = 0, first
        while start < after:
            end = self._find_end(start, after)
            yield _Span(start, end, self._measure(start, end), within, part)
            start, part = end, part + 1

    def _find_end(self, start: int, after: int) -> int:
        if self._measure(start, after) <= MAX_CHUNK:
            return after
        furthest = max(bisect_left(self._sizes, self._sizes[start] + MAX_CHUNK + 1, start, after) - 1, start + 1)
        for end in range(furthest, start, -1):
            if self._measure(start, end) < MAX_CHUNK // 3:
                break
            if not self._lines[end - 1].strip():
                return end
        return furthest

    def _find_comment(self, line: int, above: int) -> int:
        """Return the first line of the comment directly above a definition."""
        while line > above and _COMMENT.match(self._lines[line - 1]):
            line -= 1
        return line

    def _measure(self, first: int, after: int) -> int:
        return self._sizes[after] - self._sizes[first]


def _list_outermost(symbols: Sequence[Symbol], first: int, after: int) -> Iterator[tuple[Symbol, Sequence[Symbol]]]:
    """Iterate over the definitions that are nested in no other one of these lines, with the definitions nested in
    them."""
    line_number, index = first, 0
    while index < len(symbols):
        symbol, begin = symbols[index], index + 1
        index = begin
        if symbol.first < line_number or symbol.last >= after:
            continue
        while index < len(symbols) and symbols[index].first <= symbol.last:
            index += 1
        yield symbol, symbols[begin:index]
        line_number = symbol.last + 1


def _merge(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Merge neighbours whose sum is small."""
    last: _Span | None = None
    for span in spans:
        if last is not None and last.size + span.size <= _MERGED:
            last = _Span(last.first, span.after, last.size + span.size, last.within, last.part)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _build_chunk(lines: list[str], span: _Span, symbols: Sequence[Symbol], starts: Sequence[int]) -> Chunk | None:
    """Return the chunk of a span without surrounding blank lines; None if all lines are blank."""
    first, after = span.first, span.after
    while first < after and not lines[first].strip():
        first += 1
    while first < after and not lines[after - 1].strip():
        after -= 1
    if first == after:
        return None
    defined_symbols = symbols[bisect_left(starts, first) : bisect_left(starts, after)]
    main_symbol = defined_symbols[0] if defined_symbols else span.within
    return Chunk(
        start=first + 1,
        end=after,
        symbol=main_symbol.qualified if main_symbol else "",
        kind=main_symbol.kind if main_symbol else "",
        defines=tuple(dict.fromkeys(symbol.name for symbol in defined_symbols)),
        text="\n".join(lines[first:after]),
        part=span.part,
    )
