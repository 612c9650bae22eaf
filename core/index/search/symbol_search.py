"""Definitions by names that are only roughly known: as they are written, by their beginning, their parts, or nearly.

The ways in which a name may be meant come one behind the other, whatever lies where: what is spelled so, what begins
with it, what holds it, what holds its words, what it is short for, and what is spelled nearly so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.index.search.index_search import SearchRequest
from core.index.search.place_kinds import weigh_path
from core.index.words import split_identifier
from core.protocol.queries.search import SearchHit
from core.syntax.symbols import find_symbols
from core.text.similarity import find_closest

MOST_NAMES: Final = 40
_FEWEST: Final = 8
"""Names that are enough: nobody misspells a name that so many others begin with."""

_MOST_WORDS: Final = 5  # more are no name
_LIKE_NAMES: Final = 0.7
_WAYS: Final = 7
_EXACT, _OTHER_CASE, _BEGINNING, _PART, _WORDS, _SHORT_FORM, _SPELLING = range(_WAYS, 0, -1)


class _NamedHit(NamedTuple):
    """A definition by its bare name."""

    name: str
    hit: SearchHit


class SymbolSearch:
    """Searches the names of an index; for one thread at a time. `search` raises `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._names: list[str] = []
        self._version = -1

    def search(self, request: SearchRequest) -> list[SearchHit]:
        """Return definitions whose names are like the text ("name", "Class.method"), the likest first."""
        pending = _list_pending(request.pending)
        owner, wanted = _split_name(request.text)
        if not wanted or " " in wanted:
            return []
        below = tuple(each.strip("/") + "/" for each in request.directories if each.strip("/"))
        found: list[SearchHit] = []
        for name, (way, likeness) in _choose_names(wanted, {*self._load_names(), *(each.name for each in pending)}):
            for place in [*self._find_places(name, request), *(each.hit for each in pending if each.name == name)]:
                is_owned = not owner or owner.lower() in place.symbol.lower()
                if is_owned and (not below or place.path.startswith(below)):
                    within = likeness * (0.5 + 0.5 * weigh_path(place.path, frozenset()))
                    found.append(replace(place, score=round((way - 1 + within) / _WAYS, 6)))
        found.sort(key=lambda place: (-place.score, len(place.symbol), place.path, place.start))
        return found[: request.limit]

    def search_words(self, request: SearchRequest) -> list[SearchHit]:
        """Return what `search` does, also for the words of a name apart: its own, or with those that it stands in."""
        words = request.text.split()
        if not 1 < len(words) <= _MOST_WORDS:
            return self.search(request)
        spelled = [replace(request, text=joint.join(words)) for joint in (".", "_")]
        found = {(hit.path, hit.start): hit for each in spelled for hit in self.search(each)}
        return list(found.values())[: request.limit]

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
    owner, wanted = _split_name(text.lower())
    whole, _, name = symbol.lower().rpartition(".")
    return bool(wanted) and name == wanted and (not owner or f".{whole}".endswith(f".{owner}"))


def _split_name(text: str) -> tuple[str, str]:
    """Return what a name is part of, "" = that was not said, and its last part."""
    owner, _, name = text.strip().removesuffix("()").replace("::", ".").replace("#", ".").rpartition(".")
    return owner, name


def _choose_names(wanted: str, names: Iterable[str]) -> list[tuple[str, tuple[int, float]]]:
    """Return the names that are meant most likely, with the way in which they are and their likeness from 0 to 1."""
    known = sorted(names)
    folded, parts = wanted.lower(), frozenset(split_identifier(wanted)[1:])
    chosen = {
        name: (way, min(len(folded) / len(name), 1.0)) for name in known if (way := _find_way(wanted, parts, name))
    }
    if len(chosen) < _FEWEST:
        others = [name for name in known if name not in chosen and name.lower() not in folded]
        nearest = find_closest(folded, [name.lower() for name in others], limit=_FEWEST, cutoff=_LIKE_NAMES)
        chosen |= {others[index]: (_SPELLING, likeness) for index, likeness in nearest}
    return sorted(chosen.items(), key=lambda each: (-each[1][0], -each[1][1], each[0]))[:MOST_NAMES]


def _find_way(wanted: str, parts: frozenset[str], name: str) -> int:
    """Return the way in which a name is meant by `wanted`, whose parts are `parts`; 0: in none but a like spelling."""
    asked, own = wanted.lower(), name.lower()
    if own == asked:
        return _EXACT if name == wanted else _OTHER_CASE
    if asked in own:
        return _BEGINNING if own.startswith(asked) else _PART
    if parts and all(part in own for part in parts) and parts <= set(split_identifier(name)):
        return _WORDS
    letters = iter(own)
    if len(asked) > 1 and all(letter in letters for letter in asked):
        words = split_identifier(name)
        return _SHORT_FORM if _is_short_form(asked.replace("_", ""), words[1:] or words) else 0
    return 0


def _is_short_form(short: str, words: Sequence[str]) -> bool:
    """True if `short` is made of the beginnings of words that follow each other ("gcsql" of get, combinator, sql)."""
    reached = {0}  # how much of it the words up to here can make
    for word in words:
        ends = {0}
        for start in reached:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(word, short[start:], strict=False))
            ends.update(range(start + 1, start + 1 + sum(1 for _ in same)))
        if len(short) in ends:
            return True
        reached = ends
    return False


def _list_pending(texts: Mapping[str, str | None]) -> list[_NamedHit]:
    known = ((path, text) for path, text in sorted(texts.items()) if text is not None)
    return [each for path, text in known for each in _find_pending(path, text)]


@lru_cache(maxsize=512)
def _find_pending(path: str, text: str) -> tuple[_NamedHit, ...]:
    return tuple(
        _NamedHit(
            each.name,
            SearchHit(
                path=path,
                start=each.first + 1,
                end=each.last + 1,
                symbol=each.qualified,
                kind=each.kind,
                is_changed=True,
            ),
        )
        for each in find_symbols(path, text) or ()
    )
