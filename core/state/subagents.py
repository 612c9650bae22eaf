"""Subagents in the session's state: what became of each, and the progress of its merge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from core.protocol import events as ev
from core.protocol.messages import Usage
from core.state.usage import add_usage

if TYPE_CHECKING:
    from core.state.fold import SessionState


@dataclass(slots=True, kw_only=True)
class SubagentState:
    """One subagent. It is "closed" when its todo is in progress no more, or is begun anew.

    `joined`: paths that its unfinished merge has recorded; `conflicts`: paths in conflict when it was merged;
    `usage`: the part that is counted in this session.
    """

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


def start_subagent(state: SessionState, _: ev.Envelope, event: ev.SubagentStarted) -> None:
    known = state.subagents.pop(event.id, None)
    state.subagents[event.id] = known or SubagentState(id=event.id, todo=event.todo, plan=event.plan, title=event.title)
    state.subagents[event.id].state, state.subagents[event.id].model = "working", event.model


def finish_subagent(state: SessionState, _: ev.Envelope, event: ev.SubagentFinished) -> None:
    if (known := state.subagents.get(event.id)) is not None:
        known.state, known.reason, known.message = "ended", event.reason, event.message
        known.usage = add_usage(known.usage, event.usage)
        state.model_choices.add_usage("subagent", known.model, event.usage)
    if (turn := state.current_turn) is not None:
        turn.usage = add_usage(turn.usage, event.usage)


def begin_merge(state: SessionState, _: ev.Envelope, event: ev.SubagentMerging) -> None:
    if (known := state.subagents.get(event.id)) is not None:
        known.state = "merging"


def finish_merge(state: SessionState, _: ev.Envelope, event: ev.SubagentMerged) -> None:
    if (known := state.subagents.get(event.id)) is not None:
        known.state, known.conflicts = "ended" if event.refused else "merged", event.conflicts


def close_subagents(state: SessionState, event: ev.TodoChanged) -> None:
    """Close the subagents whose todos are not in progress any more."""
    working = {todo.id for todo in event.todos if todo.status == "in_progress"}
    for each in state.subagents.values():
        if each.plan == event.plan and each.state in {"ended", "merged"} and each.todo not in working:
            each.state = "closed"


def drop_merged_subagents(state: SessionState, _: ev.Envelope, __: ev.CheckpointRestored) -> None:
    """Forget merged subagents: their changes may be gone, so that their todos begin anew."""
    state.subagents = {key: each for key, each in state.subagents.items() if each.state != "merged"}


def record_merged_change(state: SessionState, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    """Record a change as part of the merge that is under way, if it comes from the merged subagent."""
    change = event.change
    for each in state.subagents.values():
        is_theirs = change.origin is not None and change.origin.call == each.id
        if each.state == "merging" and (is_theirs or any(rival.by == each.id for rival in change.rivals)):
            each.joined.add(change.path)
