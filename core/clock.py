"""The two clocks: `now_ms` stamps events; `monotonic` measures time-outs and durations, and never jumps."""

from __future__ import annotations

import asyncio
import time


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Return seconds on a monotonic clock."""
    return time.monotonic()


async def pause(seconds: float) -> None:
    """Sleep for `seconds`."""
    await asyncio.sleep(seconds)
