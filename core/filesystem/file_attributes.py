"""Owner, extended attributes and privileges of files: copied to a replacement, or taken from what commands wrote.

A replacement gets only the user's own attribute names and the access list (xattr(7), acl(5)): `security.capability` was
granted to the old content, and the marks of overlay file systems are no content. Files with setuid or setgid bits or
capabilities are harmless in a box, whose mounts ignore them, but not in a cache, which is on the machine's own disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from core.filesystem.open_beneath import DIRECTORY

_ACCESS_LIST: Final = "system.posix_acl_access"
_USERS: Final = "user."
_OVERLAY: Final = "user.overlay."
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVILEGES: Final = stat.S_ISUID | stat.S_ISGID
_CAPABILITIES: Final = "security.capability"


def copy_owner(directory: int, name: bytes, temporary: bytes) -> None:
    """Copy the owner of a file to the temporary file that will replace it, if this user may."""
    with suppress(OSError):
        old = os.stat(name, dir_fd=directory, follow_symlinks=False)
        new = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.chown(temporary, old.st_uid, old.st_gid, dir_fd=directory, follow_symlinks=False)


def copy_attributes(directory: int, source: bytes, target: bytes, mode: int) -> None:
    """Copy the attributes of one file in an open directory to another, and set its permissions to `mode`.

    Only regular files have attributes, and file systems without them are ignored. Raises OSError if the permissions
    can't be set.
    """
    if not hasattr(os, "listxattr"):  # on macOS Python lacks these calls
        return
    with _open_file(directory, source) as old, _open_file(directory, target) as new:
        if old is None or new is None:
            return
        names: list[str] = []
        with suppress(OSError):
            names = [name for name in os.listxattr(old) if _is_copied(name)]
        if not names:
            return
        os.fchmod(new, 0o600)  # user attributes need write permission
        for name in names:
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))
        os.fchmod(new, mode & 0o777)  # last, since the group's permissions are the mask of the access list


def _is_copied(name: str) -> bool:
    return name == _ACCESS_LIST or (name.startswith(_USERS) and not name.startswith(_OVERLAY))


@contextmanager
def _open_file(directory: int, name: bytes) -> Iterator[int | None]:
    """Open a regular file for reading; yield None if there is none, or it can't be opened."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=directory)
    except OSError:
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def strip_privileges(top: Path) -> int:
    """Remove setuid and setgid bits, capabilities and device nodes below a directory; return their number. Works by
    descriptors without following links; files that vanish meanwhile are skipped."""
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
        if stat.S_ISDIR(mode) or stat.S_ISLNK(mode):  # directories are handled by the walk
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
    """Remove the privileges of one file; a file that can't be opened is deleted, since it belongs to a cache."""
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
