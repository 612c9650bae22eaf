"""Identifiers that sort by time or are random. Each is valid as a file name.

Ids of sessions, agents, layers, checkpoints and blobs become names of files and directories. Their records come from
disks, databases and clients, so their fields have one of the types here, and decoding refuses any other id. Ids that a
model chooses (of todos, options, hypotheses) never become file names.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import Annotated, Final

from msgspec import Meta

from core.patterns import compile_lazily

# `$` also matches before a final line feed, hence the lookahead. Device names are no valid file names on Windows.
_DEVICE: Final = r"[cC][oO][nN]|[pP][rR][nN]|[aA][uU][xX]|[nN][uU][lL]|(?:[cC][oO][mM]|[lL][pP][tT])[0-9]"
_RESERVED: Final = rf"(?!(?:{_DEVICE})(?:\.|$))"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?"
ID_PATTERN: Final = rf"^{_RESERVED}{_NAME}$(?!\n)"
OPTIONAL_ID_PATTERN: Final = rf"^(?:{_RESERVED}{_NAME})?$(?!\n)"

Id = Annotated[str, Meta(pattern=ID_PATTERN)]
OptionalId = Annotated[str, Meta(pattern=OPTIONAL_ID_PATTERN)]  # "" = none
DraftName = Annotated[str, Meta(pattern=rf"^\.{_NAME}$(?!\n)")]  # of a temporary file next to its target

_ID: Final = compile_lazily(ID_PATTERN)
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class _Clock:
    """The time in ms, strictly increasing: within a millisecond, or after the clock was set back, it counts up."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def read(self) -> int:
        with self._lock:
            self._last = max(time.time_ns() // 1_000_000, self._last + 1)
            return self._last


_clock = _Clock()


def new_id(prefix: str) -> str:
    """Return `<prefix>_<16 characters>`: 9 of time (ms, Crockford base 32), 7 random. Ids sort by creation time,
    strictly within one process."""
    import secrets

    stamp = _clock.read()
    digits = []
    for _ in range(9):
        digits.append(_ALPHABET[stamp & 31])
        stamp >>= 5
    tail = "".join(secrets.choice(_ALPHABET) for _ in range(7))
    return f"{prefix}_{''.join(reversed(digits))}{tail}"


def is_id(text: str) -> bool:
    """Return True if a text is a valid id: one name, and a path in no system."""
    return _ID.match(text) is not None
