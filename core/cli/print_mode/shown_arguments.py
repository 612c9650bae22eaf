"""Hide the prompt in the command line of this process, which `ps` shows to everybody on the machine.

The system shows the arguments in the process's own memory. So the prompt is overwritten there as soon as it is known, a
fraction of a second after the start. A prompt from standard input never appears there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/stat")
_BEGIN, _END = 45, 46  # indexes of `arg_start` and `arg_end` after the name, which may have spaces
_MAX_BYTES: Final = 8 << 20
_COVER: Final = b"*"


def hide_arguments(*texts: str) -> bool:
    """Overwrite every argument of this process that is one of these texts, or an option with it. Returns True if none
    of them is visible any more; False if the system has no such memory or keeps a copy."""
    encoded_texts = [os.fsencode(text) for text in texts if text]
    if not encoded_texts:
        return True
    region = _find_memory()
    if region is None:
        return False
    begin, size = region
    buffer = bytearray(ctypes.string_at(begin, size))
    offset = 0
    for argument in bytes(buffer).split(b"\0"):
        for text in encoded_texts:
            if argument == text or (argument.startswith(b"-") and argument.endswith(text)):
                end = offset + len(argument)
                buffer[end - len(text) : end] = _COVER * len(text)
        offset += len(argument) + 1
    ctypes.memmove(begin, bytes(buffer), size)
    return True


def _find_memory() -> tuple[int, int] | None:
    """Return the address of the arguments in this process's memory, and their size in bytes."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        fields = _STATUS.read_bytes().rpartition(b")")[2].split()
        begin, end = int(fields[_BEGIN]), int(fields[_END])
    except (OSError, ValueError, IndexError):
        return None
    return (begin, end - begin) if begin and 0 < end - begin <= _MAX_BYTES else None
