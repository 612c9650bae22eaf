"""When a failed model call is tried again: after growing, jittered pauses, within a total budget, and visibly."""

from __future__ import annotations

import random

from core.clock import monotonic
from core.errors import ProviderError

MAX_ATTEMPTS = 6
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 20.0
BUDGET = 90.0  # seconds from the first failure of a step to the last pause's end
UNREACHABLE_BUDGET = 2.5  # the same where nobody answers at all: waiting long helps nobody who forgot to start a server


class Backoff:
    """The pauses of one step. `Retry-After` is honoured when it fits into the budget."""

    def __init__(self) -> None:
        self.attempt = 1
        self._since: dict[bool, float] = {}

    def pause(self, error: ProviderError) -> float | None:
        """Seconds to wait before the next attempt; None: give up."""
        now = monotonic()
        unreachable = error.code == "unreachable"
        deadline = self._since.setdefault(unreachable, now) + (UNREACHABLE_BUDGET if unreachable else BUDGET)
        if not error.retryable or self.attempt >= MAX_ATTEMPTS:
            return None
        pause = min(FIRST_PAUSE * 2.0 ** (self.attempt - 1), LONGEST_PAUSE)
        pause *= random.uniform(0.75, 1.25)
        if error.retry_after is not None:
            pause = max(error.retry_after, 0.0)
        if now + pause > deadline:
            return None
        self.attempt += 1
        return pause
