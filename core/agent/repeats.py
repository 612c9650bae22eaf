"""Noticing that a model goes in circles: the same failing call again, or one tool's arguments wrong over and over."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from core.agent.gate import Call
from core.errors import AgentTuiError

SAME_CALL = 3
INVALID_ROUNDS = 3  # a first attempt and two repairs
WARNING = (
    "This is the same call that failed before. Once more and the turn is stopped: change the arguments, look at the "
    "cause with another tool, or tell the user what blocks you."
)


class GoingInCircles(AgentTuiError):
    """The turn is stopped because the model repeats what fails."""

    code = "going_in_circles"


class Repeats:
    """Counts failures within a turn, at most one per step for the same call."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._invalid: dict[str, int] = {}

    def note(self, calls: Sequence[Call]) -> None:
        """Take in a step's calls after they went through the gate. Raises `GoingInCircles`."""
        seen: set[str] = set()
        for call in calls:
            key = _key(call)
            if key in seen:
                continue
            seen.add(key)
            if call.failed:
                self._failures[key] = self._failures.get(key, 0) + 1
            else:
                self._failures.pop(key, None)
        for name in {call.request.name for call in calls}:
            wrong = [call.invalid for call in calls if call.request.name == name]
            self._invalid[name] = self._invalid.get(name, 0) + 1 if all(wrong) else 0
        self._judge(calls)

    def _judge(self, calls: Sequence[Call]) -> None:
        for call in calls:
            name = call.request.name[:80]
            if self._failures.get(_key(call), 0) >= SAME_CALL:
                raise GoingInCircles(
                    f"Stopped: the model made the same failing call of {name} {SAME_CALL} times.",
                    hint="Say what to do differently, or send the request again.",
                )
            if self._invalid.get(call.request.name, 0) >= INVALID_ROUNDS:
                raise GoingInCircles(
                    f"Stopped: the arguments for {name} were wrong {INVALID_ROUNDS} times in a row.",
                    hint="Send the request again, or choose another model.",
                )

    def warn(self, call: Call) -> str:
        """What to add to the answer of a call that fails as it did before, "" = nothing."""
        return WARNING if call.failed and self._failures.get(_key(call), 0) == SAME_CALL - 2 else ""


def _key(call: Call) -> str:
    text = f"{call.request.name}\0{call.request.arguments}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
