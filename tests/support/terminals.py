"""Pseudo-terminals that a test reads from."""

from __future__ import annotations

import os
import select


def all_of(terminal: int) -> bytes:
    """What is written to a terminal until its other side is closed. Closes it."""
    shown = b""
    while select.select([terminal], [], [], 50)[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(terminal)
    return shown
