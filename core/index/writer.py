"""Writes to an index: rows of files, and vectors of chunks that have none. Readers see each commit as a whole.

The index stores words and no texts, so the text of a chunk is read from its file again when its vector is computed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from core.index.database import find_last_chunk, read_meta, write_meta
from core.index.file_rows import MISSING, FileRows, hash_text, read_lines
from core.index.search.vectors import STATIC_MODEL, embed_texts

_DEAD_SHARE = 0.2
_MIN_DEAD = 2_000  # dead chunks that do not justify a rewrite
_FIRST_CHUNK = "written"
_SLICE: Final = 1_000


class KnownFile(NamedTuple):
    """The change time and size of a file when it was written."""

    changed: int
    size: int


class IndexWriter:
    """A writer through the builder's only connection. All methods raise `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Commit the writes of the block, or roll them back if it fails."""
        self._connection.execute("begin immediate")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise
        self._connection.execute("commit")

    def write(self, rows: FileRows) -> None:
        """Replace the rows of a file; only its timestamps if the content is the same."""
        if rows.changed == MISSING:
            self.remove([rows.path])
            return
        record = self._connection.execute("select id, hash from files where path = ?", (rows.path,)).fetchone()
        if record is not None:
            self._connection.execute(
                "update files set changed_ns = ?, size = ?, hash = ? where id = ?",
                (rows.changed, rows.size, rows.hash, record[0]),
            )
            if record[1] == rows.hash:
                return
            self._remove_chunks(record[0])
            self._write_chunks(record[0], rows)
            return
        cursor = self._connection.execute(
            "insert into files(path, changed_ns, size, hash, language) values(?, ?, ?, ?, ?)",
            (rows.path, rows.changed, rows.size, rows.hash, rows.language),
        )
        self._write_chunks(int(cursor.lastrowid or 0), rows)

    def _write_chunks(self, file: int, rows: FileRows) -> None:
        numbered_rows = list(enumerate(rows.chunks, find_last_chunk(self._connection) + 1))
        self._connection.executemany(
            "insert into chunks(id, file, start, end, symbol, kind, defines, text_hash, part)"
            " values(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (number, file, row.start, row.end, row.symbol, row.kind, row.defines, row.text_hash, row.part)
                for number, row in numbered_rows
            ),
        )
        self._connection.executemany(
            "insert into fts(rowid, body, path, symbol) values(?, ?, ?, ?)",
            ((number, row.body_words, rows.path_words, row.symbol_words) for number, row in numbered_rows),
        )
        self._connection.executemany(
            "insert into symbols(name, qualified, file, start, end, kind, signature) values(?,?,?,?,?,?,?)",
            (
                (symbol.name, symbol.qualified, file, symbol.start, symbol.end, symbol.kind, symbol.signature)
                for symbol in rows.symbols
            ),
        )

    def _remove_chunks(self, file: int) -> None:
        """Remove the chunks of a file; their words stay, and are dropped by joins."""
        self._connection.execute("delete from chunks where file = ?", (file,))
        self._connection.execute("delete from symbols where file = ?", (file,))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        for path in paths:
            row = self._connection.execute("delete from files where path = ? returning id", (path,)).fetchone()
            if row is not None:
                self._remove_chunks(row[0])

    def load_known(self) -> dict[str, KnownFile]:
        """Load the change times and sizes of all files."""
        rows = self._connection.execute("select path, changed_ns, size from files")
        return {path: KnownFile(changed_ns, size) for path, changed_ns, size in rows}

    def list_below(self, path: str) -> list[str]:
        """Return the indexed paths among a path and everything below it."""
        rows = self._connection.execute(
            "select path from files where path = ? or path > ? and path < ?", (path, f"{path}/", f"{path}0")
        )
        return [file_path for (file_path,) in rows]

    def count_files(self) -> int:
        count: int = self._connection.execute("select count(*) from files").fetchone()[0]
        return count

    def count_chunks(self, last: int | None = None) -> int:
        """Count the chunks, up to the id `last` if given."""
        limit = "" if last is None else f" where id <= {last:d}"
        count: int = self._connection.execute(f"select count(*) from chunks{limit}").fetchone()[0]
        return count

    def has_many_dead_chunks(self) -> bool:
        """True if the words of removed chunks slow down searches."""
        first = read_meta(self._connection, _FIRST_CHUNK)
        written_count = find_last_chunk(self._connection) - (first if isinstance(first, int) else 0)
        dead = written_count - self.count_chunks()
        return dead > _MIN_DEAD and dead > written_count * _DEAD_SHARE

    def delete_all(self) -> None:
        """Remove all files with their words."""
        for table in ("files", "chunks", "symbols"):
            self._connection.execute(f"delete from {table}")
        self._connection.execute("insert into fts(fts) values('delete-all')")
        write_meta(self._connection, _FIRST_CHUNK, find_last_chunk(self._connection))

    def optimise(self) -> None:
        """Merge the words into one tree, which is the fastest to search, and truncate the log."""
        self._connection.execute("insert into fts(fts) values('optimize')")
        self._connection.execute("pragma wal_checkpoint(truncate)")


