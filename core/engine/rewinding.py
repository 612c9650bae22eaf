"""Going back to a checkpoint, while nothing is at work on what is taken back; and what that would change."""

from __future__ import annotations

from functools import partial

from core.engine.live import Effect, LiveSession
from core.engine.restoring import Restoring, What, finish, note
from core.engine.runtime import SessionRuntime
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.review import Change, FileState
from core.sessions.rewind import Mark, is_left
from core.shadow.checkpoints import Step


def checkpoint_restored(live: LiveSession, command: cmd.CheckpointRestore) -> Effect:
    """The effect of the command. Raises what `Reject` is to say."""
    mark = known(live.runtime, command.id)
    need_rest(live)
    return partial(_restore, live, mark, command.what)


def known(runtime: SessionRuntime, checkpoint: str) -> Mark:
    mark = runtime.state.marks.get(checkpoint)
    if mark is None:
        raise CommandRejected(f"there is no checkpoint {checkpoint!r}.", code="checkpoint_unknown")
    return mark


def need_rest(live: LiveSession) -> None:
    """Nothing may be at work on what is taken back."""
    if live.turns.running:
        raise CommandRejected("a turn is running.", hint="Wait for its end, or stop it first.", code="turn_running")
    if live.runs_commands or live.runtime.terminal.jobs.alive:
        raise CommandRejected(
            "a command is running.", hint="Stop it first: /jobs lists those in the background.", code="command_running"
        )
    if live.runtime.shadow.layers.open:
        raise CommandRejected("a command is just ending.", hint="Try again in a moment.", code="command_running")


def _restore(live: LiveSession, mark: Mark, what: What) -> None:
    need_rest(live)
    runtime = live.runtime
    files, roots = ((), ()) if what == "conversation" else _concerned(runtime, mark)
    before = runtime.checkpoint("", before=mark.id)
    restoring = Restoring(checkpoint=mark.id, before=before, what=what, files=files, roots=roots)
    runtime.log.sync()
    note(runtime, restoring)
    finish(runtime, restoring)
    if what != "files":
        live.turns.forget()


def _concerned(runtime: SessionRuntime, mark: Mark) -> tuple[tuple[str, ...], tuple[str, ...]]:
    checkpoints = runtime.shadow.checkpoints
    return tuple(sorted(checkpoints.changed(mark.id))), checkpoints.roots(mark.id)


# What there is, and what it would change.


def checkpoints(runtime: SessionRuntime) -> q.Checkpoints:
    """All of them, oldest first."""
    return q.Checkpoints(checkpoints=tuple(_info(runtime, mark) for mark in runtime.state.marks.values()))


def preview(runtime: SessionRuntime, checkpoint: str) -> q.CheckpointPreview:
    """`CommandRejected`: there is none of that id."""
    mark = known(runtime, checkpoint)
    shown = (_path(step) for step in runtime.shadow.checkpoints.plan(checkpoint))
    return q.CheckpointPreview(
        info=_info(runtime, mark),
        paths=tuple(each for each in shown if each.pending or each.disk or each.reason),
        bulks=runtime.shadow.checkpoints.changed_bulks(checkpoint),
        messages=max(len(runtime.state.messages) - mark.messages, 0),
    )


def _info(runtime: SessionRuntime, mark: Mark) -> q.CheckpointInfo:
    files = runtime.shadow.checkpoints
    return q.CheckpointInfo(
        id=mark.id,
        seq=mark.seq,
        at=mark.at,
        prompt=mark.prompt,
        before=mark.before,
        files=len(files.changed(mark.id)) + len(files.changed_bulks(mark.id)),
        generated=mark.generated,
        left=is_left(runtime.state, mark),
        problem=files.problem(mark.id),
    )


def _path(step: Step) -> q.RestoredPath:
    if step.reason:
        return q.RestoredPath(path=step.path, reason=step.reason)
    return q.RestoredPath(path=step.path, pending=_pending(step.now, step.change), disk=_disk(step.disk, step.target))


def _pending(now: Change | None, then: Change | None) -> q.PendingEffect:
    if now == then:
        return ""
    if then is None:
        return "resolve"
    return "propose" if now is None else "revise"


def _disk(now: FileState, then: FileState) -> q.Effect:
    if now == then:
        return ""
    if then.kind == "absent":
        return "delete"
    return "create" if now.kind == "absent" else "edit"
