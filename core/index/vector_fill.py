"""Vectors for the chunks that have none yet: their texts are read again, since the index keeps words only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from core.index.database import find_last_chunk
from core.index.file_rows import hash_text, read_lines
from core.index.search.static_model import STATIC_MODEL, embed_texts

_SLICE: Final = 1_000


class ChunkPlace(NamedTuple):
    """A chunk, and the lines in which its text can be read again."""

    id: int
    path: str
    start: int
    end: int
    text_hash: bytes


class VectorFill:
    """Follows the chunks of an index by their ids, which only grow: those up to `done` were looked at. `is_behind`:
    there may be more of them. Raises `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection, top: int) -> None:
        self._connection = connection
        self._top = top
        self.done = 0
        self.is_behind = True

    def fill_some(self) -> None:
        """Embed the next chunks, within a commit. Texts that were seen before are not embedded again."""
        places = list_without_vector(self._connection, STATIC_MODEL, after=self.done, limit=_SLICE)
        texts = dict(read_texts(self._top, places))
        vectors = embed_texts(list(texts.values()))
        store_vectors(self._connection, STATIC_MODEL, list(zip(texts, vectors, strict=True)))
        self.is_behind = len(places) == _SLICE
        self.done = places[-1].id if self.is_behind else find_last_chunk(self._connection)

    def forget_unused(self) -> None:
        """Remove the vectors of texts that stand nowhere any more, within a commit; those that were paid for stay."""
        self._connection.execute(
            "delete from vectors where model = ? and text_hash not in (select text_hash from chunks)", (STATIC_MODEL,)
        )


def read_texts(top: int, places: Iterable[ChunkPlace]) -> Iterator[tuple[bytes, str]]:
    """Iterate over the texts below the directory descriptor `top` that are still what was cut, with their hashes; a
    file that has changed comes again."""
    for path, group in groupby(places, key=attrgetter("path")):
        lines = read_lines(top, path)
        for chunk in group:
            text = "\n".join(lines[chunk.start - 1 : chunk.end])
            if hash_text(text) == chunk.text_hash:
                yield chunk.text_hash, text


def list_without_vector(connection: sqlite3.Connection, model: str, *, after: int, limit: int) -> list[ChunkPlace]:
    """Return the next chunks behind the id `after` whose text has no vector of a model. Raises `sqlite3.Error`."""
    rows = connection.execute(
        "select chunks.id, path, start, end, text_hash from chunks join files on files.id = chunks.file"
        " where chunks.id > ? and not exists (select 1 from vectors where vectors.model = ? and"
        " vectors.text_hash = chunks.text_hash) order by chunks.id limit ?",
        (after, model, limit),
    )
    return [ChunkPlace(*row) for row in rows]


def store_vectors(connection: sqlite3.Connection, model: str, rows: Sequence[tuple[bytes, bytes]]) -> None:
    """Keep vectors: pairs of the hash of a text and its vector. Raises `sqlite3.Error`."""
    connection.executemany(
        "insert or replace into vectors(model, text_hash, vec) values(?, ?, ?)",
        ((model, text_hash, vector) for text_hash, vector in rows),
    )
