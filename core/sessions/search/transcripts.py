"""The words of all transcripts of a workspace in one SQLite file, which is brought up to date when it is asked.

Logs only grow, so what was read of one is never read again. The file can be thrown away. What is in it goes with the
session that it comes from, and a private session never comes into it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from msgspec import Struct

from core.errors import StateError
from core.protocol.events import SessionStarted
from core.protocol.queries.transcripts import TranscriptHit
from core.sessions.record_format import decode_record
from core.sessions.search.pieces import Piece, find_pieces, is_silent
from core.sessions.store import SessionStore

FILE_NAME: Final = "transcripts.sqlite"
PER_SESSION: Final = 3  # hits of one session that are shown
_VERSION: Final = 2
_OPEN, _CLOSE = "\x02", "\x03"
_SNIPPET_WORDS: Final = 28
_TABLES: Final = f"""
begin;
create table logs(session text primary key, file integer, size integer, title text) without rowid;
create table pieces(id integer primary key, session text, seq integer, at integer, kind text, place text);
create index pieces_of_session on pieces(session);
create virtual table words using fts5(text, tokenize="unicode61 remove_diacritics 2");
pragma user_version = {_VERSION};
commit;
"""
_FIND: Final = f"""
select pieces.session, logs.title, kind, place, seq, at,
       snippet(words, 0, '{_OPEN}', '{_CLOSE}', '…', {_SNIPPET_WORDS})
from words join pieces on pieces.id = words.rowid join logs on logs.session = pieces.session
where words match ? order by rank limit ?
"""


class _KnownLog(Struct):
    """The part of a log that was read: `size` bytes of the file with this number."""

    file: int = 0
    size: int = 0
    title: str = ""


def build_match(words: str, *, is_partial: bool = False) -> str:
    """Return the question that finds what has all of these words, "" = there is no word in them."""
    pairs = [
        (phrase or word.rstrip("*"), word.endswith("*")) for phrase, word in re.findall(r'"([^"]+)"?|([^\s"]+)', words)
    ]
    terms = [(text, is_open) for text, is_open in pairs if re.search(r"\w", text)]
    last = len(terms) - 1
    stars = ("*" if is_open or (is_partial and index == last) else "" for index, (_, is_open) in enumerate(terms))
    return " ".join(f'"{text}"{star}' for (text, _), star in zip(terms, stars, strict=True))


class TranscriptIndex:
    """The transcripts of a store's sessions. A context: its file is open within it. Raises `StateError`."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._path = store.path / FILE_NAME
        self._database = self._open()

    def __enter__(self) -> TranscriptIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        try:
            if not self._store.path.is_dir():
                return _connect(Path(":memory:"))  # nothing was ever said here, and nothing is made for a question
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            try:
                return _connect(self._path)
            except sqlite3.DatabaseError as problem:
                if isinstance(problem, sqlite3.OperationalError):
                    raise
                _remove(self._path)  # damaged: it is made anew
                return _connect(self._path)
        except (OSError, sqlite3.Error) as problem:
            raise _explain(problem, self._path) from problem

    def refresh(self, seconds: float | None = None) -> int:
        """Read what is new in the logs, the latest first, for so long (None = all of it). Returns how many logs are
        left. Raises `StateError`."""
        deadline = None if seconds is None else monotonic() + seconds
        try:
            known_logs = {
                session: _KnownLog(file, size, title)
                for session, file, size, title in self._database.execute("select session, file, size, title from logs")
            }
            directories = self._store.list_directories()
            for name in known_logs.keys() - {path.name for path in directories}:
                self._drop(name)
            waiting = [path for path in directories if _is_news(path, known_logs.get(path.name))]
            for index, directory in enumerate(waiting):
                if deadline is not None and monotonic() > deadline:
                    return len(waiting) - index
                self._read(directory, known_logs.get(directory.name))
        except (OSError, sqlite3.Error) as problem:
            raise _explain(problem, self._path) from problem
        return 0

    def _read(self, directory: Path, known_log: _KnownLog | None) -> None:
        session, log = directory.name, directory / "log.jsonl"
        with suppress(FileNotFoundError), log.open("rb") as file:
            stats = os.fstat(file.fileno())
            if known_log is None or known_log.file != stats.st_ino or known_log.size > stats.st_size:
                self._drop(session)
                known_log = _KnownLog(file=stats.st_ino)
            file.seek(known_log.size)
            pieces = list(_read_pieces(file.read(stats.st_size - known_log.size), known_log))
            self._database.execute("begin immediate")
            for piece in pieces:
                self._add(session, piece)
            row = (session, known_log.file, known_log.size, known_log.title)
            self._database.execute("insert or replace into logs values (?, ?, ?, ?)", row)
            self._database.execute("commit")

    def _add(self, session: str, piece: Piece) -> None:
        row = (session, piece.seq, piece.at, piece.kind, piece.place)
        cursor = self._database.execute("insert into pieces values (null, ?, ?, ?, ?, ?)", row)
        text = piece.text.translate({ord(_OPEN): None, ord(_CLOSE): None})
        self._database.execute("insert into words(rowid, text) values (?, ?)", (cursor.lastrowid, text))

    def _drop(self, session: str) -> None:
        self._database.execute("begin immediate")
        self._database.execute("delete from words where rowid in (select id from pieces where session = ?)", (session,))
        self._database.execute("delete from pieces where session = ?", (session,))
        self._database.execute("delete from logs where session = ?", (session,))
        self._database.execute("commit")

    def search(self, words: str, *, limit: int = 50, is_partial: bool = False) -> tuple[TranscriptHit, ...]:
        """Return the best hits, those of a session together, the best session first. Raises `StateError`."""
        match = build_match(words, is_partial=is_partial)
        if not match:
            return ()
        try:
            rows = self._database.execute(_FIND, (match, max(limit, 0) * 4)).fetchall()
        except sqlite3.Error as problem:
            raise _explain(problem, self._path) from problem
        sessions = dict[str, list[TranscriptHit]]()
        for row in rows:
            hits = sessions.setdefault(row[0], [])
            if len(hits) <= PER_SESSION:  # one of them may be a title
                hits.append(_build_hit(row))
        hit_groups = (_drop_titles(hits) for hits in sessions.values())
        return tuple(hit for hits in hit_groups for hit in hits[:PER_SESSION])[: max(limit, 0)]

    def forget(self, session: str) -> None:
        """Remove a session's words from the file for good. Raises `StateError`."""
        try:
            self._drop(session)
            self._database.execute("insert into words(words) values ('optimize')")  # else they stand in it, crossed out
        except sqlite3.Error as problem:
            raise _explain(problem, self._path) from problem


