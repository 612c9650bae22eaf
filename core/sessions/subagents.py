"""The part of the fold that subagents are: which there were, what became of each, and how far its merge has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from core.protocol import events as ev
from core.protocol.messages import Usage
from core.sessions.usage import total

if TYPE_CHECKING:
    from core.sessions.fold import SessionState


@dataclass(slots=True, kw_only=True)
class Subagent:
    """One of them. It is "closed" when its todo is not in progress any more, so that nothing is left to do with it, or
    the todo is begun anew. `joined`: the paths that its merge, begun and not ended, has recorded; `conflicts`: what of
    its work waited for the user when it was merged; `usage`: what is counted of it here."""

    id: str
    todo: str
    plan: str
    title: str = ""
    model: str = ""
    state: Literal["working", "ended", "merging", "merged", "closed"] = "working"
    reason: ev.TurnEnd = "interrupted"
    message: str = ""
    joined: set[str] = field(default_factory=set)
    conflicts: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


def started(state: SessionState, _: ev.Envelope, event: ev.SubagentStarted) -> None:
    known = state.subagents.pop(event.id, None)
    state.subagents[event.id] = known or Subagent(id=event.id, todo=event.todo, plan=event.plan, title=event.title)
    state.subagents[event.id].state, state.subagents[event.id].model = "working", event.model


def finished(state: SessionState, _: ev.Envelope, event: ev.SubagentFinished) -> None:
    if (known := state.subagents.get(event.id)) is not None:
        known.state, known.reason, known.message = "ended", event.reason, event.message
        known.usage = total(known.usage, event.usage)
        state.chosen.take("subagent", known.model, event.usage)
    if (turn := state.turn) is not None:
        turn.usage = total(turn.usage, event.usage)


def merging(state: SessionState, _: ev.Envelope, event: ev.SubagentMerging) -> None:
    if (known := state.subagents.get(event.id)) is not None:
        known.state = "merging"


def merged(state: SessionState, _: ev.Envelope, event: ev.SubagentMerged) -> None:
    if (known := state.subagents.get(event.id)) is not None:
        known.state, known.conflicts = "ended" if event.refused else "merged", event.conflicts


def listed(state: SessionState, event: ev.TodoChanged) -> None:
    """The todos are these now."""
    working = {todo.id for todo in event.todos if todo.status == "in_progress"}
    for each in state.subagents.values():
        if each.plan == event.plan and each.state in {"ended", "merged"} and each.todo not in working:
            each.state = "closed"


def restored(state: SessionState, _: ev.Envelope, __: ev.CheckpointRestored) -> None:
    """What was merged may be gone again: who has its todo now begins anew."""
    state.subagents = {key: each for key, each in state.subagents.items() if each.state != "merged"}


def joined(state: SessionState, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    """A change that is recorded: of the merge that goes on, if it is by what is merged."""
    change = event.change
    for each in state.subagents.values():
        is_theirs = change.origin is not None and change.origin.call == each.id
        if each.state == "merging" and (is_theirs or any(rival.by == each.id for rival in change.rivals)):
            each.joined.add(change.path)
