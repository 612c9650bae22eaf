"""What a sequence is made of, as data: what the user, the model, the outside world and the machine may do.

An action names things by number (the third pending hunk), modulo how many there are, so that a sequence in which
something was left out is still one. Text that has to be accepted holds marks `ag_<n>_x`, what the user writes into
files `us_<n>_x`, each used once: whose a byte is can be told wherever it turns up.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct


class Action(Struct, frozen=True, kw_only=True, tag_field="do"):
    """Base of all actions."""


class Call(Struct, frozen=True, kw_only=True):
    """A call that the model makes; `tool` "" = it says `text` and calls nothing."""

    tool: str = ""
    arguments: dict[str, Any] = {}
    text: str = ""


class Turn(Action, frozen=True, kw_only=True, tag="turn"):
    """The model answers a prompt: each item of `steps` is one answer with its calls. Before the answer number `pause`
    the model waits until `during` has happened; -1 = it never waits."""

    steps: tuple[tuple[Call, ...], ...] = ()
    pause: int = -1
    during: tuple[AnyAction, ...] = ()


class Outside(Action, frozen=True, kw_only=True, tag="outside"):
    """The user edits a file with another program."""

    path: str
    how: Literal["write", "append", "replace", "delete", "chmod"]
    text: str = ""
    line: int = 0


class Command(Action, frozen=True, kw_only=True, tag="command"):
    """The user types a command into the program. `kill`: while it runs, one of its processes gets SIGKILL."""

    command: str
    kill: bool = False


class Judge(Action, frozen=True, kw_only=True, tag="judge"):
    """A verdict on pending hunk, file or bulk number `at`, or on all of it; `confirmed` as a user who read the risk."""

    what: Literal["hunk", "file", "all", "bulk"]
    verdict: Literal["accept", "reject"]
    at: int = 0
    confirmed: bool = True


class Rework(Action, frozen=True, kw_only=True, tag="rework"):
    """Split, join, edit or comment pending hunk number `at`."""

    how: Literal["split", "join", "edit", "comment"]
    at: int = 0
    text: str = ""


class Settle(Action, frozen=True, kw_only=True, tag="settle"):
    """Settle conflict number `at`: the same choice for each of its clashes."""

    take: Literal["mine", "theirs", "both", "text"]
    at: int = 0
    text: str = ""


class Restore(Action, frozen=True, kw_only=True, tag="restore"):
    """Go back to checkpoint number `at`."""

    what: Literal["files", "conversation", "both"]
    at: int = 0


class Simple(Action, frozen=True, kw_only=True, tag="simple"):
    """What needs no arguments, or only a text."""

    what: Literal[
        "undo", "interrupt", "steer", "send_comments", "fork", "restart", "compact", "drop", "plan_edit", "todo"
    ]
    text: str = ""


class Build(Action, frozen=True, kw_only=True, tag="build"):
    """Work the first plan; the models answer `steps`, whoever of them is asked next."""

    steps: tuple[tuple[Call, ...], ...] = ()
    workers: int = 1


class Best(Action, frozen=True, kw_only=True, tag="best"):
    """Try a prompt side by side; the models answer `steps`, whoever of them is asked next. `stops`: the number of the
    candidate that the user stops once it has begun, -1 = none."""

    steps: tuple[tuple[Call, ...], ...] = ()
    candidates: int = 2
    stops: int = -1


class Take(Action, frozen=True, kw_only=True, tag="take"):
    """Take candidate number `at` of the last ones: all of it, one of its files, or one hunk of that."""

    what: Literal["all", "file", "hunk"]
    at: int = 0


class Forget(Action, frozen=True, kw_only=True, tag="forget"):
    """Take saved permission number `at` back."""

    at: int = 0


class Commit(Action, frozen=True, kw_only=True, tag="commit"):
    """Commit what was accepted, in one commit or several."""

    split: Literal["none", "todo", "prompt"] = "none"


class Review(Action, frozen=True, kw_only=True, tag="review"):
    """`/review` of a revision, "" = of the branch with what is not committed; the model answers `steps`, in whose last
    words are so many `findings`."""

    of: str = ""
    steps: tuple[tuple[Call, ...], ...] = ()
    findings: int = 0


class Finding(Action, frozen=True, kw_only=True, tag="finding"):
    """Dismiss finding number `at` of the last review (or open it again), or have it fixed, or all that are open, as the
    model's `steps` do."""

    how: Literal["fix", "fix_all", "dismiss"]
    at: int = 0
    steps: tuple[tuple[Call, ...], ...] = ()


class Mode(Action, frozen=True, kw_only=True, tag="mode"):
    mode: Literal["agent", "plan", "ask", "debug"]


class Crash(Action, frozen=True, kw_only=True, tag="crash"):
    """The engine's process gets SIGKILL while `during` happens, at its write to a file system number `at`. A process
    that has come to its end by then is killed there."""

    during: AnyAction
    at: int = 1


AnyAction = (
    Turn
    | Outside
    | Command
    | Judge
    | Rework
    | Settle
    | Restore
    | Simple
    | Build
    | Best
    | Take
    | Forget
    | Commit
    | Review
    | Finding
    | Mode
    | Crash
)


class Sequence(Struct, frozen=True, kw_only=True):
    """What is replayed: `seed` says where it came from."""

    seed: int
    actions: tuple[AnyAction, ...]

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()


def read_sequence(text: str) -> Sequence:
    """Raises `msgspec.ValidationError` for what is none."""
    return msgspec.json.decode(text, type=Sequence)
