"""The goal of a session as the events tell it, and its rounds in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.patterns import compile_lazily
from core.protocol import events as ev

DEFAULT_ROUNDS: Final = 10
MAX_ROUNDS: Final = 100
USAGE: Final = "Write /goal CONDITION, and --check COMMAND if a command can tell; --rounds N limits the checks."
_WISH: Final = compile_lazily(
    r"(?P<condition>.+?)(?:\s+--check\s+(?P<check>.+?))?(?:\s+--rounds\s+(?P<rounds>\d{1,6}))?", re.DOTALL
)


class GoalWish(NamedTuple):
    """A goal as the user writes it; `rounds` 0: as many as usual."""

    condition: str
    check: str = ""
    rounds: int = 0


def parse_wish(text: str) -> GoalWish | None:
    """Parse what follows `/goal`; None: there is no condition."""
    match = _WISH.fullmatch(text.strip())
    if match is None or match["condition"].startswith("--"):
        return None
    return GoalWish(match["condition"].strip(), match["check"] or "", int(match["rounds"] or 0))


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
