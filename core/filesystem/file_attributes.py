"""Owner, extended attributes and access list of a file, which stay when another one takes its place.

Only the user's own names and the access list are copied (xattr(7), acl(5)). What gives rights to a program
(`security.capability`) was given to the old content, and the marks of overlay file systems are no content at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_ACCESS_LIST: Final = "system.posix_acl_access"
_USERS: Final = "user."
_OVERLAY: Final = "user.overlay."
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def keep_owner(directory: int, name: bytes, temporary: bytes) -> None:
    """Give the new file the owner of the one that it replaces, as far as this user may."""
    with suppress(OSError):
        old = os.stat(name, dir_fd=directory, follow_symlinks=False)
        new = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.chown(temporary, old.st_uid, old.st_gid, dir_fd=directory, follow_symlinks=False)


def copy_attributes(directory: int, source: bytes, target: bytes, mode: int) -> None:
    """Copy the attributes of one file in an open directory to another, which has the permissions `mode` afterwards.

    What is no regular file has none, and where the file system has no such thing, nothing is done. Raises OSError if
    the permissions can't be set.
    """
    if not hasattr(os, "listxattr"):  # macOS, where Python offers no such calls
        return
    with _open_file(directory, source) as old, _open_file(directory, target) as new:
        if old is None or new is None:
            return
        names: list[str] = []
        with suppress(OSError):
            names = [name for name in os.listxattr(old) if _is_copied(name)]
        if not names:
            return
        os.fchmod(new, 0o600)  # a name of the user's is written by who may write the file
        for name in names:
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))
        os.fchmod(new, mode & 0o777)  # the last, since the mask of an access list stands for the group's permissions


def _is_copied(name: str) -> bool:
    return name == _ACCESS_LIST or (name.startswith(_USERS) and not name.startswith(_OVERLAY))


@contextmanager
def _open_file(directory: int, name: bytes) -> Iterator[int | None]:
    """Yield a regular file, opened to be read; None: there is none, or it can't be opened."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=directory)
    except OSError:
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)
