"""Restore a checkpoint while nothing else runs."""

from __future__ import annotations

from functools import partial

from core.engine.session.restore import PendingRestore, RestoreScope, carry_out, save_note
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.lifecycle import reset_memory
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.state.session import ConversationCheckpoint


def prepare_restore(session: Session, command: cmd.CheckpointRestore) -> Effect:
    """Check a restore and return its effect. Raises `CommandRejected`."""
    mark = find_checkpoint(session, command.id)
    check_idle(session)
    return partial(_restore_checkpoint, session, mark, command.what)


def find_checkpoint(session: Session, checkpoint: str) -> ConversationCheckpoint:
    """Return a checkpoint by id. Raises `CommandRejected` if there is none."""
    mark = session.state.checkpoints.get(checkpoint)
    if mark is None:
        raise CommandRejected(f"there is no checkpoint {checkpoint!r}.", code="checkpoint_unknown")
    return mark


def check_idle(session: Session) -> None:
    """Raise `CommandRejected` while a turn, command or job runs."""
    if session.turn_slot.is_running:
        raise CommandRejected("a turn is running.", hint="Wait until it ends, or stop it first.", code="turn_running")
    if session.tasks.has_running_commands or session.terminal.jobs.running_jobs:
        raise CommandRejected(
            "a command is running.", hint="Stop it first: /jobs lists background commands.", code="command_running"
        )
    if session.shadow.layers.open_layers:
        raise CommandRejected("a command is just finishing.", hint="Try again in a moment.", code="command_running")


def _restore_checkpoint(session: Session, mark: ConversationCheckpoint, scope: RestoreScope) -> None:
    check_idle(session)
    files, roots = tuple[str, ...](), tuple[str, ...]()
    if scope != "conversation":
        checkpoints = session.shadow.checkpoints
        files, roots = tuple(sorted(checkpoints.find_changed_paths(mark.id))), checkpoints.list_bulk_roots(mark.id)
    before = session.create_checkpoint("", before=mark.id)
    restoring = PendingRestore(checkpoint=mark.id, before=before, what=scope, files=files, roots=roots)
    session.log.sync()
    save_note(session, restoring)
    carry_out(session, restoring)
    if scope != "files":
        reset_memory(session)
