"""Identifiers: sortable by time where it helps a reader, random where they only have to differ."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """Return `<prefix>_<16 characters>`: 9 of time (ms, Crockford base 32), 7 random; sorts by creation time."""
    stamp = time.time_ns() // 1_000_000
    digits = []
    for _ in range(9):
        digits.append(_ALPHABET[stamp & 31])
        stamp >>= 5
    tail = "".join(secrets.choice(_ALPHABET) for _ in range(7))
    return f"{prefix}_{''.join(reversed(digits))}{tail}"
