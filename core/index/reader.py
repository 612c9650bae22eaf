"""Read access to an index: locations of names, and the builder's status. For one thread at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from core.index.database import IndexFailed, connect_for_reading, describe_failed_read, find_last_chunk, read_status
from core.index.search.vectors import STATIC_MODEL
from core.index.words import split_words
from core.protocol.events import IndexStatus

if TYPE_CHECKING:
    from core.index.repo_map import RepoMap

MAX_LOCATIONS: Final = 50
"""Locations per name; a name with more needs another query."""

_COLUMNS: Final = "files.path, symbols.start, symbols.end, qualified, symbols.kind, signature"
_INSIDE: Final = " and instr(lower('.' || qualified), lower(?))"
Generation = tuple[int, int, int]


class SymbolLocation(Struct, frozen=True, kw_only=True):
    """A definition: lines `start` to `end` (1-indexed, inclusive) of `path`. `symbol` is its qualified name
    "Class.method", `signature` the line that holds the name."""

    path: str
    start: int
    end: int
    symbol: str
    kind: str
    signature: str


class IndexReader:
    """The index at a path, opened on demand and again after a rebuild.

    Its methods raise `IndexFailed`: there is no index yet, or it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def connect(self) -> sqlite3.Connection:
        """Return the connection, which reads the last commit."""
        try:
            inode = self._path.stat().st_ino
        except OSError as problem:
            self.close()
            raise IndexFailed("this project has no index yet.", code="index_absent") from problem
        if self._connection is None or inode != self._inode:
            self.close()
            self._connection, self._inode = connect_for_reading(self._path), inode
        return self._connection

    def read_generation(self) -> Generation:
        """Return numbers that change as soon as the chunks change; vectors do not count."""
        try:
            connection = self.connect()
            count = connection.execute("select count(*) from chunks").fetchone()[0]
            return self._inode, find_last_chunk(connection), count
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    def read_status(self) -> IndexStatus:
        """Return the builder's status as of its last commit."""
        try:
            return read_status(self.connect())
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    def count_languages(self) -> tuple[tuple[str, int], ...]:
        """Return the languages of files with their counts, most frequent first."""
        count = "select language, count(*) from files where language != '' group by language order by 2 desc, 1"
        try:
            return tuple(self.connect().execute(count))
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    def count_by_models(self) -> dict[str, int]:
        """Return the number of chunks with a vector for every model of the `embed` route in use."""
        count = (
            "select other.model, count(*) from (select distinct model from vectors where model != ?) as other"
            " cross join chunks join vectors on vectors.model = other.model"
            " and vectors.text_hash = chunks.text_hash group by other.model order by other.model"
        )
        try:
            return dict(self.connect().execute(count, (STATIC_MODEL,)).fetchall())
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    def find_symbols(self, names: Iterable[str]) -> dict[str, tuple[SymbolLocation, ...]]:
        """Return the definitions of names as written ("name", "Class.method", "mod::name", "Class#name"); other cases
        count only without an exact match. Names without a definition are omitted."""
        try:
            places_by_name = {name: _find_places(self.connect(), name) for name in dict.fromkeys(names)}
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem
        return {name: places for name, places in places_by_name.items() if places}

    def count_files(self, names: Iterable[str]) -> dict[str, int]:
        """Return in how many files each name stands, the one that defines it among them. A name of a single word is
        left out: the index has only its stem, which other words share."""
        count = "select count(distinct chunks.file) from fts join chunks on chunks.id = fts.rowid where fts match ?"
        words = {name: split_words(name) for name in dict.fromkeys(names)}
        try:
            connection = self.connect()
            return {
                name: connection.execute(count, (f'body:"{parts[0]}"',)).fetchone()[0]
                for name, parts in words.items()
                if len(parts) > 1 and '"' not in name
            }
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    def complete_symbols(self, prefix: str, limit: int) -> tuple[SymbolLocation, ...]:
        """Return definitions whose names start with `prefix` in any case, shortest first, one per name. A dotted
        `prefix` also matches the qualifier ("Class.me")."""
        if not prefix:
            return ()
        around, _, name_prefix = prefix.rpartition(".")
        try:
            rows = (
                self.connect()
                .execute(
                    f"select {_COLUMNS} from symbols join files on files.id = symbols.file"
                    " where lower(name) >= lower(?) and lower(name) < lower(?)"
                    f"{_INSIDE if around else ''} group by qualified"
                    " order by length(name), name, length(qualified), files.path limit ?",
                    (name_prefix, f"{name_prefix}\U0010ffff", *((f".{prefix}",) if around else ()), limit),
                )
                .fetchall()
            )
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem
        return tuple(
            SymbolLocation(path=path, start=start, end=end, symbol=symbol, kind=kind, signature=signature)
            for path, start, end, symbol, kind, signature in rows
        )

    def load_map(self) -> tuple[Generation, RepoMap]:
        """Load the references of the project for its map."""
        from core.index.repo_map import RepoMap

        try:
            return self.read_generation(), RepoMap(self.connect())
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    def close(self) -> None:
        """Close the connection. Idempotent; the reader can be used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _find_places(connection: sqlite3.Connection, name: str) -> tuple[SymbolLocation, ...]:
    qualified_name = name.replace("::", ".").replace("#", ".").strip(".")
    last = qualified_name.rpartition(".")[2]
    if not last:
        return ()
    rows = connection.execute(
        f"select {_COLUMNS}, name from symbols join files on files.id = symbols.file where lower(name) = lower(?)"
        " order by files.path, symbols.start limit 2000",
        (last,),
    ).fetchall()
    for fold in (str, str.lower):
        fitting = [row for row in rows if f".{fold(row[3])}".endswith(f".{fold(qualified_name)}")]
        if fitting:
            return tuple(
                SymbolLocation(path=path, start=start, end=end, symbol=symbol, kind=kind, signature=signature)
                for path, start, end, symbol, kind, signature, _ in fitting[:MAX_LOCATIONS]
            )
    return ()
