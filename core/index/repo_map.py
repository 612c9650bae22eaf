"""A map of the project: the signatures of what the rest of it uses most, file by file, in few words.

A file refers to another if it holds a name that only that one defines, or a few do; names of a single word count for
nothing, since prose has them, too. PageRank over these references (Page and Brin 1998) tells how much hangs on a file;
its definitions share that by how often each is named elsewhere.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from core.index.search.place_kinds import is_beside
from core.index.words import split_identifier

_DAMPING: Final = 0.85
_ROUNDS: Final = 20
_FOCUS: Final = 20.0  # times a file in focus is worth
_MOST_DEFINITIONS: Final = 3  # files that may define a name: more, and it tells nothing
_MOST_NAMES: Final = 4_000
_SHORTEST_NAME: Final = 4
_WORDS_OF_NAME: Final = 2  # the whole, and one part
_CHARACTERS_PER_TOKEN: Final = 3.5
_LINES_PER_FILE: Final = 6
_OUTER_KINDS: Final = "('class', 'function', 'interface', 'enum', 'type', 'method')"


class _Definition(NamedTuple):
    file: int
    path: str
    line: int
    name: str
    signature: str
    is_inner: bool


class _Links(NamedTuple):
    """References between files, which are numbered by their place in `paths` ("": it defines nothing). A share is that
    of the first file's rank which the second, to which it refers, gets."""

    paths: Sequence[str]
    places: Mapping[int, int]
    shares: Sequence[tuple[int, int, float]]


class RepoMap:
    """The references of a project, loaded once (some 0.5 s for 3,000 files), from which maps are drawn in a few
    hundredths of that."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Raises `sqlite3.Error`."""
        definitions = _load_definitions(connection)
        references = {name: users for name, users in _count_references(connection, definitions).items() if users}
        self._links = _link_files(definitions, references)
        self._uses = [
            (math.sqrt(sum(users.values())) / len(definitions[name]), each)
            for name, users in references.items()
            for each in definitions[name]
        ]

    def draw(self, budget_tokens: int, focus: Sequence[str], may_show: Callable[[str], bool]) -> str:
        """Return the map in about `budget_tokens` at most, the files in `focus` and what they use first, without those
        that `may_show` refuses; "" without any definitions. The same project gives the same text."""
        ranks = _rank_files(self._links, frozenset(focus))
        weighed = [(ranks[each.file] * use, each) for use, each in self._uses]
        weighed.sort(key=lambda each: (-each[0], each[1].path, each[1].line))
        is_shown = cache(may_show)
        shown = (each for each in weighed if is_shown(each[1].path))
        return _render(shown, ranks, int(budget_tokens * _CHARACTERS_PER_TOKEN))


def _load_definitions(connection: sqlite3.Connection) -> dict[str, list[_Definition]]:
    """Load what may be worth a line, by name: names of several words that few files define, and no tests do."""
    rows = connection.execute(
        "select symbols.file, files.path, symbols.start, name, signature, name != qualified from symbols"
        f" join files on files.id = symbols.file where symbols.kind in {_OUTER_KINDS} and length(name) >= ?"
        " and substr(name, 1, 1) != '_' order by files.path, symbols.start",
        (_SHORTEST_NAME,),
    )
    found: dict[str, list[_Definition]] = defaultdict(list)
    for row in rows:
        if len(split_identifier(row[3])) > _WORDS_OF_NAME and not is_beside(row[1]):
            found[row[3]].append(_Definition(*row))
    return {name: places for name, places in found.items() if len({each.file for each in places}) <= _MOST_DEFINITIONS}


def _count_references(
    connection: sqlite3.Connection, definitions: Mapping[str, Sequence[_Definition]]
) -> dict[str, dict[int, int]]:
    """Return how often each name stands in which other files, counted in chunks; only of those that stand in most."""
    connection.execute("create virtual table if not exists temp.fts_terms using fts5vocab(main, fts, row)")
    wanted = {name.lower(): name for name in definitions}
    common = [
        (count, wanted[term])
        for term, count in connection.execute("select term, doc from temp.fts_terms")
        if term in wanted and count > 1
    ]
    found: dict[str, dict[int, int]] = {}
    for _, name in sorted(common, key=lambda each: (-each[0], each[1]))[:_MOST_NAMES]:
        rows = connection.execute(
            "select chunks.file, count(*) from fts join chunks on chunks.id = fts.rowid where fts match ? group by 1",
            (f'body:"{name.lower()}"',),
        )
        own = {each.file for each in definitions[name]}
        found[name] = {file: count for file, count in rows if file not in own}
    return found


def _link_files(
    definitions: Mapping[str, Sequence[_Definition]], references: Mapping[str, Mapping[int, int]]
) -> _Links:
    files = {each.file: each.path for name in references for each in definitions[name]}
    links: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for name, users in references.items():
        targets = sorted({each.file for each in definitions[name]})
        for user, count in users.items():
            files.setdefault(user, "")
            for target in targets:
                links[user][target] += math.sqrt(count) / len(targets)
    places = {file: place for place, file in enumerate(files)}
    shares = [
        (places[user], places[target], weight / sum(targets_of.values()))
        for user, targets_of in links.items()
        for target, weight in targets_of.items()
    ]
    return _Links(tuple(files.values()), places, shares)


def _rank_files(links: _Links, focus: frozenset[str]) -> dict[int, float]:
    """Return the rank of each file; all ranks together are 1."""
    start = [_FOCUS if path in focus else 1.0 for path in links.paths]
    total = sum(start)
    base = [each / total for each in start]
    ranks = base
    for _ in range(_ROUNDS):
        flow = [0.0] * len(base)
        for user, target, share in links.shares:
            flow[target] += ranks[user] * share
        lost = 1.0 - sum(flow)
        ranks = [(1 - _DAMPING) * own + _DAMPING * (found + lost * own) for own, found in zip(base, flow, strict=True)]
    return {file: ranks[place] for file, place in links.places.items()}


def _render(weighed: Iterable[tuple[float, _Definition]], ranks: Mapping[int, float], budget: int) -> str:
    """Return as many signatures as the budget (characters) takes, below the names of their files."""
    chosen: dict[str, list[_Definition]] = {}
    order: dict[str, float] = {}
    left = budget
    for _, each in weighed:
        lines = chosen.get(each.path, [])
        cost = len(each.signature) + 3 + 2 * each.is_inner + (0 if lines else len(each.path) + 2)
        if len(lines) >= _LINES_PER_FILE or any(line.line == each.line for line in lines):
            continue
        if cost > left:
            break
        left -= cost
        chosen.setdefault(each.path, []).append(each)
        order[each.path] = ranks[each.file]
    parts = []
    for path in sorted(chosen, key=lambda path: (-order[path], path)):
        parts.append(f"{path}:")
        for each in sorted(chosen[path], key=lambda each: each.line):
            parts.append(f"{'    ' if each.is_inner else '  '}{each.signature.rstrip(':{ ')}")
    return "\n".join(parts)
