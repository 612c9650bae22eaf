"""The words of all transcripts of a workspace in one SQLite file, which is brought up to date at every query.

Logs only grow, so a part that was read is never read again. The file can be deleted at any time. The words of a session
are removed with it, and a private session never comes into the file. No key is in the searched text, nor text that
looks like one. Messages to the model are left out: their content is in the records of the prompt, the answer or the
command, too.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from msgspec import Struct

from core.errors import StateError
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.events import SessionStarted
from core.protocol.queries.sessions import PieceKind, TranscriptHit
from core.secrets import redact
from core.sessions.record_format import decode_record
from core.sessions.store import SessionStore

MAX_CHARS: Final = 16_000  # of one piece; of longer ones head and tail are searched
_ENDS: Final = (b'"type":"message.appended"', b'"type":"document.started"', b'"type":"tool.requested"')
FILE_NAME: Final = "transcripts.sqlite"
PER_SESSION: Final = 3  # hits per session
_VERSION: Final = 2  # of the tables
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


class Piece(Struct, frozen=True, array_like=True):
    """A piece of a transcript; `place`: the id of the turn or document that shows it, `seq`: the number of its
    record."""

    seq: int
    at: int
    kind: PieceKind
    place: str
    text: str


def has_no_piece(line: bytes) -> bool:
    """True if a line of a log contains no piece for certain, by the type of its event, as most bytes of a log do."""
    return any(marker in line[:400] for marker in _ENDS)


def find_pieces(envelope: ev.Envelope) -> Iterator[Piece]:
    """Yield the searchable texts of a record, without keys."""
    find = _FINDERS.get(type(envelope.event))
    for kind, location, text in find(envelope) if find is not None else ():
        if text.strip():
            yield Piece(envelope.seq, envelope.at, kind, location, redact(_shorten(text)))


_Found = Iterator[tuple[PieceKind, str, str]]


def _shorten(text: str) -> str:
    half = MAX_CHARS // 2
    return text if len(text) <= MAX_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


def _find_prompt(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.TurnStarted)
    if envelope.event.cause != "job":
        yield "prompt", envelope.turn, envelope.event.prompt


def _find_steer(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.TurnSteered)
    yield "prompt", envelope.turn, envelope.event.text


def _find_title(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.SessionStarted | ev.SessionRenamed)
    yield "title", "", envelope.event.title


def _find_command(envelope: ev.Envelope) -> _Found:
    event = envelope.event
    assert isinstance(event, ev.CommandRan)
    yield "command", event.id, f"{event.command}\n{event.output}"


def _find_answers(envelope: ev.Envelope) -> _Found:
    event = envelope.event
    assert isinstance(event, ev.QuestionAnswered)
    yield "question", event.id, "\n".join(answer.text or ", ".join(answer.options) for answer in event.answers)


def _find_comment(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.HunkCommented | ev.PlanCommented)
    comment = envelope.event.comment
    yield "review", envelope.turn, f"{comment.path}\n{comment.text}" if comment.text else ""


def _find_reason(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.VerdictGiven)
    verdict = envelope.event.verdict
    yield "review", envelope.turn, f"{verdict.path}\n{verdict.reason}" if verdict.reason else ""


def _find_subagent(envelope: ev.Envelope) -> _Found:
    match envelope.event:
        case ev.SubagentStarted(title=title):
            yield "subagent", envelope.turn, title
        case ev.SubagentFinished(said=said, acts=acts):
            yield "subagent", envelope.turn, "\n".join((said, *(act.text for act in acts)))


def _find_document(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.DocumentFinished)
    document = envelope.event.document
    match document:
        case d.TextDocument() | d.CodeBlockDocument() | d.ErrorDocument():
            yield "answer", document.id, document.content or ""
        case d.CodeReferenceDocument(metadata=there):
            yield "answer", document.id, f"{there.file_path}\n{document.content or ''}"
        case d.FileEditDocument(metadata=edit):
            sides = (edit.diff.old_string, edit.diff.new_string) if edit.diff is not None else ()
            yield "edit", document.id, "\n".join((edit.file_path, *sides))
        case d.TerminalCommandDocument(metadata=ran):
            yield "command", document.id, f"{ran.command}\n{ran.output}"
        case d.PlanDocument(metadata=plan):
            yield "plan", document.id, "\n".join((plan.title, plan.overview, document.content or ""))
        case d.ClarificationDocument(metadata=asked):
            yield "question", document.id, "\n".join(question.text for question in asked.questions)
        case d.ToolCallDocument(metadata=call):
            argument_texts = (str(argument) for argument in call.arguments.values() if isinstance(argument, str | int))
            yield "tool", document.id, "\n".join((f"{call.tool_name} {call.summary}".strip(), *argument_texts))
        case _:  # reasoning is shown folded, and an update of todos has no text
            return


_FINDERS: Final[Mapping[type[Any], Callable[[ev.Envelope], _Found]]] = {
    ev.SessionStarted: _find_title,
    ev.SessionRenamed: _find_title,
    ev.TurnStarted: _find_prompt,
    ev.TurnSteered: _find_steer,
    ev.DocumentFinished: _find_document,
    ev.CommandRan: _find_command,
    ev.QuestionAnswered: _find_answers,
    ev.HunkCommented: _find_comment,
    ev.PlanCommented: _find_comment,
    ev.VerdictGiven: _find_reason,
    ev.SubagentStarted: _find_subagent,
    ev.SubagentFinished: _find_subagent,
}


class _KnownLog(Struct):
    """The indexed part of a log: `size` bytes of the file with this inode number."""

    file: int = 0
    size: int = 0
    title: str = ""


def build_match(words: str, *, is_partial: bool = False) -> str:
    """Return the FTS query for all of these words; "" = there is no word in them."""
    pairs = [
        (phrase or word.rstrip("*"), word.endswith("*")) for phrase, word in re.findall(r'"([^"]+)"?|([^\s"]+)', words)
    ]
    terms = [(text, is_open) for text, is_open in pairs if re.search(r"\w", text)]
    last = len(terms) - 1
    stars = ("*" if is_open or (is_partial and index == last) else "" for index, (_, is_open) in enumerate(terms))
    return " ".join(f'"{text}"{star}' for (text, _), star in zip(terms, stars, strict=True))


class TranscriptIndex:
    """The transcripts of a store's sessions. A context manager: its file is open within. Raises `StateError`."""

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
                return _connect(Path(":memory:"))  # there is no session yet, and a query creates no directory
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            try:
                return _connect(self._path)
            except sqlite3.DatabaseError as problem:
                if isinstance(problem, sqlite3.OperationalError):
                    raise
                _remove(self._path)  # a damaged file is created again
                return _connect(self._path)
        except (OSError, sqlite3.Error) as problem:
            raise _explain(problem, self._path) from problem

    def refresh(self, seconds: float | None = None) -> int:
        """Read new records of the logs, the latest log first, for `seconds` (None = without a limit). Returns the
        number of logs that are left. Raises `StateError`."""
        deadline = None if seconds is None else monotonic() + seconds
        try:
            known_logs = {
                session: _KnownLog(file, size, title)
                for session, file, size, title in self._database.execute("select session, file, size, title from logs")
            }
            directories = self._store.list_directories()
            for name in known_logs.keys() - {path.name for path in directories}:
                self._drop(name)
            waiting = [path for path in directories if _has_grown(path, known_logs.get(path.name))]
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
        """Return the best hits, grouped by session, the best session first. Raises `StateError`."""
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
            self._database.execute(
                "insert into words(words) values ('optimize')"
            )  # otherwise the file still contains the deleted words
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
        database.execute("pragma synchronous = off")  # records lost in a power cut are read again
        version = database.execute("pragma user_version").fetchone()[0]
        if version == 0:
            with suppress(sqlite3.OperationalError):  # another process has just created them
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
        hint="Delete this file: it is rebuilt from the logs.",
    )


