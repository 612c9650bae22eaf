"""Search of definitions by approximate names: exact, by prefix, by part, by words, by abbreviation, or by similarity.

Kinds of matches come in this order, regardless of the path.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.index.path_kinds import weigh_path
from core.index.search.index_search import SearchRequest
from core.index.words import split_identifier
from core.protocol.queries.files import SearchHit
from core.syntax.symbols import find_symbols
from core.text.similarity import find_closest

MAX_NAMES: Final = 40
_ENOUGH_NAMES: Final = 8
"""A number of matches that makes a misspelling unlikely."""

_MAX_WORDS: Final = 5  # more words are not a name
_MIN_SIMILARITY: Final = 0.7
_MATCH_KINDS: Final = 7
_EXACT, _OTHER_CASE, _BEGINNING, _PART, _WORDS, _SHORT_FORM, _SPELLING = range(_MATCH_KINDS, 0, -1)


class _NamedHit(NamedTuple):
    """A definition by its bare name."""

    name: str
    hit: SearchHit


class SymbolSearch:
    """A search of the names of an index; for one thread at a time. `search` raises `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._names: list[str] = []
        self._version = -1

    def search(self, request: SearchRequest) -> list[SearchHit]:
        """Return definitions with names similar to the text ("name", "Class.method"), best first."""
        pending = _list_pending(request.pending)
        owner, pattern = _split_name(request.text)
        if not pattern or " " in pattern:
            return []
        below = tuple(directory.strip("/") + "/" for directory in request.directories if directory.strip("/"))
        hits: list[SearchHit] = []
        for name, (match_kind, likeness) in _choose_names(
            pattern, {*self._load_names(), *(named_hit.name for named_hit in pending)}
        ):
            for hit in [
                *self._find_places(name, request),
                *(named_hit.hit for named_hit in pending if named_hit.name == name),
            ]:
                is_owned = not owner or owner.lower() in hit.symbol.lower()
                if is_owned and (not below or hit.path.startswith(below)):
                    within = likeness * (0.5 + 0.5 * weigh_path(hit.path, frozenset()))
                    hits.append(replace(hit, score=round((match_kind - 1 + within) / _MATCH_KINDS, 6)))
        hits.sort(key=lambda hit: (-hit.score, len(hit.symbol), hit.path, hit.start))
        return hits[: request.limit]

    def search_words(self, request: SearchRequest) -> list[SearchHit]:
        """Return the results of `search`, also for a name given as separate words."""
        words = request.text.split()
        if not 1 < len(words) <= _MAX_WORDS:
            return self.search(request)
        requests = [replace(request, text=joint.join(words)) for joint in (".", "_")]
        hits = {(hit.path, hit.start): hit for variant in requests for hit in self.search(variant)}
        return list(hits.values())[: request.limit]

    def _find_places(self, name: str, request: SearchRequest) -> list[SearchHit]:
        rows = self._connection.execute(
            "select path, symbols.start, symbols.end, qualified, kind from symbols join files"
            " on files.id = symbols.file where lower(name) = lower(?1) and name = ?1 order by path, symbols.start",
            (name,),
        )
        return [
            SearchHit(path=path, start=start, end=end, symbol=symbol, kind=kind)
            for path, start, end, symbol, kind in rows
            if path not in request.pending
        ]

    def _load_names(self) -> list[str]:
        version = self._connection.execute("pragma data_version").fetchone()[0]
        if version != self._version:
            rows = self._connection.execute("select distinct name from symbols order by name")
            self._names, self._version = [name for (name,) in rows], version
        return self._names


def is_named(text: str, symbol: str) -> bool:
    """True if a text is the name of a definition ("name", "Class.method"), in any case."""
    owner, pattern = _split_name(text.lower())
    qualifier, _, name = symbol.lower().rpartition(".")
    return bool(pattern) and name == pattern and (not owner or f".{qualifier}".endswith(f".{owner}"))


def _split_name(text: str) -> tuple[str, str]:
    """Return the qualifier of a name, "" = none, and its last part."""
    owner, _, name = text.strip().removesuffix("()").replace("::", ".").replace("#", ".").rpartition(".")
    return owner, name


def _choose_names(pattern: str, names: Iterable[str]) -> list[tuple[str, tuple[int, float]]]:
    """Return the best matching names with their kind of match and similarity from 0 to 1."""
    sorted_names = sorted(names)
    folded_pattern, parts = pattern.lower(), frozenset(split_identifier(pattern)[1:])
    matches = {
        name: (match_kind, min(len(folded_pattern) / len(name), 1.0))
        for name in sorted_names
        if (match_kind := _classify_match(pattern, parts, name))
    }
    if len(matches) < _ENOUGH_NAMES:
        others = [name for name in sorted_names if name not in matches and name.lower() not in folded_pattern]
        nearest = find_closest(
            folded_pattern, [name.lower() for name in others], limit=_ENOUGH_NAMES, cutoff=_MIN_SIMILARITY
        )
        matches |= {others[index]: (_SPELLING, likeness) for index, likeness in nearest}
    return sorted(matches.items(), key=lambda pair: (-pair[1][0], -pair[1][1], pair[0]))[:MAX_NAMES]


def _classify_match(pattern: str, parts: frozenset[str], name: str) -> int:
    """Return how `pattern`, with its `parts`, matches a name; 0: at most by similarity."""
    folded_pattern, folded_name = pattern.lower(), name.lower()
    if folded_name == folded_pattern:
        return _EXACT if name == pattern else _OTHER_CASE
    if folded_pattern in folded_name:
        return _BEGINNING if folded_name.startswith(folded_pattern) else _PART
    if parts and all(part in folded_name for part in parts) and parts <= set(split_identifier(name)):
        return _WORDS
    letters = iter(folded_name)
    if len(folded_pattern) > 1 and all(letter in letters for letter in folded_pattern):
        words = split_identifier(name)
        return _SHORT_FORM if _is_short_form(folded_pattern.replace("_", ""), words[1:] or words) else 0
    return 0


def _is_short_form(short: str, words: Sequence[str]) -> bool:
    """True if `short` consists of prefixes of consecutive words ("gcsql" of get, combinator, sql)."""
    positions = {0}  # prefix lengths that the words so far can form
    for word in words:
        ends = {0}
        for start in positions:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(word, short[start:], strict=False))
            ends.update(range(start + 1, start + 1 + sum(1 for _ in same)))
        if len(short) in ends:
            return True
        positions = ends
    return False


def _list_pending(texts: Mapping[str, str | None]) -> list[_NamedHit]:
    pending_texts = ((path, text) for path, text in sorted(texts.items()) if text is not None)
    return [named_hit for path, text in pending_texts for named_hit in _find_pending(path, text)]


@lru_cache(maxsize=512)
def _find_pending(path: str, text: str) -> tuple[_NamedHit, ...]:
    return tuple(
        _NamedHit(
            symbol.name,
            SearchHit(
                path=path,
                start=symbol.first + 1,
                end=symbol.last + 1,
                symbol=symbol.qualified,
                kind=symbol.kind,
                is_changed=True,
            ),
        )
        for symbol in find_symbols(path, text) or ()
    )
