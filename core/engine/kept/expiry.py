"""Sessions that go with time: runs of `-p` after some weeks, sessions if the user wants that; never what still waits.

A session stays while anything in it waits for the user, while it is open or damaged, and while it has a tag.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.clock import now_ms
from core.config.settings import SessionSettings
from core.engine.kept.changes import delete_session
from core.errors import AgentTuiError
from core.protocol.queries import SessionInfo
from core.sessions.listing import can_be_deleted, list_sessions
from core.sessions.store import SessionStore

_DAY_MS: Final = 86_400_000
_ALL: Final = 1_000_000


def list_expired(store: SessionStore, settings: SessionSettings, now: int | None = None) -> tuple[SessionInfo, ...]:
    """Return the sessions whose time is over; `now` in ms."""
    return tuple(_find_expired(list_sessions(store, limit=_ALL), settings, now_ms() if now is None else now))


def _find_expired(sessions: tuple[SessionInfo, ...], settings: SessionSettings, now: int) -> Iterator[SessionInfo]:
    for session in sessions:
        days = settings.keep_runs_days if session.unattended else settings.keep_days
        is_over = days > 0 and session.updated < now - days * _DAY_MS
        if is_over and can_be_deleted(session):
            yield session


def expire_sessions(store: SessionStore, settings: SessionSettings, now: int | None = None) -> list[str]:
    """Delete the sessions whose time is over, once a day, and return their ids. What can't be deleted stays until the
    next time."""
    deleted_ids = list[str]()
    if not (settings.keep_days or settings.keep_runs_days) or not _is_due(store.path / "expiry", now):
        return deleted_ids
    for session in list_expired(store, settings, now):
        with suppress(AgentTuiError, OSError):
            delete_session(store, session.id)
            deleted_ids.append(session.id)
    return deleted_ids


def _is_due(mark: Path, now: int | None) -> bool:
    """True once a day: the list of all sessions is not read at every start."""
    timestamp = now_ms() if now is None else now
    try:
        if mark.exists() and timestamp - mark.stat().st_mtime_ns // 1_000_000 < _DAY_MS:
            return False
        mark.touch(mode=0o600)
        os.utime(mark, ns=(timestamp * 1_000_000, timestamp * 1_000_000))
    except OSError:  # no session was ever kept here, or none can be removed
        return False
    return True
