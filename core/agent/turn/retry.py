"""Backoff of failed model calls: growing, jittered pauses, within a total budget, and visibly.

A server that has answered before is waited for as long as a restart may take; one that never has is most likely not
started. What was cut in the middle is paid for each time, so its attempts are counted as well.
"""

from __future__ import annotations

import random
from typing import Final

from msgspec import Struct, field

from core.clock import monotonic
from core.errors import ProviderError
from core.providers.connection.failures import LONG_WAIT, format_duration

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 20.0
FLOOR: Final = 0.5  # seconds that lie between two attempts whatever a server says
BUDGET: Final = 90.0  # seconds from the first failure of a step to the last attempt
UNREACHABLE_BUDGET: Final = 2.5  # the same for a server that has not answered yet
UNANSWERED: Final = frozenset({"unreachable", "tls_failed"})  # nothing that knows a model has said anything
PAID_CODES: Final = frozenset({"stream_cut", "stalled", "stream_invalid", "call_malformed"})
MAX_PAID_ATTEMPTS: Final = 6


class Backoff(Struct, eq=False, kw_only=True):
    """The pauses of one step, within `budget` seconds. `has_answered`: this server has answered before."""

    has_answered: bool = False
    budget: float = BUDGET
    attempt: int = 1
    _paid_count: int = 0
    _first_failures: dict[bool, float] = field(default_factory=dict)

    def compute_pause(self, error: ProviderError) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up; the error's hint then says why."""
        now, absent = monotonic(), error.code in UNANSWERED and not self.has_answered
        remaining_time = (
            self._first_failures.setdefault(absent, now) + (UNREACHABLE_BUDGET if absent else self.budget) - now
        )
        self.has_answered = self.has_answered or error.code not in UNANSWERED
        self._paid_count += error.code in PAID_CODES
        pause = min(FIRST_PAUSE * 2.0 ** (self.attempt - 1), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        pause = max(pause, FLOOR, error.retry_after or 0.0)
        is_too_long = error.retry_after is not None and error.retry_after > remaining_time
        if not error.retryable:
            return None
        if is_too_long or self._paid_count >= MAX_PAID_ATTEMPTS or remaining_time < FLOOR:
            error.hint = self._format_give_up(error, now)
            return None
        self.attempt += 1
        return min(pause, remaining_time)

    def _format_give_up(self, error: ProviderError, now: float) -> str:
        attempt_note = ""
        if self.attempt > 1:
            attempt_note = f"It was tried {self.attempt} times in {now - min(self._first_failures.values()):.0f} s. "
        if (wait := error.retry_after) is not None and wait >= LONG_WAIT:
            asks = f"It asks to be left alone for {format_duration(wait)}."
            limit_note = f"At most {self.budget:.0f} s are waited for a model. "
            return f"{asks} {limit_note}{attempt_note}Send the prompt again then, or choose another model with /model."
        return f"{attempt_note}{error.hint}"
