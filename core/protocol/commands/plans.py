"""Commands about plans and their todos, and about the ways that a prompt was tried."""

from __future__ import annotations

from msgspec import Struct

from core.ids import Id
from core.protocol.commands.base import Command
from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan


class PlanEdit(Command, frozen=True, kw_only=True, tag="plan.edit"):
    """None = leave as it is. With nothing to change, the plan becomes the one at hand. `base`: the plan that the change
    was made of, when it may be older than the one that the session has; what came between is merged."""

    path: str
    body: str | None = None
    todos: tuple[Todo, ...] | None = None
    name: str | None = None
    overview: str | None = None
    base: Plan | None = None


class PlanComment(Command, frozen=True, kw_only=True, tag="plan.comment"):
    """Comment on lines of a plan: `excerpt` as they stand in its body from line `start` on (1-indexed). With `id`, the
    text of that comment is replaced; without `text` it is removed."""

    path: str
    text: str
    start: int = 0
    excerpt: str = ""
    id: str = ""


class PlanBuild(Command, frozen=True, kw_only=True, tag="plan.build"):
    """Switch to Agent and work the plan, from where it stands. `todo`: only this one. `fresh`: the model is sent
    nothing of the conversation until here. `workers`: subagents at once, up to MAX_SUBAGENTS; 1 = the agent alone."""

    path: str
    todo: str = ""
    fresh: bool = False
    workers: int = 1


class TodoSet(Command, frozen=True, kw_only=True, tag="todo.set"):
    """A todo with a `verify` command is completed when that has passed; it is run for this. One that waits for others
    is not begun, and only completed `anyway`: the user was told what it waits for."""

    id: str
    status: TodoStatus
    plan: str = ""
    anyway: bool = False


class BestRun(Command, frozen=True, kw_only=True, tag="best.run"):
    """Try a prompt several times, each time in a shadow of its own; nothing is merged by itself. `models`: one for each
    candidate, "" = the session's; from 2 to MAX_SUBAGENTS. `attachments`: labels, as in `turn.submit`."""

    text: str
    models: tuple[str, ...]
    attachments: tuple[Id, ...] = ()


def parse_candidates(text: str) -> tuple[str, ...]:
    """Parse the models of a `best.run` as people write them: a number stands for as many times the session's, else
    they are named, with commas between them."""
    if text.isdecimal() and len(text) < 3:
        return ("",) * int(text)
    return tuple(text.replace(",", " ").split())


class CandidatePick(Struct, frozen=True, kw_only=True):
    """A part of a candidate `id`: `hunks` of the file `path`, () = all of it; `path` "" = all that it changed."""

    id: Id
    path: str = ""
    hunks: tuple[str, ...] = ()


class BestTake(Command, frozen=True, kw_only=True, tag="best.take"):
    """Merge parts of candidates into what is pending. The command that candidates were checked by runs afterwards."""

    picks: tuple[CandidatePick, ...]
