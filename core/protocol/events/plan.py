"""Events of plans, task lists, and the subagents that work at them: sessions with their own log and shadow."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.documents import Todo
from core.protocol.events.base import Event, IdEvent, LossyEvent, TurnEnd
from core.protocol.messages import Usage
from core.protocol.plans import Plan
from core.protocol.review import Check, Comment, FileState


class PlanCreated(Event, frozen=True, kw_only=True, tag="plan.created"):
    plan: Plan


class PlanUpdated(Event, frozen=True, kw_only=True, tag="plan.updated"):
    plan: Plan


class PlanWritten(Event, frozen=True, kw_only=True, tag="plan.written"):
    """The file of a plan now holds `state` (kind absent: it was removed, and is no plan any more), instead of `before`.
    A `path` outside of the project is absolute."""

    path: str
    state: FileState
    before: FileState


class PlanCommented(Event, frozen=True, kw_only=True, tag="plan.commented"):
    """The comment of this id on lines of a plan is now this one; without text: there is none."""

    comment: Comment


class TodoVerified(IdEvent, frozen=True, kw_only=True, tag="todo.verified"):
    """The command of a todo was run, alone in a clean layer; `exit_code` None = it did not end. `output` is its last
    part. `problem`: why it proves nothing, as a sentence; `changed_here`: pending files that decide what it does.
    `is_unboxed`: there is no box, and it ran in the project itself, which verifies nothing.
    `id` is the todo's, which a model may have chosen."""

    id: str
    command: str
    exit_code: int | None
    output: str = ""
    plan: str = ""
    duration_ms: int = 0
    problem: str = ""
    changed_here: tuple[str, ...] = ()
    is_unboxed: bool = False

    @property
    def has_passed(self) -> bool:
        """True if the run proves the todo."""
        return self.exit_code == 0 and not self.problem


class TodoChanged(Event, frozen=True, kw_only=True, tag="todo.changed"):
    """The session's task list, whole. `plan` is the path of the plan that it belongs to, "" = none."""

    todos: tuple[Todo, ...]
    plan: str = ""


class SubagentAction(Struct, frozen=True, kw_only=True):
    """One line about what a subagent did or said; `status` as of a tool call, "said" of words."""

    text: str
    status: Literal["running", "completed", "failed", "denied", "cancelled", "said"] = "said"


class SubagentStarted(IdEvent, frozen=True, kw_only=True, tag="subagent.started"):
    """It began, or went on, to work: at a todo of a plan, as the agent `agent` at a task of the tool call `call`, or as
    a candidate of the turn `candidate_of`, which tries a prompt several times. `id` names it and its log; `title` is
    what it is about."""

    todo: str = ""
    plan: str = ""
    agent: str = ""
    call: str = ""
    title: str = ""
    model: str = ""
    again: bool = False
    candidate_of: OptionalId = ""


class SubagentProgressed(LossyEvent, frozen=True, kw_only=True, tag="subagent.progressed"):
    """Lossy: what it is doing, a few times a second at most. `acts` are the latest ones, `count` how many there were;
    `changed`: files that it has changed; `usage`, and `duration_ms`: since it last began."""

    id: Id
    acts: tuple[SubagentAction, ...] = ()
    count: int = 0
    steps: int = 0
    changed: int = 0
    usage: Usage = Usage()
    duration_ms: int = 0


class SubagentFinished(IdEvent, frozen=True, kw_only=True, tag="subagent.finished"):
    """It stopped. What it did is kept with it until it is merged; `message`: why it could not finish, `said`: its last
    words; `usage` and `duration_ms` since it last began."""

    reason: TurnEnd
    message: str = ""
    said: str = ""
    acts: tuple[SubagentAction, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    duration_ms: int = 0


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that a candidate changed, with the numbers of its lines that came and went."""

    path: str
    added: int = 0
    removed: int = 0


class SubagentRated(IdEvent, frozen=True, kw_only=True, tag="subagent.rated"):
    """A candidate has ended: what it changed, and how the command ended that all candidates are checked by; None = none
    of them ran any."""

    files: tuple[ChangedFile, ...] = ()
    check: Check | None = None


class SubagentMerging(IdEvent, frozen=True, kw_only=True, tag="subagent.merging"):
    """From here on until `subagent.merged`, changes come from it; a crash between the two is carried on from."""


class SubagentMerged(IdEvent, frozen=True, kw_only=True, tag="subagent.merged"):
    """The changes of a subagent are pending here: `paths`, of which `conflicts` wait for the user; `generated` files
    beside the review, and `notes` on differences. `refused` paths can't be merged now, and are tried again later."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    generated: int = 0
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
