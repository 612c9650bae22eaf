"""Open a session: a new one, or one from its log, with what a crash left of it repaired."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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
from core.sessions.store import JOURNAL_FILE, LOG_FILE, SessionDirectory
from core.shadow.commits.pending_commit import NOTE_FILE
from core.shadow.promotion.journal import Journal
from core.state.session import SessionState


def create_session(directory: SessionDirectory, services: EngineServices, first: SessionStarted) -> Session:
    """Create a session that begins with `first`. Raises `StateError`."""
    prune_killed_runs(directory)
    finish_others(directory, services)
    remove_abandoned()
    log = SessionLog(directory.log_path)
    log.check_lock = directory.check_lock
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
    finish_others(directory, services)
    return _repair_session(directory, services)[0]


def _repair_session(directory: SessionDirectory, services: EngineServices) -> tuple[Session, str]:
    """Open a session; return what was repaired, too ("" = nothing)."""
    prune_killed_runs(directory)
    remove_abandoned()
    log, state, repair_note = open_session(directory.path, SessionState)
    log.check_lock = directory.check_lock
    state.session_id = directory.id
    register_git_credentials(services.workspace.root)
    session = Session(directory, log, state, services)
    repairs = [repair_note, *session.shadow.recover(), finish_pending_restore(session)]
    repairs.append(_finish_own_commit(session))
    session.recorder.turn_id = state.current_turn.id if state.current_turn is not None else ""
    repairs.append(close_open_turn(state, session.emit, is_reopened=True))
    session.recorder.turn_id = ""
    remove_probes(session, is_resumed=True)
    report, is_unattended = " ".join(filter(None, repairs)), not services.options.interactive
    session.emit(SessionResumed(repaired=report, branch=read_branch(services.workspace.root), unattended=is_unattended))
    session.check_disk()  # the project may have moved on meanwhile
    return session, report


def _finish_own_commit(session: Session) -> str:
    if not (session.directory.path / NOTE_FILE).exists():
        return ""
    from core.engine.commits.cut_off import finish_own_commit

    return finish_own_commit(session)


def finish_others(directory: SessionDirectory, services: EngineServices) -> None:
    """Look after what killed programs left half done in this workspace, once; the session that is about to be opened in
    `directory` says it, and looks after itself."""
    if services.has_looked_around:
        return
    services.has_looked_around = True
    with suppress(OSError):
        for path in directory.path.parent.iterdir():
            if path != directory.path:
                _finish_other(path, services)


def _finish_other(path: Path, services: EngineServices) -> None:
    if (path / NOTE_FILE).exists():
        from core.engine.commits.cut_off import finish_other_commit

        services.notices += filter(None, [finish_other_commit(path, services.workspace.root)])
    if Journal(path / JOURNAL_FILE).has_ended:
        return
    with suppress(StateError):  # it is open elsewhere, or can't be read: who opens it is told
        log_stat = (path / LOG_FILE).stat()
        directory = SessionDirectory(path)
        try:
            session, report = _repair_session(directory, services)
            session.syntax_checker.close()
            session.save_summary()
            session.recorder.bus.close()
            session.log.close()
        finally:
            directory.close()
        os.utime(path / LOG_FILE, ns=(log_stat.st_atime_ns, log_stat.st_mtime_ns))  # it is not the latest by that
        services.notices += filter(None, [report])


def note_branch(session: Session) -> None:
    """Tell which branch is checked out, if it is another than the one that the session knows."""
    branch = read_branch(session.workspace.root)
    if branch != session.state.branch:
        try:
            session.emit_outside_turn(BranchChanged(branch=branch))
        except StateError as problem:
            session.report_error(problem)
