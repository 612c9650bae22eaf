"""The goal of a session as the events tell it, and its rounds in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.protocol import events as ev


@dataclass(slots=True, kw_only=True)
class GoalState:
    """The goal of a session, with its checks so far; `reason` is "" while it is pursued."""

    condition: str
    check: str = ""
    max_rounds: int
    started: int = 0
    rounds: list[ev.GoalChecked] = field(default_factory=list)
    reason: str = ""
    message: str = ""


def format_check(check: ev.GoalChecked) -> str:
    """Format one check of a goal as a line."""
    return f"goal, round {check.round}: {'met' if check.outcome == 'met' else 'not met'}: {check.summary}"


def format_end(end: ev.GoalEnded) -> str:
    """Format the end of a goal as a sentence or two."""
    return end.message if end.reason == "met" else f"The goal is not met. {end.message}".rstrip()


def list_rounds(goal: GoalState) -> str:
    """List the rounds of a goal in a sentence."""
    rounds = "; ".join(f"round {check.round}, {check.summary}" for check in goal.rounds)
    return f"Tried: {rounds}." if rounds else ""
