"""Goals of a session: how a prompt sets one, and how it ends with a turn that was stopped."""

from __future__ import annotations

from typing import Final

from core.engine.session.session import Session
from core.protocol.commands import TurnSubmit
from core.protocol.events import GoalEnd, GoalEnded, GoalSet, TurnEnd
from core.state.goals import DEFAULT_ROUNDS, MAX_ROUNDS

_ENDS: Final[dict[str, tuple[GoalEnd, str]]] = {
    "interrupted": ("stopped", "The goal was stopped with the turn."),
    "limit": ("limit", "A limit of the turn is reached."),
}


def build_goal(command: TurnSubmit) -> GoalSet | None:
    """Build the goal that comes with a prompt; None: there is none. It is never read from the words of a prompt: these
    come from clients that may not run commands."""
    if not command.goal.strip():
        return None
    most = min(command.rounds or DEFAULT_ROUNDS, MAX_ROUNDS)
    return GoalSet(condition=command.goal.strip(), check=command.check.strip(), max_rounds=most)


def end_goal(session: Session, reason: TurnEnd) -> None:
    """End the goal of a session whose turn was stopped or has reached a limit. One that failed keeps its goal."""
    state = session.state
    goal, reason = state.goal, (state.turns[-1].reason or reason) if state.turns else reason
    if goal is not None and not goal.reason and reason in _ENDS:
        end, message = _ENDS[reason]
        session.emit_or_defer(GoalEnded(reason=end, message=message))
