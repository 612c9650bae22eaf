"""Noticing that a model goes in circles: the same failing call again, or arguments that are malformed as before.

A call that ran and did not get what it wanted (no such file, two places that fit, a refusal) is how a model explores:
only the same one again is a circle. Arguments of which no call can be made are the model's own fault: one fault may be
repaired twice, different ones a few times more. Whatever the circle, the model is told before the turn is stopped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from core.agent.gate import Call
from core.errors import AgentTuiError

SAME_CALL = 3
SAME_FAULT = 3  # a first attempt and two repairs
FAULTS_IN_A_ROW = 6  # steps with nothing but malformed calls, however they differ
WARNING = (
    "This is the same call that failed before. Once more and the turn is stopped: change the arguments, look at the "
    "cause with another tool, or tell the user what blocks you."
)
WARNING_OF_FORM = (
    "This is wrong in the same way as before. Once more and the turn is stopped: send exactly the arguments that the "
    "tool names, use another tool, or tell the user what blocks you."
)
WARNING_OF_ROW = (
    "No call of yours could be run for a while. Once more and the turn is stopped: tell the user what blocks you."
)
_VARIES = re.compile(r"['\"`].*?['\"`]|\d+")


class GoingInCircles(AgentTuiError):
    """The turn is stopped because the model repeats what fails."""

    code = "going_in_circles"


class Repeats:
    """Counts failures within a turn, at most one per step for the same call."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._faults: dict[tuple[str, str], int] = {}
        self._row = 0

    def note(self, calls: Sequence[Call]) -> None:
        """Take in a step's calls after they went through the gate. Raises `GoingInCircles`."""
        for key, failed in {_key(call): call.failed for call in calls}.items():
            if failed:
                self._failures[key] = self._failures.get(key, 0) + 1
            else:
                self._failures.pop(key, None)
        well_formed = {call.request.name for call in calls if not call.invalid}
        self._row = 0 if well_formed else self._row + 1
        self._faults = {fault: count for fault, count in self._faults.items() if fault[0] not in well_formed}
        for fault in {_fault(call) for call in calls if call.invalid}:
            self._faults[fault] = self._faults.get(fault, 0) + 1
        self._judge(calls)

    def _judge(self, calls: Sequence[Call]) -> None:
        for call in calls:
            name = call.request.name[:80]
            if call.invalid and self._faults.get(_fault(call), 0) >= SAME_FAULT:
                raise GoingInCircles(
                    f"Stopped: the arguments for {name} were wrong in the same way {SAME_FAULT} times in a row.",
                    hint="Send the request again, or choose another model.",
                )
            if not call.invalid and self._failures.get(_key(call), 0) >= SAME_CALL:
                raise GoingInCircles(
                    f"Stopped: the model made the same failing call of {name} {SAME_CALL} times.",
                    hint="Say what to do differently, or send the request again.",
                )
        if self._row >= FAULTS_IN_A_ROW:
            raise GoingInCircles(
                f"Stopped: none of the model's calls could be run, {self._row} times in a row.",
                hint="Send the request again, or choose another model.",
            )

    def warn(self, call: Call) -> str:
        """What to add to the answer of a call that fails as one did before, "" = nothing."""
        if call.invalid and self._faults.get(_fault(call), 0) == SAME_FAULT - 2:
            return WARNING_OF_FORM
        if call.invalid and self._row == FAULTS_IN_A_ROW - 2:
            return WARNING_OF_ROW
        return WARNING if call.failed and self._failures.get(_key(call), 0) == SAME_CALL - 2 else ""


def _key(call: Call) -> str:
    """The same for the same call, however its arguments are set out."""
    text = call.request.arguments
    try:
        text = json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        text = text.strip()
    return hashlib.sha256(f"{call.request.name}\0{text}".encode("utf-8", "replace")).hexdigest()


def _fault(call: Call) -> tuple[str, str]:
    """What is wrong with the form of a call: the tool, and the problem without what differs from one to the next."""
    return call.request.name, _VARIES.sub("…", call.text.partition("\n")[0])[:200]
