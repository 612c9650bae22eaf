"""A map of the project: the signatures of its most used definitions, file by file, within a budget of tokens.

A file refers to another one if it holds a name that only that file, or a few, define; names of a single word are
ignored because prose has them, too. PageRank over these references (Page and Brin 1998) weighs files; a definition gets
a share of its file's rank by the number of its uses elsewhere.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from core.index.path_kinds import is_secondary_path
from core.index.words import split_identifier

_DAMPING: Final = 0.85
_ROUNDS: Final = 20
_FOCUS: Final = 20.0  # weight of a file in focus
_MAX_DEFINITIONS: Final = 3  # files that may define a name; with more it is ambiguous
_MAX_NAMES: Final = 4_000
_MIN_NAME: Final = 4
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
    """References between files, by index in `paths` ("": the file defines nothing). A share is the part of the first
    file's rank that goes to the second, to which it refers."""

    paths: Sequence[str]
    places: Mapping[int, int]
    shares: Sequence[tuple[int, int, float]]


class RepoMap:
    """The references of a project, loaded once (some 0.5 s for 3,000 files); drawing a map takes a few hundredths of
    that."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Load the references. Raises `sqlite3.Error`."""
        definitions = _load_definitions(connection)
        references = {name: users for name, users in _count_references(connection, definitions).items() if users}
        self._links = _link_files(definitions, references)
        self._uses = [
            (math.sqrt(sum(users.values())) / len(definitions[name]), definition)
            for name, users in references.items()
            for definition in definitions[name]
        ]

    def draw(self, budget_tokens: int, focus: Sequence[str], may_show: Callable[[str], bool]) -> str:
        """Return the map in about `budget_tokens` at most, the files in `focus` and their dependencies first, without
        those that `may_show` refuses; "" without definitions. Deterministic for the same project."""
        ranks = _rank_files(self._links, frozenset(focus))
        weighted_definitions = [(ranks[definition.file] * use, definition) for use, definition in self._uses]
        weighted_definitions.sort(key=lambda pair: (-pair[0], pair[1].path, pair[1].line))
        is_shown = cache(may_show)
        visible_definitions = (pair for pair in weighted_definitions if is_shown(pair[1].path))
        return _render(visible_definitions, ranks, int(budget_tokens * _CHARACTERS_PER_TOKEN))


def _load_definitions(connection: sqlite3.Connection) -> dict[str, list[_Definition]]:
    """Load candidate definitions by name: of several words, defined by few files and no tests."""
    rows = connection.execute(
        "select symbols.file, files.path, symbols.start, name, signature, name != qualified from symbols"
        f" join files on files.id = symbols.file where symbols.kind in {_OUTER_KINDS} and length(name) >= ?"
        " and substr(name, 1, 1) != '_' order by files.path, symbols.start",
        (_MIN_NAME,),
    )
    definitions: dict[str, list[_Definition]] = defaultdict(list)
    for row in rows:
        if len(split_identifier(row[3])) > _WORDS_OF_NAME and not is_secondary_path(row[1]):
            definitions[row[3]].append(_Definition(*row))
    return {
        name: places
        for name, places in definitions.items()
        if len({definition.file for definition in places}) <= _MAX_DEFINITIONS
    }


def _count_references(
    connection: sqlite3.Connection, definitions: Mapping[str, Sequence[_Definition]]
) -> dict[str, dict[int, int]]:
    """Count the chunks of other files that hold a name; only for the most frequent names."""
    connection.execute("create virtual table if not exists temp.fts_terms using fts5vocab(main, fts, row)")
    names_by_term = {name.lower(): name for name in definitions}
    common = [
        (count, names_by_term[term])
        for term, count in connection.execute("select term, doc from temp.fts_terms")
        if term in names_by_term and count > 1
    ]
    references: dict[str, dict[int, int]] = {}
    for _, name in sorted(common, key=lambda pair: (-pair[0], pair[1]))[:_MAX_NAMES]:
        rows = connection.execute(
            "select chunks.file, count(*) from fts join chunks on chunks.id = fts.rowid where fts match ? group by 1",
            (f'body:"{name.lower()}"',),
        )
        defining_files = {definition.file for definition in definitions[name]}
        references[name] = {file: count for file, count in rows if file not in defining_files}
    return references


def _link_files(
    definitions: Mapping[str, Sequence[_Definition]], references: Mapping[str, Mapping[int, int]]
) -> _Links:
    files = {definition.file: definition.path for name in references for definition in definitions[name]}
    links: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for name, users in references.items():
        targets = sorted({definition.file for definition in definitions[name]})
        for user, count in users.items():
            files.setdefault(user, "")
            for target in targets:
                links[user][target] += math.sqrt(count) / len(targets)
    places = {file: index for index, file in enumerate(files)}
    shares = [
        (places[user], places[target], weight / sum(targets_of.values()))
        for user, targets_of in links.items()
        for target, weight in targets_of.items()
    ]
    return _Links(tuple(files.values()), places, shares)


def _rank_files(links: _Links, focus: frozenset[str]) -> dict[int, float]:
    """Return the ranks of files; their sum is 1."""
    start = [_FOCUS if path in focus else 1.0 for path in links.paths]
    total = sum(start)
    base = [weight / total for weight in start]
    ranks = base
    for _ in range(_ROUNDS):
        flow = [0.0] * len(base)
        for user, target, share in links.shares:
            flow[target] += ranks[user] * share
        leak = 1.0 - sum(flow)
        ranks = [
            (1 - _DAMPING) * base_rank + _DAMPING * (inflow + leak * base_rank)
            for base_rank, inflow in zip(base, flow, strict=True)
        ]
    return {file: ranks[index] for file, index in links.places.items()}


def _render(weighted_definitions: Iterable[tuple[float, _Definition]], ranks: Mapping[int, float], budget: int) -> str:
    """Return as many signatures as fit the budget (characters), grouped by file."""
    definitions_by_path: dict[str, list[_Definition]] = {}
    order: dict[str, float] = {}
    room = budget
    for _, definition in weighted_definitions:
        lines = definitions_by_path.get(definition.path, [])
        cost = len(definition.signature) + 3 + 2 * definition.is_inner + (0 if lines else len(definition.path) + 2)
        if len(lines) >= _LINES_PER_FILE or any(line.line == definition.line for line in lines):
            continue
        if cost > room:
            break
        room -= cost
        definitions_by_path.setdefault(definition.path, []).append(definition)
        order[definition.path] = ranks[definition.file]
    parts = []
    for path in sorted(definitions_by_path, key=lambda path: (-order[path], path)):
        parts.append(f"{path}:")
        for definition in sorted(definitions_by_path[path], key=lambda definition: definition.line):
            parts.append(f"{'    ' if definition.is_inner else '  '}{definition.signature.rstrip(':{ ')}")
    return "\n".join(parts)
