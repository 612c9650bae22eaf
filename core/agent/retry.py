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

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 20.0
FLOOR: Final = 0.5  # seconds that lie between two attempts whatever a server says
BUDGET: Final = 90.0  # seconds from the first failure of a step to the last attempt
UNREACHABLE_BUDGET: Final = 2.5  # the same for a server that has not answered yet
PAID: Final = frozenset({"stream_cut", "stalled", "stream_invalid"})
PAID_ATTEMPTS: Final = 6


class Backoff:
    """The pauses of one step. `answered`: this server has answered before. `Retry-After` is honoured when it fits into
    the budget."""

    def __init__(self, *, answered: bool = False) -> None:
        self.attempt = 1
        self._answered = answered
        self._paid = 0
        self._since: dict[bool, float] = {}

    def pause(self, error: ProviderError) -> float | None:
        """Seconds to wait before the next attempt; None: give up."""
        now, absent = monotonic(), error.code == "unreachable" and not self._answered
        left = self._since.setdefault(absent, now) + (UNREACHABLE_BUDGET if absent else BUDGET) - now
        self._answered = self._answered or error.code != "unreachable"
        self._paid += error.code in PAID
        pause = min(FIRST_PAUSE * 2.0 ** (self.attempt - 1), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        pause = max(pause, FLOOR, error.retry_after or 0.0)
        asked = error.retry_after is not None and error.retry_after > left
        if not error.retryable or asked or self._paid >= PAID_ATTEMPTS or left < FLOOR:
            return None
        self.attempt += 1
        return min(pause, left)
