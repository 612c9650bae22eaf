"""Recaps: what happened in a session while its user was away, in one line that is made from the state alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.protocol.renames import list_changes
from core.state.session import SessionState, TurnState
from core.text.counting import count
from core.text.display_names import to_one_line

MAX_PROMPT: Final = 60  # characters of the last prompt
_ENDS: Final = {"done": "done", "interrupted": "stopped", "limit": "ended at a limit", "failed": "failed"}


def describe_absence(state: SessionState, since: int, now: int) -> str:
    """Describe what was done for a user who left the screen at `since` (ms); "" = nothing ended meanwhile."""
    ended = [turn for turn in state.turns if turn.reason and turn.started + turn.duration_ms >= since]
    is_asked = bool(state.approvals or state.questions)
    if not ended and not (is_asked and state.updated >= since):
        return ""
    turns = f"{count('turn', len(ended))} ended. " if len(ended) > 1 else ""
    return f"You were away for {format_span(now - since)}. {turns}{_describe_rest(state)}"


def describe_resume(state: SessionState, gap: int) -> str:
    """Describe a session that was left `gap` ms ago; "" = it has no turn."""
    return f"Last used {format_span(gap)} ago. {_describe_rest(state)}" if state.turns else ""


def format_span(ms: int) -> str:
    """Format a span of time by its largest unit: "2 days", "25 minutes"."""
    minutes = max(ms // 60_000, 1)
    for unit, size in (("day", 24 * 60), ("hour", 60)):
        if minutes >= 2 * size:
            return count(unit, minutes // size)
    return count("minute", minutes)


def _describe_rest(state: SessionState) -> str:
    own_turns = [turn for turn in state.turns if turn.cause == "prompt"]
    last = f"You asked last: {_describe_turn(own_turns[-1])}." if own_turns else ""
    if state.turns and state.turns[-1].cause != "prompt" and state.turns[-1].reason == "failed":
        last = f"{last} The last turn failed.".strip()
    goal = state.goal
    if goal is not None:
        end = {"": "is being worked on", "met": "is met"}.get(goal.reason, "is not met")
        last = f"{last} The goal {end}."
    waiting = ", ".join(_list_waiting(state))
    return f"{last} {f'Waiting for you: {waiting}.' if waiting else ''}".strip()


def _describe_turn(turn: TurnState) -> str:
    prompt = to_one_line(turn.prompt).strip()
    clipped = f"{prompt[: MAX_PROMPT - 1].rstrip()}…" if len(prompt) > MAX_PROMPT else prompt
    return f'"{clipped}" ({_ENDS.get(turn.reason, "still running")})'


def _list_waiting(state: SessionState) -> Iterator[str]:
    """Yield what only the user can go on with."""
    if questions := len(state.questions):
        yield count("question", questions)
    if approvals := len(state.approvals):
        yield count("approval", approvals)
    if files := len(list_changes(state.changes)):
        yield f"{count('file', files)} to review"
    if state.pending_steers or state.draft:
        yield "a message that was not sent"