class ChunkLocation(NamedTuple):
    """A chunk, and the lines that hold its text."""

    id: int
    path: str
    start: int
    end: int
    text_hash: bytes


class VectorFiller:
    """A cursor over the chunks of an index by id, which only grows: those up to `done` have vectors. `is_behind`: there
    may be more. Raises `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection, top: int) -> None:
        self._connection = connection
        self._top = top
        self.done = 0
        self.is_behind = True

    def fill_next(self) -> None:
        """Embed the next chunks, within a commit. Texts with a vector are not embedded again."""
        places = list_without_vector(self._connection, STATIC_MODEL, after=self.done, limit=_SLICE)
        texts = dict(read_texts(self._top, places))
        vectors = embed_texts(list(texts.values()))
        store_vectors(self._connection, STATIC_MODEL, list(zip(texts, vectors, strict=True)))
        self.is_behind = len(places) == _SLICE
        self.done = places[-1].id if self.is_behind else find_last_chunk(self._connection)

    def delete_unused(self) -> None:
        """Remove vectors of texts that no chunk has, within a commit; those of paid models stay."""
        self._connection.execute(
            "delete from vectors where model = ? and text_hash not in (select text_hash from chunks)", (STATIC_MODEL,)
        )


def read_texts(top: int, places: Iterable[ChunkLocation]) -> Iterator[tuple[bytes, str]]:
    """Iterate over unchanged texts below the directory descriptor `top`, with their hashes; a changed file is indexed
    again anyway."""
    for path, group in groupby(places, key=attrgetter("path")):
        lines = read_lines(top, path)
        for chunk in group:
            text = "\n".join(lines[chunk.start - 1 : chunk.end])
            if hash_text(text) == chunk.text_hash:
                yield chunk.text_hash, text


def list_without_vector(connection: sqlite3.Connection, model: str, *, after: int, limit: int) -> list[ChunkLocation]:
    """Return the next chunks after the id `after` whose text has no vector of a model. Raises `sqlite3.Error`."""
    rows = connection.execute(
        "select chunks.id, path, start, end, text_hash from chunks join files on files.id = chunks.file"
        " where chunks.id > ? and not exists (select 1 from vectors where vectors.model = ? and"
        " vectors.text_hash = chunks.text_hash) order by chunks.id limit ?",
        (after, model, limit),
    )
    return [ChunkLocation(*row) for row in rows]


def store_vectors(connection: sqlite3.Connection, model: str, rows: Sequence[tuple[bytes, bytes]]) -> None:
    """Store pairs of a text's hash and its vector. Raises `sqlite3.Error`."""
    connection.executemany(
        "insert or replace into vectors(model, text_hash, vec) values(?, ?, ?)",
        ((model, text_hash, vector) for text_hash, vector in rows),
    )
