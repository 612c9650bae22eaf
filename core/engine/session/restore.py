"""Restore a checkpoint: first the files, then the conversation; completed after a crash.

Until all of a restore is in the log, a file notes it. An engine that finds the note repeats the restore, with the same
result.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.engine.session.session import Session
from core.errors import AgentTuiError, StateError
from core.filesystem.atomic_write import replace_file
from core.prompts import render
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from core.records import decode_json

RestoreScope = Literal["files", "conversation", "both"]
NOTE_FILE = "restoring.json"
MAX_NAMED = 10


class PendingRestore(Struct, frozen=True, kw_only=True):
    """A restore of `checkpoint`; the checkpoint `before` was created ahead of it. `files`: the paths that change;
    `roots`: the bulks that are undone."""

    checkpoint: str
    before: str
    what: RestoreScope
    files: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


def finish_pending_restore(session: Session) -> str:
    """Finish a restore that a crash cut off. Return a report for the user, "" = there was none."""
    restoring = _load_note(session)
    if restoring is None:
        return ""
    if restoring.checkpoint not in session.state.checkpoints:
        _remove_note(session)
        return ""
    carry_out(session, restoring)
    return "An interrupted restore was finished."


def carry_out(session: Session, restoring: PendingRestore) -> None:
    """Carry out a restore, which may be a repetition, and remove its note."""
    mark = session.state.checkpoints[restoring.checkpoint]
    if restoring.what != "conversation":
        _restore_files(session, restoring)
    if restoring.what != "files":
        session.emit(ev.ConversationRewound(to_seq=mark.seq, checkpoint=mark.id))
        if (mark.todos, mark.plan_path) != (session.state.todos, session.state.todos_plan_path):
            session.emit(ev.TodoChanged(todos=mark.todos, plan=mark.plan_path))
    session.log.sync()
    session.save_summary()
    _remove_note(session)


def _restore_files(session: Session, restoring: PendingRestore) -> None:
    result = session.shadow.checkpoints.restore(restoring.checkpoint, restoring.roots)
    session.shadow.refresh_annotations()
    _emit_restored_plans(session, restoring.files)
    skipped_paths = {skipped_path.path for skipped_path in result.left}
    files = tuple(file for file in restoring.files if file not in skipped_paths)
    session.emit(
        ev.CheckpointRestored(id=restoring.before, checkpoint=restoring.checkpoint, files=files, left=result.left)
    )
    if result.left:
        session.emit(_describe_skipped(result.left))
    if restoring.what == "files" and files and session.state.messages:
        names = [escape_tags(file) for file in files[:MAX_NAMED]]
        text = wrap_tag("system_reminder", render("reminders/restored", files=names, more=len(files) - len(names)))
        session.emit(ev.MessageAppended(message=UserMessage(content=text, origin="program")))


def _emit_restored_plans(session: Session, paths: tuple[str, ...]) -> None:
    """Emit the restored plans among some paths. The current plan comes last, so that it stays the current one."""
    state = session.state
    current_path = state.current_plan_path
    for path in sorted(
        state.review.plan_paths.intersection(paths), key=lambda plan_path: (plan_path == current_path, plan_path)
    ):
        try:
            plan = session.plans.store.load(path)
        except AgentTuiError:  # it is missing or invalid, which is reported when it is used
            if path == state.todos_plan_path and path not in state.plans:
                session.emit(ev.TodoChanged(todos=()))
            continue
        if plan == state.plans.get(path):
            continue
        session.emit(ev.PlanUpdated(plan=plan))
        if path == state.todos_plan_path:
            session.emit(ev.TodoChanged(todos=plan.todos, plan=path))


def _describe_skipped(skipped_paths: tuple[ev.SkippedPath, ...]) -> ev.Notice:
    details = " ".join(f"{skipped_path.path}: {skipped_path.reason}" for skipped_path in skipped_paths[:MAX_NAMED])
    suffix = f" And {len(skipped_paths) - MAX_NAMED} more." if len(skipped_paths) > MAX_NAMED else ""
    count = "1 path was" if len(skipped_paths) == 1 else f"{len(skipped_paths)} paths were"
    return ev.Notice(level="warning", message=f"{count} left alone. {details}{suffix}")


def _note_path(session: Session) -> Path:
    return session.directory.path / NOTE_FILE


def save_note(session: Session, restoring: PendingRestore) -> None:
    """Write the note of a restore before it begins. Raises `StateError`."""
    path = _note_path(session)
    try:
        replace_file(path, msgspec.json.encode(restoring))
    except OSError as error:
        raise StateError(f"The restore can't be recorded in {path}: {error.strerror}. Nothing was changed.") from error


def _load_note(session: Session) -> PendingRestore | None:
    try:
        return decode_json(_note_path(session).read_bytes(), PendingRestore)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        _remove_note(session)
        return None


def _remove_note(session: Session) -> None:
    with suppress(OSError):
        _note_path(session).unlink(missing_ok=True)
