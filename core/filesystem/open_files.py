"""Reading regular files by name, and detecting that an open file has lost its name or is locked.

A pipe or a device in place of a file is refused, not waited for. Writing to a file that was removed or replaced
succeeds, but the data is lost.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path


def read_regular_file(path: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file. Raises OSError, with "not a regular file" for another kind."""
    return read_open_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), limit)


def read_open_file(descriptor: int, limit: int) -> bytes:
    """Return the first `limit` bytes of an open regular file, opened with `O_NONBLOCK`, and close it. Raises OSError as
    `read_regular_file` does.

    `os.fdopen` would refuse a directory itself, and leave the descriptor open.
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


def explain_displaced(descriptor: int, path: Path) -> str | None:
    """Explain how an open file lost its name, as the continuation of a sentence that begins with its path; None: it did
    not."""
    try:
        open_stat = os.fstat(descriptor)
        path_stat = path.lstat()
    except FileNotFoundError:
        return "was removed" if open_stat.st_nlink == 0 else "was moved away, or its directory was"
    except OSError as error:
        return f"can't be reached any more ({error.strerror})"
    if (open_stat.st_dev, open_stat.st_ino) != (path_stat.st_dev, path_stat.st_ino):
        return "was replaced by another file"
    return None


def lacks_locks(error: OSError) -> bool:
    """True if a lock failed because the file system has none, as some network file systems."""
    return error.errno in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def is_lock_held(path: Path, *, absent: bool = False) -> bool:
    """True if any process, this one included, has locked a file or directory for itself alone. `absent`: the result for
    one that can't be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return absent
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
