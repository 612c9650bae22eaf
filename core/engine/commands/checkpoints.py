"""Restore a checkpoint, while nothing is at work on what is taken back; list and preview checkpoints."""

from __future__ import annotations

from functools import partial

from core.engine.session.live_session import Effect, LiveSession
from core.engine.session.restore import PendingRestore, RestoreScope, carry_out, save_note
from core.engine.session.session import Session
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.review import Change, FileState
from core.shadow.checkpoints.file_checkpoints import RestoreStep
from core.state.conversation import ConversationCheckpoint, is_checkpoint_left


def prepare_checkpoint_restore(live: LiveSession, command: cmd.CheckpointRestore) -> Effect:
    """Check a restore and return its effect. Raises what `Reject` is to say."""
    mark = find_checkpoint(live.runtime, command.id)
    check_idle(live)
    return partial(_restore_checkpoint, live, mark, command.what)


def find_checkpoint(runtime: Session, checkpoint: str) -> ConversationCheckpoint:
    """Return a checkpoint by id. Raises `CommandRejected` if there is none."""
    mark = runtime.state.checkpoints.get(checkpoint)
    if mark is None:
        raise CommandRejected(f"there is no checkpoint {checkpoint!r}.", code="checkpoint_unknown")
    return mark


def check_idle(live: LiveSession) -> None:
    """Raise `CommandRejected` while a turn, command or job runs."""
    if live.turns.is_running:
        raise CommandRejected("a turn is running.", hint="Wait for its end, or stop it first.", code="turn_running")
    if live.has_running_commands or live.runtime.terminal.jobs.running_jobs:
        raise CommandRejected(
            "a command is running.", hint="Stop it first: /jobs lists those in the background.", code="command_running"
        )
    if live.runtime.shadow.layers.open_layers:
        raise CommandRejected("a command is just ending.", hint="Try again in a moment.", code="command_running")


def _restore_checkpoint(live: LiveSession, mark: ConversationCheckpoint, what: RestoreScope) -> None:
    check_idle(live)
    runtime = live.runtime
    files, roots = ((), ()) if what == "conversation" else _find_changed(runtime, mark)
    before = runtime.create_checkpoint("", before=mark.id)
    restoring = PendingRestore(checkpoint=mark.id, before=before, what=what, files=files, roots=roots)
    runtime.log.sync()
    save_note(runtime, restoring)
    carry_out(runtime, restoring)
    if what != "files":
        live.turns.reset_context()


def _find_changed(runtime: Session, mark: ConversationCheckpoint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    checkpoints = runtime.shadow.checkpoints
    return tuple(sorted(checkpoints.find_changed_paths(mark.id))), checkpoints.list_bulk_roots(mark.id)


# What there is, and what it would change.


def list_checkpoints(runtime: Session) -> q.CheckpointsAnswer:
    """Return all checkpoints, oldest first."""
    return q.CheckpointsAnswer(
        checkpoints=tuple(_describe_checkpoint(runtime, mark) for mark in runtime.state.checkpoints.values())
    )


def preview_checkpoint(runtime: Session, checkpoint: str) -> q.CheckpointPreviewAnswer:
    """Return what a restore would change. `CommandRejected`: there is no checkpoint of that id."""
    mark = find_checkpoint(runtime, checkpoint)
    shown = (_describe_path(step) for step in runtime.shadow.checkpoints.plan(checkpoint))
    return q.CheckpointPreviewAnswer(
        info=_describe_checkpoint(runtime, mark),
        paths=tuple(each for each in shown if each.pending or each.disk or each.reason),
        bulks=runtime.shadow.checkpoints.find_changed_bulks(checkpoint),
        messages=max(len(runtime.state.messages) - mark.messages, 0),
    )


def _describe_checkpoint(runtime: Session, mark: ConversationCheckpoint) -> q.CheckpointInfo:
    files = runtime.shadow.checkpoints
    return q.CheckpointInfo(
        id=mark.id,
        seq=mark.seq,
        at=mark.at,
        prompt=mark.prompt,
        before=mark.before,
        files=len(files.find_changed_paths(mark.id)) + len(files.find_changed_bulks(mark.id)),
        generated=mark.generated,
        left=is_checkpoint_left(runtime.state, mark),
        problem=files.describe_problem(mark.id),
    )


def _describe_path(step: RestoreStep) -> q.RestoredPath:
    if step.reason:
        return q.RestoredPath(path=step.path, reason=step.reason)
    return q.RestoredPath(
        path=step.path, pending=_pending_effect(step.now, step.change), disk=_disk_effect(step.disk, step.target)
    )


def _pending_effect(now: Change | None, then: Change | None) -> q.PendingEffect:
    if now == then:
        return ""
    if then is None:
        return "resolve"
    return "propose" if now is None else "revise"


def _disk_effect(now: FileState, then: FileState) -> q.DiskEffect:
    if now == then:
        return ""
    if then.kind == "absent":
        return "delete"
    return "create" if now.kind == "absent" else "edit"
