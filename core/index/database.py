"""The index of a project: one SQLite file with one builder as its writer and any number of readers.

Ids of chunks are never reused; words of removed chunks stay in `fts` and are dropped by the join with `chunks`; vectors
are stored by the hash of their text, and outlive their file. An unreadable file, or one of another version, is rebuilt:
it holds nothing that is not in the project.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from core.errors import AgentTuiError
from core.index.words import WORDS_VERSION
from core.protocol.events import IndexStatus
from core.records import decode_json

FILE_NAME: Final = "index.sqlite"
SCHEMA: Final = 2
"""Incremented with a change of the tables, or of how files are split into chunks."""

VERSION: Final = f"{SCHEMA}.{WORDS_VERSION}"
DAMAGED: Final = "index_damaged"
"""The code of a failure that requires a rebuild of the index."""

_BUSY_SECONDS: Final = 10.0
_DAMAGE_SUFFIX: Final = ".damaged"
_TABLES: Final = """
create table meta(key text primary key, value) without rowid;
create table files(
    id integer primary key, path text not null unique, changed_ns integer not null, size integer not null,
    hash blob not null, language text not null);
create table chunks(
    id integer primary key autoincrement, file integer not null, start integer not null, end integer not null,
    symbol text not null, kind text not null, defines text not null, text_hash blob not null, part integer not null);
create index chunks_of_file on chunks(file);
create index chunks_of_text on chunks(text_hash);
create table symbols(
    name text not null, qualified text not null, file integer not null, start integer not null, end integer not null,
    kind text not null, signature text not null);
create index symbols_by_name on symbols(lower(name));
create index symbols_of_file on symbols(file);
create table vectors(
    model text not null, text_hash blob not null, vec blob not null, primary key(model, text_hash)) without rowid;
create virtual table fts using fts5(
    body, path, symbol, content='', tokenize="unicode61 remove_diacritics 0 tokenchars '_'");
"""


_REBUILT: Final = "agent-tui index build rebuilds it."


class IndexFailed(AgentTuiError):
    """The index can't be read or written."""

    code = "index_failed"


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open an existing index. Raises `IndexFailed`: there is none (yet), or it has another version.

    One thread at a time may use the connection; it reads the last commit.
    """
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as problem:
        raise IndexFailed(f"the index {path} can't be opened: {problem}.", code="index_absent") from problem
    try:
        if read_meta(connection, "version") == VERSION:
            return connection
        failure = IndexFailed(f"the index {path} belongs to another version.", hint=_REBUILT)
    except sqlite3.Error as problem:
        failure = describe_failed_read(problem, path)
    connection.close()
    raise failure


def describe_failed_read(problem: sqlite3.Error, path: Path | None = None) -> IndexFailed:
    """Return the error of a failed query; its code is `DAMAGED` if the file is damaged."""
    name = f"the index {path}" if path is not None else "the index"
    code = DAMAGED if is_damaged(problem) else IndexFailed.code
    return IndexFailed(f"{name} can't be read: {problem}.", hint=_REBUILT, code=code)


def connect_for_writing(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open or create the index of a project; only its builder may. Return it with the fault of the existing file, "" =
    none. Raises `sqlite3.Error`, OSError."""
    _make_private(path.parent)
    move_note = _move_directory_away(path)
    is_new = not path.exists()
    was_cleared = not is_new and not path.stat().st_size
    try:
        check_damage_report(path)
        connection = _open(path)
        stored_version = read_meta(connection, "version") if not is_new else None
        if stored_version == VERSION and _is_sound(connection):
            return connection, ""
        is_new = is_new or (not was_cleared and _is_empty(connection))
        problem = (
            move_note if is_new else f"the index was of another version ({stored_version!s}), and is being rebuilt"
        )
        connection.close()
    except sqlite3.DatabaseError as error:
        if _is_outside_trouble(error):
            raise
        problem = f"the index was damaged ({error}), and is being rebuilt"
    remove_index(path)
    connection = _open(path)
    connection.executescript(f"begin;{_TABLES}")
    write_meta(connection, "version", VERSION)
    connection.execute("commit")
    return connection, problem


