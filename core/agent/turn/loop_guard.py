"""The loop guard: stops a turn in which a model repeats failing calls, malformed arguments or poor answers.

Failing calls are how a model explores, so only the repetition of the same call is a loop. Malformed arguments are the
model's fault: the same fault may be repaired twice, different faults a few times more. The model is warned before the
turn is stopped. Empty and truncated answers, and answers outside the form of the dialect, are bounded as well.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from core.agent.answer.receiver import ModelAnswer
from core.agent.base.budget import LimitReached
from core.agent.base.routes import TurnRoutes
from core.agent.context.reminders import append_reminder
from core.agent.gate.gated_call import GatedCall
from core.errors import AgentTuiError, ProviderError
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol.events import AnyEvent, MessageAppended
from core.protocol.messages import UserMessage
from core.records import parse_json
from core.state.session import SessionState
from core.text.display_names import shorten_model

MAX_NUDGES = 2  # empty or truncated answers in a turn after which the model is asked to continue
MAX_PAUSES = 8  # in a turn
MAX_OBJECTIONS = 4  # answers in a row that are not in the form of the model's dialect
MAX_SAME_CALL = 3
MAX_SAME_FAULT = 3  # a first attempt and two repairs
MAX_FAULTS_IN_A_ROW = 6  # steps with nothing but malformed calls, however they differ
SAME_CALL_WARNING = (
    "This is the same call that failed before. If it fails once more, the turn is stopped: change the "
    "arguments, look for the cause with another tool, or tell the user what blocks you."
)
SAME_FAULT_WARNING = (
    "This call has the same mistake as before. If it happens once more, the turn is stopped: send "
    "exactly the arguments that the tool names, use another tool, or tell the user what blocks you."
)
FAULT_ROW_WARNING = (
    "None of your recent calls could run. If it happens once more, the turn is stopped: tell the user what blocks you."
)
_TAIL = 2_000  # characters of a text that are looked at for repetition
_REPETITION = 0.08  # share that is left of a repetition when it is compressed; that of a long table is twice as much
_VARIES = compile_lazily(r"['\"`].*?['\"`]|\d+")


class LoopDetected(AgentTuiError):
    """The model repeats failing calls or answers, so the turn is stopped."""

    code = "going_in_circles"


class LoopGuard(Struct, eq=False):
    """Counts failing calls and poor answers of a turn; the same call counts once per step."""

    _state: SessionState
    _routes: TurnRoutes
    _emit: Callable[[AnyEvent], None]
    _nudge_count: int = 0
    _objection_count: int = 0
    _pause_count: int = 0
    _failures: dict[str, int] = field(default_factory=dict)
    _faults: dict[tuple[str, str], int] = field(default_factory=dict)
    _fault_row: int = 0

    def record_calls(self, calls: Sequence[GatedCall]) -> None:
        """Count the calls of a step that has run. Raises `LoopDetected`."""
        for key, has_failed in {_hash_call(call): call.has_failed for call in calls}.items():
            if has_failed:
                self._failures[key] = self._failures.get(key, 0) + 1
            else:
                self._failures.pop(key, None)
        self._objection_count = 0
        well_formed_names = {call.request.name for call in calls if not call.is_malformed}
        self._fault_row = 0 if well_formed_names else self._fault_row + 1
        self._faults = {fault: count for fault, count in self._faults.items() if fault[0] not in well_formed_names}
        for fault in {_describe_fault(call) for call in calls if call.is_malformed}:
            self._faults[fault] = self._faults.get(fault, 0) + 1
        self._check_loops(calls)

    def _check_loops(self, calls: Sequence[GatedCall]) -> None:
        for call in calls:
            name = call.request.name[:80]
            if call.is_malformed and self._faults.get(_describe_fault(call), 0) >= MAX_SAME_FAULT:
                raise LoopDetected(
                    f"Stopped: the arguments for {name} had the same mistake {MAX_SAME_FAULT} times in a row.",
                    hint="Send the request again, or choose another model.",
                )
            if not call.is_malformed and self._failures.get(_hash_call(call), 0) >= MAX_SAME_CALL:
                raise LoopDetected(
                    f"Stopped: the model made the same failing call to {name} {MAX_SAME_CALL} times.",
                    hint="Say what to do differently, or send the request again.",
                )
        if self._fault_row >= MAX_FAULTS_IN_A_ROW:
            raise LoopDetected(
                f"Stopped: none of the model's calls could run, {self._fault_row} times in a row.",
                hint="Send the request again, or choose another model.",
            )

    def get_warning(self, call: GatedCall) -> str:
        """Return the warning for a call that repeats an earlier failure, "" = none."""
        if call.is_malformed and self._faults.get(_describe_fault(call), 0) == MAX_SAME_FAULT - 2:
            return SAME_FAULT_WARNING
        if call.is_malformed and self._fault_row == MAX_FAULTS_IN_A_ROW - 2:
            return FAULT_ROW_WARNING
        is_repeated = call.has_failed and self._failures.get(_hash_call(call), 0) == MAX_SAME_CALL - 2
        return SAME_CALL_WARNING if is_repeated else ""

    # answers without calls

    def should_continue(self, answer: ModelAnswer) -> bool:
        """True if the turn continues after an answer without calls. Raises `ProviderError`, `LoopDetected`, and
        `LimitReached` for an answer that is cut off again and again."""
        if self._state.pending_steers or self._state.unreported_answers:
            return True
        if answer.reason == "refused":
            hint = "Rephrase it, or choose another model with /model."
            raise ProviderError(f"{self._routes.current.id} refused to answer.", code="model_refused", hint=hint)
        if answer.reason == "paused":
            return self._count_pause()
        is_empty, is_cut = not answer.message.content.strip(), answer.reason in {"length", "context_full"}
        if is_cut and repeats_itself(answer.message.content):
            name = shorten_model(self._routes.current.id)
            raise LoopDetected(
                f"Stopped: {name} repeated the same words until its answer was cut off.",
                hint="Say what to do differently, or choose another model.",
            )
        if is_empty or is_cut:
            return self._nudge("truncated" if is_cut else "empty", is_empty=is_empty)
        if answer.is_over or not answer.problem:
            return False
        self._object_to_form(answer.problem)
        return True

    def _count_pause(self) -> bool:
        """Count a pause of the model's server, which continues when the answer is sent back."""
        self._pause_count += 1
        if self._pause_count > MAX_PAUSES:
            raise LoopDetected(
                f"Stopped: the model's server paused {self._pause_count} times in this turn.",
                hint="Send another message to continue.",
            )
        return True

    def _nudge(self, name: str, *, is_empty: bool) -> bool:
        self._nudge_count += 1
        if self._nudge_count <= MAX_NUDGES:
            append_reminder(self._emit, render(f"reminders/{name}", call=False))
            return True
        if is_empty:
            message = f"{self._routes.current.id} returned nothing, {self._nudge_count} times in a row."
            hint = "Send it again, or choose another model with /model."
            raise ProviderError(message, code="empty_answer", hint=hint)
        model = shorten_model(self._routes.current.id)
        raise LimitReached(
            f"The answer of {model} is not complete: it was cut off at its greatest length, {self._nudge_count} times.",
            hint="Send another message to continue, or ask for less at once.",
        )

    def _object_to_form(self, problem: str) -> None:
        self._objection_count += 1
        if self._objection_count >= MAX_OBJECTIONS:
            raise LoopDetected(
                f"Stopped: {self._objection_count} answers in a row were not in the requested form.",
                hint=f"Choose another model, or another dialect for {self._routes.current.id} in your configuration.",
            )
        self._emit(MessageAppended(message=UserMessage(content=problem, origin="program")))


def repeats_itself(text: str) -> bool:
    """Return True if the end of a text says the same words over and over, which a small model can't stop."""
    tail = text[-_TAIL:].encode("utf-8", "replace")
    return len(tail) >= _TAIL and len(zlib.compress(tail)) < len(tail) * _REPETITION


def _hash_call(call: GatedCall) -> str:
    """Return a digest of a call that does not depend on the formatting of its arguments."""
    text = call.request.arguments
    try:
        text = json.dumps(parse_json(text), sort_keys=True)
    except (ValueError, RecursionError):
        text = text.strip()
    return hashlib.sha256(f"{call.request.name}\0{text}".encode("utf-8", "replace")).hexdigest()


def _describe_fault(call: GatedCall) -> tuple[str, str]:
    """Return the tool and the first line of its error without quoted values and numbers."""
    return call.request.name, _VARIES.sub("…", call.text.partition("\n")[0])[:200]