def _has_grown(directory: Path, known_log: _KnownLog | None) -> bool:
    try:
        stats = (directory / "log.jsonl").stat()
    except FileNotFoundError:
        return False
    return known_log is None or known_log.file != stats.st_ino or known_log.size != stats.st_size


def _read_pieces(data: bytes, known_log: _KnownLog) -> Iterator[Piece]:
    """Yield the pieces of whole records, and count them as read. A private session has none."""
    data = data[: data.rfind(b"\n") + 1]
    known_log.size += len(data)
    for line in data.splitlines():
        envelope = None if has_no_piece(line) else decode_record(line)
        if envelope is None:
            continue
        if isinstance(envelope.event, SessionStarted) and envelope.event.private:
            return
        for piece in find_pieces(envelope):
            if piece.kind == "title" or (piece.kind == "prompt" and not known_log.title):
                known_log.title = piece.text.strip().partition("\n")[0][:200]
            yield piece


def _drop_titles(hits: list[TranscriptHit]) -> list[TranscriptHit]:
    """Leave out titles, which the list shows above the hits of a session anyway, unless there is no other hit."""
    return [hit for hit in hits if hit.kind != "title"] or hits[:1]


def _build_hit(row: tuple[Any, ...]) -> TranscriptHit:
    """Build a hit from a row of the search, whose last column is the excerpt with marked words."""
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
