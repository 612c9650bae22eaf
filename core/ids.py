"""Identifiers: sortable by time where it helps a reader, random where they only have to differ."""

from __future__ import annotations

import secrets
import time
from threading import Lock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class _Clock:
    """The time in ms, later at each reading: within a millisecond, and after the clock was set back, it counts on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def read(self) -> int:
        with self._lock:
            self._last = max(time.time_ns() // 1_000_000, self._last + 1)
            return self._last


_clock = _Clock()


def new_id(prefix: str) -> str:
    """Return `<prefix>_<16 characters>`: 9 of time (ms, Crockford base 32), 7 random; sorts by creation time, strictly
    within one process."""
    stamp = _clock.read()
    digits = []
    for _ in range(9):
        digits.append(_ALPHABET[stamp & 31])
        stamp >>= 5
    tail = "".join(secrets.choice(_ALPHABET) for _ in range(7))
    return f"{prefix}_{''.join(reversed(digits))}{tail}"
