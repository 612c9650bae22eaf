"""The commands on sessions that are open nowhere, each with the function that carries it out.

A session that this engine has open is renamed and tagged by an event of its own (`core.engine.commands`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from core.engine.export.documents import export_session, write_export
from core.engine.kept.changes import clean_title, delete_session, record_change
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import SessionRenamed, SessionTagged
from core.sessions.log import SessionLog
from core.sessions.store import SessionStore


def rename_kept(store: SessionStore, command: cmd.SessionRename) -> None:
    """Give a session a title. Raises `CommandRejected`, `StateError`."""
    if not (title := clean_title(command.title)):
        raise CommandRejected("the title is empty.", code="empty_text")
    record_change(store, command.session, SessionRenamed(title=title))


def tag_kept(store: SessionStore, command: cmd.SessionTag) -> None:
    """Set the tags of a session. Raises `StateError`."""
    record_change(store, command.session, SessionTagged(tags=tuple(dict.fromkeys(command.tags))))


def delete_kept(store: SessionStore, command: cmd.SessionDelete) -> None:
    """Delete a session. Raises `StateError`."""
    delete_session(store, command.session, is_confirmed=command.confirmed)


def export_kept(store: SessionStore, command: cmd.SessionExport, log: SessionLog | None = None) -> None:
    """Write a session, be it open or not, to a new file: from its open `log`, if its file is gone.
    Raises `StateError`."""
    if log is None and not store.has_session(command.session):
        store.open(command.session)  # which says that there is none
    answer = export_session(store.get_path(command.session), command.format, log)
    write_export(answer, store.workspace / Path(command.path).expanduser())


KEPT_CHANGES: Final[Mapping[type, Callable[[SessionStore, Any], None]]] = {
    cmd.SessionRename: rename_kept,
    cmd.SessionTag: tag_kept,
    cmd.SessionDelete: delete_kept,
    cmd.SessionExport: export_kept,
}
