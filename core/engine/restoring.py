"""A restore under way: first the files, then the conversation; carried forward after a crash.

What is under way stands in a file of the session until all of it is in the log; an engine that finds it there does it
once more, which comes to the same end.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from core.agent.tags import as_data, tagged
from core.errors import StateError
from core.prompts import render
from core.protocol.events import (
    CheckpointRestored,
    ConversationRewound,
    LeftAlone,
    MessageAppended,
    Notice,
    TodoChanged,
)
from core.protocol.messages import UserMessage

if TYPE_CHECKING:
    from core.engine.runtime import SessionRuntime

What = Literal["files", "conversation", "both"]
FILE = "restoring.json"
NAMED = 10


class Restoring(Struct, frozen=True, kw_only=True):
    """A restore under way: of `checkpoint`, with `before` made ahead of it. `files` change, `roots` of bulks are taken
    back."""

    checkpoint: str
    before: str
    what: What
    files: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


def go_on(runtime: SessionRuntime) -> str:
    """Finish a restore that a crash cut off. A sentence for the user, "" = there was none."""
    restoring = _noted(runtime)
    if restoring is None:
        return ""
    if restoring.checkpoint not in runtime.state.marks:
        _forget(runtime)
        return ""
    finish(runtime, restoring)
    return "A restore that was cut off was finished."


def finish(runtime: SessionRuntime, restoring: Restoring) -> None:
    """Carry it out, also once more, and then forget that it was under way."""
    mark = runtime.state.marks[restoring.checkpoint]
    if restoring.what != "conversation":
        _files(runtime, restoring)
    if restoring.what != "files":
        runtime.emit(ConversationRewound(to_seq=mark.seq, checkpoint=mark.id))
        if (mark.todos, mark.plan_path) != (runtime.state.todos, runtime.state.plan_path):
            runtime.emit(TodoChanged(todos=mark.todos, plan=mark.plan_path))
    runtime.log.sync()
    runtime.keep_summary()
    _forget(runtime)


def _files(runtime: SessionRuntime, restoring: Restoring) -> None:
    done = runtime.shadow.checkpoints.restore(restoring.checkpoint, restoring.roots)
    runtime.shadow.look_around()
    left = {each.path for each in done.left}
    files = tuple(each for each in restoring.files if each not in left)
    runtime.emit(CheckpointRestored(id=restoring.before, checkpoint=restoring.checkpoint, files=files, left=done.left))
    if done.left:
        runtime.emit(_left_alone(done.left))
    if restoring.what == "files" and files and runtime.state.messages:
        named = [as_data(each) for each in files[:NAMED]]
        text = tagged("system_reminder", render("reminders/restored", files=named, more=len(files) - len(named)))
        runtime.emit(MessageAppended(message=UserMessage(content=text, origin="program")))


def _left_alone(left: tuple[LeftAlone, ...]) -> Notice:
    named = " ".join(f"{each.path}: {each.reason}" for each in left[:NAMED])
    more = f" And {len(left) - NAMED} more." if len(left) > NAMED else ""
    count = "1 path was" if len(left) == 1 else f"{len(left)} paths were"
    return Notice(level="warning", message=f"{count} left alone. {named}{more}")


def _place(runtime: SessionRuntime) -> Path:
    return runtime.directory.path / FILE


def note(runtime: SessionRuntime, restoring: Restoring) -> None:
    path = _place(runtime)
    temporary = path.with_suffix(".tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:  # noqa: PTH123
            file.write(msgspec.json.encode(restoring))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StateError(f"The restore can't be noted in {path}: {error.strerror}. Nothing was changed.") from error


def _noted(runtime: SessionRuntime) -> Restoring | None:
    try:
        return msgspec.json.decode(_place(runtime).read_bytes(), type=Restoring)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        _forget(runtime)
        return None


def _forget(runtime: SessionRuntime) -> None:
    with suppress(OSError):
        _place(runtime).unlink(missing_ok=True)
