"""When a failed model call is tried again: after growing, jittered pauses, within a total budget, and visibly.

A server that has answered before is waited for as long as a restart or a busy minute may take. One that nobody answers
at, and that never has, is most likely not started: waiting helps nobody. What was cut in the middle is paid for each
time, so its attempts are counted as well.
"""

from __future__ import annotations

import random
from typing import Final

from core.clock import monotonic
from core.errors import ProviderError
from core.protocol.events import StepRetried
from core.providers.connection.failures import LONG_WAIT, duration

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 20.0
FLOOR: Final = 0.5  # seconds that lie between two attempts whatever a server says
BUDGET: Final = 90.0  # seconds from the first failure of a step to the last attempt
UNREACHABLE_BUDGET: Final = 2.5  # the same for a server that has not answered yet
PAID: Final = frozenset({"stream_cut", "stalled", "stream_invalid", "call_malformed"})
PAID_ATTEMPTS: Final = 6


class Backoff:
    """The pauses of one step. `answered`: this server has answered before. `Retry-After` is honoured when it fits into
    the budget (seconds)."""

    def __init__(self, *, answered: bool = False, budget: float = BUDGET) -> None:
        self.attempt = 1
        self._answered = answered
        self._budget = budget
        self._paid = 0
        self._since: dict[bool, float] = {}

    def pause(self, error: ProviderError) -> float | None:
        """Seconds to wait before the next attempt; None: give up. The error then says why, and what was tried."""
        now, absent = monotonic(), error.code == "unreachable" and not self._answered
        left = self._since.setdefault(absent, now) + (UNREACHABLE_BUDGET if absent else self._budget) - now
        self._answered = self._answered or error.code != "unreachable"
        self._paid += error.code in PAID
        pause = min(FIRST_PAUSE * 2.0 ** (self.attempt - 1), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        pause = max(pause, FLOOR, error.retry_after or 0.0)
        asked = error.retry_after is not None and error.retry_after > left
        if not error.retryable:
            return None
        if asked or self._paid >= PAID_ATTEMPTS or left < FLOOR:
            error.hint = self._gave_up(error, now)
            return None
        self.attempt += 1
        return min(pause, left)

    def _gave_up(self, error: ProviderError, now: float) -> str:
        """The hint of an error after which nothing is tried again."""
        tried = ""
        if self.attempt > 1:
            tried = f"It was tried {self.attempt} times in {now - min(self._since.values()):.0f} s. "
        if (wait := error.retry_after) is not None and wait >= LONG_WAIT:
            asks = (
                f"It asks to be left alone for {duration(wait)}. At most {self._budget:.0f} s are waited for a model. "
            )
            return f"{asks}{tried}Send the prompt again then, or choose another model with /model."
        return f"{tried}{error.hint}"


def retried(step: int, attempt: int, wait: float, error: ProviderError, void: tuple[str, ...]) -> StepRetried:
    """What is told of an attempt that failed, before the next one begins in `wait` seconds."""
    delay = round(wait * 1000)
    return StepRetried(
        step=step, attempt=attempt, delay_ms=delay, message=error.message, code=error.code, void_documents=void
    )
