"""Open a session: a new one, or one from its log, with what a crash left of it repaired."""

from __future__ import annotations

from collections.abc import Callable

from core.engine.services import EngineServices
from core.engine.session.probe_cleanup import prune_killed_runs, remove_probes
from core.engine.session.recovery import close_open_turn
from core.engine.session.restore import finish_pending_restore
from core.engine.session.session import Session
from core.errors import StateError
from core.git.credentials import register_git_credentials
from core.git.layout import read_branch
from core.git.temporary_directories import remove_abandoned
from core.protocol.events import BranchChanged, SessionResumed, SessionStarted
from core.sessions.log import SessionLog
from core.sessions.snapshot import open_session
from core.sessions.store import SessionDirectory
from core.state.session import SessionState


def create_session(directory: SessionDirectory, services: EngineServices, first: SessionStarted) -> Session:
    """Create a session that begins with `first`. Raises `StateError`."""
    prune_killed_runs(directory)
    remove_abandoned()
    log = SessionLog(directory.log_path)
    state = SessionState(session_id=directory.id, recall=log.read_records)
    register_git_credentials(services.workspace.root)
    session = Session(directory, log, state, services)
    session.emit(first)
    return session


def fill_directory(directory: SessionDirectory, create: Callable[[SessionDirectory], Session]) -> Session:
    """Create a session in its new directory, which goes if that fails."""
    try:
        return create(directory)
    except BaseException:
        directory.discard()
        directory.close()
        raise


def resume_session(directory: SessionDirectory, services: EngineServices) -> Session:
    """Open a session from its log, with promotions and the turn that it left open ended. Raises `StateError`."""
    prune_killed_runs(directory)
    remove_abandoned()
    log, state, mended = open_session(directory.path, SessionState)
    state.session_id = directory.id
    register_git_credentials(services.workspace.root)
    session = Session(directory, log, state, services)
    repaired = [mended, *session.shadow.recover(), finish_pending_restore(session)]
    session.recorder.turn_id = state.current_turn.id if state.current_turn is not None else ""
    repaired.append(close_open_turn(state, session.emit, reopened=True))
    session.recorder.turn_id = ""
    remove_probes(session, resumed=True)
    told, unattended = " ".join(filter(None, repaired)), not services.options.interactive
    session.emit(SessionResumed(repaired=told, branch=read_branch(services.workspace.root), unattended=unattended))
    session.check_disk()  # the project may have moved on meanwhile
    return session


def note_branch(session: Session) -> None:
    """Tell which branch is checked out, if it is another than the one that the session knows."""
    branch = read_branch(session.workspace.root)
    if branch != session.state.branch:
        try:
            session.emit_outside_turn(BranchChanged(branch=branch))
        except StateError as problem:
            session.report_error(problem)