def _is_empty(connection: sqlite3.Connection) -> bool:
    """True if the builder was killed before it created the tables."""
    return not connection.execute("select 1 from sqlite_master").fetchone()


def _move_directory_away(path: Path) -> str:
    """Move a directory at the path of the index aside; this program never creates one. Return a remark, "" = nothing
    was there. Raises OSError."""
    if path.is_symlink() or not path.is_dir():
        return ""
    aside = path.replace(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
    return f"a directory was in the place of the index, and is now {aside.name}"


def report_damage(path: Path) -> None:
    """Leave a marker that an index is damaged, because its builder does not detect all damage. Raises OSError."""
    path.with_name(path.name + _DAMAGE_SUFFIX).touch(mode=0o600)


def check_damage_report(path: Path) -> None:
    """Raise `sqlite3.DatabaseError` if a reader has reported the index as damaged."""
    if path.with_name(path.name + _DAMAGE_SUFFIX).exists():
        raise sqlite3.DatabaseError("a search found it malformed")


def _open(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.executescript("pragma journal_mode = wal; pragma synchronous = normal; pragma temp_store = memory")
    return connection


def _is_sound(connection: sqlite3.Connection) -> bool:
    """True if cheap checks find no damage; other damage shows when it is read."""
    tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    connection.execute("select count(*) from files").fetchone()
    connection.execute("select max(id) from chunks").fetchone()
    connection.execute("select rowid from fts where fts match 'self' limit 1").fetchone()
    return tables >= {"meta", "files", "chunks", "symbols", "vectors", "fts"}


def _is_outside_trouble(error: sqlite3.DatabaseError) -> bool:
    """True if the disk or another process is at fault, which would affect a new file, too."""
    return isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error)


def is_damaged(error: sqlite3.Error) -> bool:
    """True if an error shows that the file is damaged and has to be rebuilt."""
    return isinstance(error, sqlite3.DatabaseError) and any(
        phrase in str(error) for phrase in ("malformed", "not a database", "no such table", "corrupt")
    )


def remove_index(path: Path) -> None:
    """Remove an index with all its files; open readers keep their data. Raises OSError."""
    for file in (
        path,
        *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal", _DAMAGE_SUFFIX)),
    ):
        with suppress(FileNotFoundError):
            file.unlink()


def read_meta(connection: sqlite3.Connection, key: str) -> str | int | bytes | None:
    """Return a value of the table `meta`; None: there is none, or no such table. Raises `sqlite3.Error`."""
    if not connection.execute("select 1 from sqlite_master where name = 'meta'").fetchone():
        return None
    row = connection.execute("select value from meta where key = ?", (key,)).fetchone()
    return row[0] if row else None


def write_meta(connection: sqlite3.Connection, key: str, value: str | int | bytes) -> None:
    """Write a value of the table `meta`. Raises `sqlite3.Error`."""
    connection.execute("insert or replace into meta(key, value) values(?, ?)", (key, value))


def read_status(connection: sqlite3.Connection) -> IndexStatus:
    """Return the builder's status as of its last commit. Raises `sqlite3.Error`."""
    status = read_meta(connection, "status")
    if not isinstance(status, bytes):
        return IndexStatus(state="building")
    return decode_json(status, IndexStatus)


def write_status(connection: sqlite3.Connection, status: IndexStatus) -> None:
    """Store the builder's status for readers. Raises `sqlite3.Error`."""
    write_meta(connection, "status", msgspec.json.encode(status))


def find_last_chunk(connection: sqlite3.Connection) -> int:
    """Return the highest id that a chunk has ever had, 0 without any. Raises `sqlite3.Error`."""
    row = connection.execute("select seq from sqlite_sequence where name = 'chunks'").fetchone()
    return int(row[0]) if row else 0


def lock_for_building(path: Path) -> int | None:
    """Return a descriptor that makes its holder the builder of the index at `path` until it is closed; None: another
    process holds it. A child may inherit it. Raises OSError."""
    _make_private(path.parent)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _make_private(directory: Path) -> None:
    """Create a directory and missing parents, for the user alone. Raises OSError."""
    for path in (*reversed(directory.parents), directory):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)
