"""Goals of a session: how they are set by a prompt, and how they end with a turn that was stopped."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from core.engine.session.session import Session
from core.errors import CommandRejected
from core.patterns import compile_lazily
from core.protocol.commands import TurnSubmit
from core.protocol.events import GoalEnd, GoalEnded, GoalSet, TurnEnd

DEFAULT_ROUNDS: Final = 10
MAX_ROUNDS: Final = 100
_CALL: Final = compile_lazily(
    r"/goal\s+(?P<condition>.+?)(?:\s+--check\s+(?P<check>.+?))?(?:\s+--rounds\s+(?P<rounds>\d{1,6}))?", re.DOTALL
)
_ENDS: Final[dict[str, tuple[GoalEnd, str]]] = {
    "interrupted": ("stopped", "The goal was stopped with the turn."),
    "limit": ("limit", "A limit of the turn is reached."),
}
USAGE: Final = "Write /goal CONDITION, and --check COMMAND if a command can tell; --rounds N limits the checks."


class GoalWish(Struct, frozen=True):
    """A goal as a prompt asks for it. `prompt`: the words for the model."""

    prompt: str
    goal: GoalSet


def parse_goal(prompt: str) -> GoalWish | None:
    """Return the goal that a `/goal` prompt sets; None: it is another prompt. Raises `CommandRejected` for a `/goal`
    without a condition."""
    text = prompt.strip()
    if text.split(maxsplit=1)[:1] != ["/goal"]:
        return None
    match = _CALL.fullmatch(text)
    if match is None or match["condition"].startswith("--"):
        raise CommandRejected("a goal needs a condition.", hint=USAGE, code="goal_incomplete")
    return build_wish(match["condition"].strip(), match["condition"], match["check"] or "", int(match["rounds"] or 0))


def find_goal(command: TurnSubmit, text: str) -> GoalWish | None:
    """Return the goal that comes with a prompt, in its words or beside them; None: there is none."""
    if command.goal:
        return build_wish(text, command.goal, command.check, command.rounds)
    return parse_goal(text)


def build_wish(prompt: str, condition: str, check: str, rounds: int) -> GoalWish:
    """Build a goal. `rounds` 0: as many as usual."""
    most = min(rounds or DEFAULT_ROUNDS, MAX_ROUNDS)
    return GoalWish(prompt, GoalSet(condition=condition.strip(), check=check.strip(), max_rounds=most))


def end_goal(session: Session, reason: TurnEnd) -> None:
    """End the goal of a session whose turn was stopped or has reached a limit. One that failed keeps its goal."""
    state = session.state
    goal, reason = state.goal, (state.turns[-1].reason or reason) if state.turns else reason
    if goal is not None and not goal.reason and reason in _ENDS:
        end, message = _ENDS[reason]
        session.emit_or_defer(GoalEnded(reason=end, message=message))
