"""Rights that a file gives to whoever runs it, in directories that commands wrote: they are taken, or the file is.

In the box such a file gives nothing (its mounts say so); where it is kept it lies on the machine's own disk.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.filesystem.open_beneath import DIRECTORY

_PRIVILEGES: Final = stat.S_ISUID | stat.S_ISGID
_CAPABILITIES: Final = "security.capability"


def strip_privileges(top: Path) -> int:
    """Take setuid and setgid bits and capabilities from all below a directory, and device nodes away; return of how
    many. All is done by descriptors and through no link; what another program removes meanwhile is passed over."""
    count = 0
    with suppress(OSError):
        for _, names, files, directory in os.fwalk(top, follow_symlinks=False, onerror=None):
            if os.fstat(directory).st_mode & _PRIVILEGES:
                os.fchmod(directory, stat.S_IMODE(os.fstat(directory).st_mode) & ~_PRIVILEGES)
                count += 1
            count += sum(_strip_file(directory, name) for name in (*files, *names))
    return count


def _strip_file(directory: int, name: str) -> bool:
    with suppress(OSError):
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode) or stat.S_ISLNK(mode):  # a directory has its own turn
            return False
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            os.unlink(name, dir_fd=directory)
            return True
        if mode & _PRIVILEGES or (stat.S_ISREG(mode) and mode & 0o111 and _has_capabilities(directory, name)):
            _make_plain(directory, name)
            return True
    return False


def _has_capabilities(directory: int, name: str) -> bool:
    if not hasattr(os, "getxattr"):
        return False
    with suppress(OSError):
        return bool(os.getxattr(f"/proc/self/fd/{directory}/{name}", _CAPABILITIES, follow_symlinks=False))
    return False


def _make_plain(directory: int, name: str) -> None:
    """Take the rights of one file; where it can't be opened as that, the file goes: it is one of a cache."""
    try:
        descriptor = os.open(name, DIRECTORY & ~os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        os.unlink(name, dir_fd=directory)
        return
    try:
        mode = os.fstat(descriptor).st_mode
        os.fchmod(descriptor, stat.S_IMODE(mode) & ~_PRIVILEGES)
        if stat.S_ISREG(mode):
            with suppress(OSError):
                os.removexattr(descriptor, _CAPABILITIES)
    finally:
        os.close(descriptor)
