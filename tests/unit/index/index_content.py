"""The content of an index without its numbers, to compare two of them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from core.index.builder import IndexBuilder
from core.workspace import Workspace


def make_builder(root: Path, database: Path, chunkers: int = 0) -> IndexBuilder:
    return IndexBuilder(Workspace(root), database, lambda status: None, chunkers=chunkers)


def finish(builder: IndexBuilder) -> None:
    while builder.step():
        pass


def build(root: Path, database: Path, chunkers: int = 0) -> dict[str, object]:
    builder = make_builder(root, database, chunkers)
    try:
        builder.sweep()
        finish(builder)
        return read_content(database)
    finally:
        builder.close()


def read_content(database: Path) -> dict[str, object]:
    """Return files, chunks with their words, symbols, and which texts have vectors."""
    connection = sqlite3.connect(database)
    try:
        return {
            "files": sorted(connection.execute("select path, size, hash, language from files")),
            "chunks": sorted(
                connection.execute(
                    "select path, start, end, symbol, kind, defines, text_hash, part from chunks join files"
                    " on files.id = chunks.file"
                )
            ),
            "symbols": sorted(
                connection.execute(
                    "select path, name, qualified, start, end, kind, signature from symbols join files"
                    " on files.id = symbols.file"
                )
            ),
            "words": _read_words(connection),
            "vectors": sorted(
                connection.execute("select text_hash from chunks where text_hash in (select text_hash from vectors)")
            ),
        }
    finally:
        connection.close()


def _read_words(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Return each word with the place of its chunk; words of chunks that are gone are left out, as in a search."""
    connection.execute("create virtual table temp.words using fts5vocab(main, fts, instance)")
    return sorted(
        connection.execute(
            "select term, col, offset, path, start from temp.words join chunks on chunks.id = words.doc"
            " join files on files.id = chunks.file"
        )
    )


def break_table(database: Path, table: str) -> None:
    """Overwrite the first page of a table or an index, as a failing disk does."""
    connection = sqlite3.connect(database)
    connection.execute("pragma wal_checkpoint(truncate)")
    (page,) = connection.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()
    (size,) = connection.execute("pragma page_size").fetchone()
    connection.close()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
