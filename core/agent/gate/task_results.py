"""The result of a task whose subagent did not finish: the model is told who it was, so that it can let it go on."""

from __future__ import annotations

from core.state.session import SessionState, SubagentState


def describe_unfinished(subagent: SubagentState, reason: str, *, is_readonly: bool = False) -> str:
    """Return what the model is told of a subagent that did not finish, and `reason`."""
    note = "" if is_readonly else " What it changed is kept with it and not merged."
    name = f"{subagent.agent} {subagent.id}"
    return f"[{name} did not finish: {reason.rstrip('.')}.{note} `resume` with this id goes on with it.]"


def describe_interrupted(state: SessionState, call: str) -> str:
    """Return the result of the call `call`, which gave a task and has none; "" = no subagent was given it."""
    subagent = next(
        (candidate for candidate in state.subagents.values() if candidate.agent and candidate.call == call), None
    )
    if subagent is None:
        return ""
    if subagent.state in {"merging", "merged"}:
        merge_note = f"[{subagent.agent} {subagent.id} is done, and its changes are among yours.]"
        return "\n\n".join(filter(None, (subagent.said, merge_note)))
    return describe_unfinished(subagent, subagent.message or "it was stopped")
