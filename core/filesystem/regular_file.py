"""Reading a file that somebody named: a pipe or a device in its place is refused, not waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular_file(path: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file. Raises OSError, with "not a regular file" for another kind."""
    return read_open_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), limit)


def read_open_file(descriptor: int, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file that is open, opened with `O_NONBLOCK`, and close it. Raises
    OSError as `read_regular_file` does.

    `os.fdopen` refuses a directory by itself, and leaves the descriptor open.
    """
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)
