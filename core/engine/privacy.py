"""Privacy: nothing of a private session is on a disk once the program has ended.

The sessions of a private engine and the temporary files of its process are in memory
(`core/sessions/private_directory.py`); crash reports are not saved, and saved permissions expire with the program.
Pending changes are saved without the conversation if the user asks for it, else they are removed with the rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from core import crash_reports
from core.config.settings import Settings
from core.engine.session.opening import create_session, resume_session
from core.engine.session.session import Session
from core.engine.shared.project_trust import ProjectTrust
from core.engine.shared.services import EngineServices
from core.errors import AgentTuiError, CommandRejected
from core.filesystem.removal import remove_tree
from core.protocol.events import Notice, SessionStarted
from core.protocol.review import Change
from core.sessions.private_directory import PrivateDirectory, find_abandoned, find_private_directory
from core.sessions.record_format import decode_record
from core.sessions.store import SessionDirectory, SessionStore
from core.shadow.layers.layer_store import remove_location
from core.workspace import Workspace

PENDING_TITLE: Final = "Changes from a private session"
RESUME_REFUSED: Final = "privacy is on, so saved sessions are not resumed."
RESUME_REFUSED_HINT: Final = "`agent-tui review` opens the pending changes; --no-private resumes a saved session."
ON_DISK: Final = "This private session can't be kept in memory: it is on disk until the program ends."


class Privacy:
    """The privacy of one engine. `is_private`: the command line's choice, None = the configuration decides."""

    def __init__(self, is_private: bool | None) -> None:
        self._requested = is_private
        self._directory: PrivateDirectory | None = None

    @property
    def path(self) -> Path | None:
        """The directory that holds everything of the engine; None = privacy is off."""
        return self._directory.path if self._directory is not None else None

    @property
    def is_on(self) -> bool:
        return self._directory is not None

    def open_store(self, workspace: Path, settings: Settings, home: Path | None = None) -> SessionStore:
        """Return the sessions of a workspace, below `home` unless privacy is on. Raises `StateError`."""
        if self._directory is None and (settings.privacy if self._requested is None else self._requested):
            self._directory = PrivateDirectory.create()
            crash_reports.set_enabled(False)
            tempfile.tempdir = str(self._directory.path)
        return SessionStore(workspace, home=self.path or home)

    def choose_index_directory(self, store: SessionStore, home: Path | None) -> Path:
        """Return the directory of the index. Sessions below another `home` share the index of the project, unless the
        project is itself below that home, as a background agent's clone is, and is removed with it."""
        is_shared = home is not None and not self.is_on and not store.workspace.is_relative_to(home.resolve().parent)
        return SessionStore(store.workspace).path if is_shared else store.path

    def list_notices(self) -> list[str]:
        """Return a warning if the private session is on the disk."""
        return [ON_DISK] if self._directory is not None and not self._directory.in_memory else []

    def check_resume(self, store: SessionStore, session: str) -> None:
        """Raise `CommandRejected` for a session that is on the disk."""
        if self.is_on and not (store.has_session(session) if session else store.find_latest()):
            raise CommandRejected(RESUME_REFUSED, hint=RESUME_REFUSED_HINT, code="private")

    def close(self) -> None:
        """Remove everything. Safe to call twice."""
        private_directory, self._directory = self._directory, None
        if private_directory is not None:
            tempfile.tempdir = None
            crash_reports.set_enabled(True)
            _remove_layer_locations(private_directory.path)
            private_directory.remove()


def _remove_layer_locations(directory: Path) -> None:
    for layers in directory.glob("workspaces/*/sessions/**/layers"):
        remove_location(layers)


def prune_abandoned(services: EngineServices) -> None:
    """Remove the directories that killed private engines left, after finishing or undoing a cut-off write."""
    for directory in find_abandoned():
        for journal in directory.glob("workspaces/*/sessions/*/journal.jsonl"):
            with suppress(AgentTuiError, OSError, StopIteration):
                if journal.stat().st_size:
                    _recover_promotion(journal.parent, services)
        _remove_layer_locations(directory)
        with suppress(OSError):
            remove_tree(directory)


def _recover_promotion(session: Path, services: EngineServices) -> None:
    directory = SessionDirectory(session)
    with directory.log_path.open("rb") as file:
        first = decode_record(file.readline().rstrip(b"\n"))
    event = first.event if first is not None else None
    if not isinstance(event, SessionStarted):
        return
    workspace = Workspace(Path(event.workspace))
    engine_services = replace(services, workspace=workspace, trust=ProjectTrust(workspace, for_now=True))
    resume_session(directory, engine_services).remove()


async def save_pending(sessions: Mapping[str, Session], name: str, services: EngineServices) -> Session:
    """Save a private session's pending changes in a new session on disk. Raises `CommandRejected`, `StateError`."""
    if (session := sessions.get(name)) is not None:
        await session.tasks.wait_idle()
        await session.stop_turn()
        return _copy_pending(session, services)
    closed_session = resume_session(services.store.open(name), services)
    try:
        return _copy_pending(closed_session, services)
    finally:
        closed_session.remove()


def _copy_pending(source: Session, services: EngineServices) -> Session:
    if find_private_directory(source.directory.path) is None:
        raise CommandRejected("this session is not private, so it is saved anyway.", code="not_private")
    if not (waiting := source.shadow.list_changes()):
        raise CommandRejected(
            "there is nothing pending that could be saved without its session.",
            hint="Links and bulks are lost with it: accept or drop them.",
            code="nothing_pending",
        )
    directory = SessionStore(services.workspace.root).create()
    first = SessionStarted(workspace=str(services.workspace.root), mode="agent", model="", title=PENDING_TITLE)
    target = create_session(directory, services, first)
    lost_paths = [change.path for change in waiting if not _copy_change(source, change, target)]
    lost_paths += [bulk.root for bulk in source.review.bulks if bulk.needs_verdict]
    if lost_paths:
        message = f"Not saved from the private session: {', '.join(lost_paths)}."
        target.emit(Notice(level="warning", message=message, hint="Links and bulks were lost with it."))
    return target


def _copy_change(source: Session, change: Change, target: Session) -> bool:
    """Propose a change in the other session by its content alone. Return False if that is not possible."""
    if change.pending.kind == "symlink":
        return False
    try:
        if change.pending.kind == "absent":
            target.shadow.delete(change.path)
        else:
            target.shadow.edit(change.path, source.shadow.blobs.get(change.pending.blob), None, change.pending.mode)
    except AgentTuiError:
        return False
    return True
