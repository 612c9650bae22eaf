"""The two clocks: `now_ms` stamps events, `monotonic` measures time-outs and durations (it never jumps)."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds on a clock that only goes forward."""
    return time.monotonic()
