"""Open a session: a new one, one from its log with the leftovers of a crash repaired, or a copy of another (a fork).

A fork copies the log up to a checkpoint, and links blobs and layers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.engine.session.recovery import close_open_turn, prune_killed_runs, remove_probes
from core.engine.session.restore import finish_pending_restore
from core.engine.session.session import Session
from core.engine.shared.services import EngineServices
from core.errors import StateError
from core.filesystem.atomic_write import stream_replacement
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.git.credentials import register_git_credentials
from core.git.layout import read_branch
from core.git.temporary_directories import remove_abandoned
from core.ids import new_id
from core.protocol.events import BranchChanged, SessionForked, SessionRenamed, SessionResumed, SessionStarted
from core.sessions import record_format as records
from core.sessions.log import SessionLog
from core.sessions.snapshot import open_session
from core.sessions.store import JOURNAL_FILE, LOG_FILE, SessionDirectory
from core.shadow.commits.pending_commit import NOTE_FILE
from core.shadow.layers.layer_files import link_entry, link_tree
from core.shadow.layers.layer_store import LayerStore, RetainedLayers
from core.shadow.layers.pending_layer import copy_seen
from core.shadow.promotion.journal import Journal
from core.state.session import ConversationCheckpoint, SessionState

PROGRAM_ENDED = "the program ended."  # why a turn was interrupted


def create_session(directory: SessionDirectory, services: EngineServices, first: SessionStarted) -> Session:
    """Create a session that begins with `first`. Raises `StateError`."""
    prune_killed_runs(directory)
    finish_interrupted_sessions(directory, services)
    remove_abandoned()
    log = SessionLog(directory.log_path)
    log.check_lock = directory.check_lock
    state = SessionState(session_id=directory.id, recall=log.read_records)
    register_git_credentials(services.workspace.root)
    session = Session(directory, log, state, services)
    session.emit(first)
    return session


def fill_directory(directory: SessionDirectory, create: Callable[[SessionDirectory], Session]) -> Session:
    """Create a session in its new directory; remove the directory if that fails."""
    try:
        return create(directory)
    except BaseException:
        directory.discard()
        directory.close()
        raise


def resume_session(directory: SessionDirectory, services: EngineServices) -> Session:
    """Open a session from its log; finish its promotions and close its open turn. Raises `StateError`."""
    finish_interrupted_sessions(directory, services)
    return _repair_session(directory, services)[0]


def _repair_session(directory: SessionDirectory, services: EngineServices) -> tuple[Session, str]:
    """Open a session from its log; also return a report of the repairs ("" = none)."""
    prune_killed_runs(directory)
    remove_abandoned()
    log, state, repair_note = open_session(directory.path, SessionState)
    log.check_lock = directory.check_lock
    state.session_id = directory.id
    register_git_credentials(services.workspace.root)
    session = Session(directory, log, state, services)
    session.terminal.host.remove_temporary()  # of a killed program
    repairs = [repair_note, *session.shadow.recover(), finish_pending_restore(session)]
    repairs.append(_finish_own_commit(session))
    session.recorder.turn_id = state.current_turn.id if state.current_turn is not None else ""
    repairs.append(close_open_turn(state, session.emit, message=PROGRAM_ENDED, is_reopened=True))
    session.recorder.turn_id = ""
    remove_probes(session, is_resumed=True)
    report, is_unattended = " ".join(filter(None, repairs)), not services.options.interactive
    session.emit(
        SessionResumed(
            repaired=report,
            branch=read_branch(services.workspace.root),
            unattended=is_unattended,
            accepts_at_once=services.accepts_at_once,
        )
    )
    session.check_disk()  # the project may have changed meanwhile
    return session, report


def _finish_own_commit(session: Session) -> str:
    if not (session.directory.path / NOTE_FILE).exists():
        return ""
    from core.engine.session.commit_recovery import finish_own_commit

    return finish_own_commit(session)


def finish_interrupted_sessions(directory: SessionDirectory, services: EngineServices) -> None:
    """Finish what killed programs left incomplete in this workspace, once per engine. The session in `directory`, which
    is about to be opened, reports it and repairs itself."""
    if services.has_finished_others:
        return
    services.has_finished_others = True
    with suppress(OSError):
        for path in directory.path.parent.iterdir():
            if path != directory.path:
                _finish_interrupted_session(path, services)


def _finish_interrupted_session(path: Path, services: EngineServices) -> None:
    if (path / NOTE_FILE).exists():
        from core.engine.session.commit_recovery import finish_commit_of_other_session

        services.notices += filter(None, [finish_commit_of_other_session(path, services.workspace.root)])
    if Journal(path / JOURNAL_FILE).has_ended:
        return
    with suppress(StateError):  # it is open elsewhere, or can't be read, which is reported when it is opened
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
        os.utime(
            path / LOG_FILE, ns=(log_stat.st_atime_ns, log_stat.st_mtime_ns)
        )  # the repair must not make it the latest session
        services.notices += filter(None, [report])


def record_branch(session: Session) -> None:
    """Record the branch that is checked out, if it has changed."""
    branch = read_branch(session.workspace.root)
    if branch != session.state.branch:
        try:
            session.emit_outside_turn(BranchChanged(branch=branch))
        except StateError as problem:
            session.report_error(problem)


def fork_session(source: Session, checkpoint: ConversationCheckpoint | None, target: SessionDirectory) -> Session:
    """Open a copy of `source`, as it is or as it was at `checkpoint`, in a new directory. Raises `StateError`."""
    _fill_directory(source, target, checkpoint)
    session = resume_session(target, source.services)
    session.emit(SessionForked(source=source.id, at=checkpoint.id if checkpoint is not None else ""))
    session.emit(SessionRenamed(title=f"{source.state.title} (fork)".strip()))
    return session


def _fill_directory(source: Session, target: SessionDirectory, checkpoint: ConversationCheckpoint | None) -> None:
    """Fill the directory of a new session; the log comes last. Raises `StateError`."""
    moment = new_id("fork")
    source.shadow.layers.freeze(moment, source.state.seq)
    try:
        _link_files(source.directory.blobs_path, target.blobs_path)
        _link_files(source.directory.outputs_path, target.outputs_path)
        for path in source.directory.path.glob("prefix*.json"):
            link_entry(path, target.path / path.name)
        _copy_layers(source, target, checkpoint)
        _copy_log(source, target, checkpoint.seq if checkpoint else source.state.seq)
    except OSError as error:
        raise StateError(
            f"The session can't be copied to {target.path}: {error.strerror}.",
            hint="Free some space, then try again.",
        ) from error
    finally:
        with suppress(OSError):
            source.shadow.layers.unfreeze(moment)


def _link_files(source: Path, target: Path) -> None:
    for above, _, names in os.walk(source):
        directory = target / Path(above).relative_to(source)
        make_private_directory(directory)
        for name in names:
            if not name.endswith(".tmp"):
                link_entry(Path(above) / name, directory / name)


def _copy_layers(source: Session, target: SessionDirectory, checkpoint: ConversationCheckpoint | None) -> None:
    """Copy the stored layers, those of the checkpoints up to `checkpoint`, and those that undoing their verdicts
    needs."""
    layers = source.shadow.layers
    layer_record = layers.retained if checkpoint is None else layers.read_frozen(checkpoint.id) or RetainedLayers()
    marks = [mark for mark in source.state.checkpoints.values() if checkpoint is None or mark.seq <= checkpoint.seq]
    if not layers.exists or (layer_record == RetainedLayers() and not any(mark.generated for mark in marks)):
        return
    copy = LayerStore(target.path / "layers")
    copy.write_record(layer_record)
    for mark in marks:
        if (record := layers.checkpoint_records.find_path(mark.id)) is not None:
            copy.checkpoint_records.add(
                mark.id, mark.seq, record, layers.checkpoint_records.layers_by_record[record.name]
            )
    names = [*copy.retained.layers, *copy.checkpoint_records.layers, *source.shadow.bulks.redo_store.list_directories()]
    try:
        for name in dict.fromkeys(names):
            if (layers.location / name).is_dir():
                link_tree(layers.location / name, copy.location / name)
        copy_seen(layers, copy)
    except OSError:
        remove_tree(copy.location)
        raise


def _copy_log(source: Session, target: SessionDirectory, last: int) -> None:
    """Copy the records up to `last`, with the new session's id instead of the old one."""
    old, new = source.id.encode("ascii"), target.id.encode("ascii")
    with stream_replacement(target.log_path) as file:
        after = 0
        while after < last and (envelopes := source.log.read(after=after, limit=min(512, last - after))):
            for envelope in envelopes:
                file.write(records.encode_record(envelope, old=old, new=new))
            after = envelopes[-1].seq
