"""The result of a task whose subagent did not finish: the model is told who it was, so that it can let it go on."""

from __future__ import annotations

from core.state.session import SessionState, SubagentState


def describe_unfinished(known: SubagentState, why: str, *, is_readonly: bool = False) -> str:
    """Return what the model is told of a subagent that did not finish, and `why`."""
    kept = "" if is_readonly else " What it changed is kept with it and not merged."
    name = f"{known.agent} {known.id}"
    return f"[{name} did not finish: {why.rstrip('.')}.{kept} `resume` with this id goes on with it.]"


def describe_interrupted(state: SessionState, call: str) -> str:
    """Return the result of the call `call`, which gave a task and has none; "" = no subagent was given it."""
    known = next((each for each in state.subagents.values() if each.agent and each.call == call), None)
    if known is None:
        return ""
    if known.state in {"merging", "merged"}:
        merged = f"[{known.agent} {known.id} is done, and its changes are among yours.]"
        return "\n\n".join(filter(None, (known.said, merged)))
    return describe_unfinished(known, known.message or "it was stopped")
