"""Sessions that are not open: renamed, tagged, exported, deleted by the user, and deleted when they expire.

A session is not resumed for this: its time of last use stays the same, and nothing in it changes. A session does not
expire while anything in it waits for the user, while it is open or damaged, or while it has a tag.
A session that this engine has open is renamed and tagged by an event (`core.engine.commands`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from core.clock import now_ms
from core.config.settings import SessionSettings
from core.engine.export.documents import export_session, write_export
from core.errors import AgentTuiError, CommandRejected, StateError
from core.filesystem.removal import remove_tree
from core.protocol import commands as cmd
from core.protocol.events import Envelope, SessionRenamed, SessionTagged
from core.protocol.queries import SessionInfo
from core.sessions.listing import build_summary, can_be_deleted, list_sessions, read_session_info, save_summary
from core.sessions.log import LogExtent, SessionLog, read_log
from core.sessions.store import SessionDirectory, SessionStore
from core.sessions.transcript_search import forget_transcript
from core.shadow.layers.layer_store import remove_location
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState

MAX_TITLE: Final = 120  # characters
_DAY_MS: Final = 86_400_000
_ALL: Final = 1_000_000


def clean_title(title: str) -> str:
    """Return a title as one line of at most `MAX_TITLE` characters."""
    return " ".join(title.split())[:MAX_TITLE]


def record_change(store: SessionStore, session: str, event: SessionRenamed | SessionTagged) -> None:
    """Append an event to the log of a session that is not open; its time of last use stays. Raises `StateError`: there
    is no such session, it is open, or its log is damaged."""
    directory = store.open(session)
    try:
        _append(directory, event)
    finally:
        directory.close()


def _append(directory: SessionDirectory, event: SessionRenamed | SessionTagged) -> None:
    state, extent = SessionState(session_id=directory.id), LogExtent()
    log = SessionLog(directory.log_path, extent)
    try:
        modification_time = directory.log_path.stat().st_mtime_ns
        read_log(directory.log_path, partial(apply_event, state, table=SHARED_STEPS), extent)
        if not extent.is_whole:
            raise StateError(
                f"the log of {directory.id} is damaged.",
                hint=f"Resume it first, which repairs it: --resume {directory.id}",
            )
        envelope = Envelope(seq=state.seq + 1, session=directory.id, at=now_ms(), event=event)
        log.append(envelope)
        apply_event(state, envelope, SHARED_STEPS)
        save_summary(directory.path, build_summary(state, name=directory.id, size=log.extent.size))
        os.utime(directory.log_path, ns=(modification_time, modification_time))
    finally:
        log.close()


def delete_session(store: SessionStore, session: str, *, is_confirmed: bool = False) -> None:
    """Delete a session with all its data, including its words in the search index. Raises `StateError`: there is no
    such session, it is open, or something waits in it and `is_confirmed` is False."""
    directory = store.open(session)  # takes the lock, so nobody works in it
    try:
        waiting = describe_waiting(read_session_info(directory.path))
        if waiting and not is_confirmed:
            raise StateError(
                f"{session} was not deleted: {waiting}.", hint="--force deletes it anyway.", code="pending_waits"
            )
        for layers in directory.path.glob("**/layers"):
            remove_location(layers)
            remove_tree(layers)
        directory.discard()
    finally:
        directory.close()
    forget_transcript(store, session)


def describe_waiting(info: SessionInfo) -> str:
    """Describe what waits for the user in a session; "" = nothing."""
    edits, questions = ("edit", "edits"), ("question", "questions")
    counts = [(info.pending, edits, "pending review"), (info.asked, questions, "waiting for an answer")]
    return " and ".join(f"{number} {words[number != 1]} {end}" for number, words, end in counts if number)


def rename_closed(store: SessionStore, command: cmd.SessionRename) -> None:
    """Rename a session. Raises `CommandRejected`, `StateError`."""
    if not (title := clean_title(command.title)):
        raise CommandRejected("the title is empty.", code="empty_text")
    record_change(store, command.session, SessionRenamed(title=title))


def tag_closed(store: SessionStore, command: cmd.SessionTag) -> None:
    """Set the tags of a session. Raises `StateError`."""
    record_change(store, command.session, SessionTagged(tags=tuple(dict.fromkeys(command.tags))))


def delete_closed(store: SessionStore, command: cmd.SessionDelete) -> None:
    """Delete a session. Raises `StateError`."""
    delete_session(store, command.session, is_confirmed=command.confirmed)


def export_to_file(store: SessionStore, command: cmd.SessionExport, log: SessionLog | None = None) -> None:
    """Export a session, open or not, to a new file; from its open `log` if the log file is gone. Raises
    `StateError`."""
    if log is None and not store.has_session(command.session):
        store.open(command.session)  # raises, as there is none
    answer = export_session(store.get_path(command.session), command.format, log, command.instance)
    write_export(answer, store.workspace / Path(command.path).expanduser())


CLOSED_SESSION_COMMANDS: Final[Mapping[type, Callable[[SessionStore, Any], None]]] = {
    cmd.SessionRename: rename_closed,
    cmd.SessionTag: tag_closed,
    cmd.SessionDelete: delete_closed,
    cmd.SessionExport: export_to_file,
}


def list_expired(store: SessionStore, settings: SessionSettings, now: int | None = None) -> tuple[SessionInfo, ...]:
    """Return the expired sessions; `now` in ms."""
    return tuple(_find_expired(list_sessions(store, limit=_ALL), settings, now_ms() if now is None else now))


def _find_expired(sessions: tuple[SessionInfo, ...], settings: SessionSettings, now: int) -> Iterator[SessionInfo]:
    for session in sessions:
        days = settings.keep_runs_days if session.unattended else settings.keep_days
        is_over = days > 0 and session.updated < now - days * _DAY_MS
        if is_over and can_be_deleted(session):
            yield session


def expire_sessions(store: SessionStore, settings: SessionSettings, now: int | None = None) -> list[str]:
    """Delete the expired sessions, at most once a day, and return their ids. A session that can't be deleted is tried
    again the next day."""
    deleted_ids = list[str]()
    if not (settings.keep_days or settings.keep_runs_days) or not _is_due(store.path / "expiry", now):
        return deleted_ids
    for session in list_expired(store, settings, now):
        with suppress(AgentTuiError, OSError):
            delete_session(store, session.id)
            deleted_ids.append(session.id)
    return deleted_ids


def _is_due(mark: Path, now: int | None) -> bool:
    """Return True once a day, since reading the list of all sessions at every start would be slow."""
    timestamp = now_ms() if now is None else now
    try:
        if mark.exists() and timestamp - mark.stat().st_mtime_ns // 1_000_000 < _DAY_MS:
            return False
        mark.touch(mode=0o600)
        os.utime(mark, ns=(timestamp * 1_000_000, timestamp * 1_000_000))
    except OSError:  # there are no sessions here, or none can be removed
        return False
    return True
