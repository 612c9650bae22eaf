"""The two clocks: `now_ms` stamps events, `monotonic` measures time-outs and durations (it never jumps), by which
`pause` waits."""

from __future__ import annotations

import asyncio
import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds on a clock that only goes forward."""
    return time.monotonic()


async def pause(seconds: float) -> None:
    """Let so much time go by."""
    await asyncio.sleep(seconds)