def forget_transcript(store: SessionStore, session: str) -> None:
    """Remove a session from the transcripts of its store, if there are any."""
    if (store.path / FILE_NAME).exists():
        with TranscriptIndex(store) as index:
            index.forget(session)


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=10, isolation_level=None)
    try:
        database.execute("pragma secure_delete = on")
        database.execute("pragma synchronous = off")  # what a power cut takes is read again
        version = database.execute("pragma user_version").fetchone()[0]
        if version == 0:
            with suppress(sqlite3.OperationalError):  # another program has just made them
                database.executescript(_TABLES)
        elif version != _VERSION:
            raise sqlite3.DatabaseError(f"version {version}")
    except BaseException:
        database.close()
        raise
    return database


def _remove(path: Path) -> None:
    for target in (path, path.with_name(f"{path.name}-journal")):
        target.unlink(missing_ok=True)


def _explain(problem: Exception, path: Path) -> StateError:
    return StateError(
        f"the transcripts can't be searched: {path}: {problem}.",
        hint="Delete this file: it is made anew from the logs.",
    )


def _is_news(directory: Path, known_log: _KnownLog | None) -> bool:
    try:
        stats = (directory / "log.jsonl").stat()
    except FileNotFoundError:
        return False
    return known_log is None or known_log.file != stats.st_ino or known_log.size != stats.st_size


def _read_pieces(data: bytes, known_log: _KnownLog) -> Iterator[Piece]:
    """Yield the pieces of whole records, and count them as read. Nothing comes of a private session."""
    data = data[: data.rfind(b"\n") + 1]
    known_log.size += len(data)
    for line in data.splitlines():
        envelope = None if is_silent(line) else decode_record(line)
        if envelope is None:
            continue
        if isinstance(envelope.event, SessionStarted) and envelope.event.private:
            return
        for piece in find_pieces(envelope):
            if piece.kind == "title" or (piece.kind == "prompt" and not known_log.title):
                known_log.title = piece.text.strip().partition("\n")[0][:200]
            yield piece


def _drop_titles(hits: list[TranscriptHit]) -> list[TranscriptHit]:
    """Leave out titles, which stand above the hits of a session anyway, unless there is nothing else."""
    return [hit for hit in hits if hit.kind != "title"] or hits[:1]


def _build_hit(row: tuple[Any, ...]) -> TranscriptHit:
    """Build a hit from a row of the search, whose last column is the excerpt with its words between marks."""
    line, marks, start = "", list[tuple[int, int]](), 0
    for part in re.split(f"([{_OPEN}{_CLOSE}])", " ".join(row[-1].split())):
        if part == _OPEN:
            start = len(line)
        elif part == _CLOSE:
            marks.append((start, len(line)))
        else:
            line += part
    session, title, kind, location, seq, timestamp = row[:-1]
    spans = tuple(marks)
    return TranscriptHit(
        session=session, title=title, kind=kind, place=location, seq=seq, at=timestamp, text=line, marks=spans
    )
