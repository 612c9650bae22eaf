"""Standard input, read to its end. Who leaves it open without a word is told what the program waits for."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import BinaryIO, Final

PATIENCE: Final = 2.0  # seconds until it is said what is waited for
_CHUNK: Final = 65_536
_NOTICE: Final = (
    "! Waiting for the end of standard input, which whoever started this has left open. Nothing to send? "
    "Start it with </dev/null.\n"
)


def read_input(source: BinaryIO, limit: int = -1) -> bytes:
    """Return the bytes of `source`, at most `limit` (-1: all of them). A pipe that does not block is waited for, and
    one that stays open for `PATIENCE` seconds is spoken of on standard error."""
    try:
        descriptor = source.fileno()
    except (io.UnsupportedOperation, AttributeError):  # no file
        return source.read(limit)
    if os.isatty(descriptor):
        return source.read(limit)
    return _read_to_end(descriptor, limit)


def _read_to_end(descriptor: int, limit: int) -> bytes:
    buffer = bytearray()
    patience: float | None = PATIENCE
    while limit < 0 or len(buffer) < limit:
        if not select.select([descriptor], [], [], patience)[0]:
            sys.stderr.write(_NOTICE)
            sys.stderr.flush()
            patience = None  # said once
            continue
        try:
            chunk = os.read(descriptor, _CHUNK if limit < 0 else min(_CHUNK, limit - len(buffer)))
        except BlockingIOError:
            continue
        if not chunk:
            break
        buffer += chunk
    return bytes(buffer)
