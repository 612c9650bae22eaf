"""Replacing files whole or not at all, for everything that the program keeps: state, settings, plans.

A new file beside the old one is written and synced, takes the name in one step, and the directory is synced: whatever
fails or is killed meanwhile, the name stands for the old bytes or for the new ones, and the new ones survive a power
cut (`durable`). Symbolic links are replaced, never followed.

Accepted changes of the project do not go through here: the promotion exchanges names so that an edit made by another
program at that moment is not lost (`core.shadow`). Logs and journals are appended to.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from core.filesystem.open_beneath import DIRECTORY

PRIVATE = 0o600
_PERMISSION_BITS = 0o777  # setuid, setgid and sticky bits are never set
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_SYNCABLE = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def replace_file(path: Path, data: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Replace a file's content; its directory must exist. Raises OSError: the old file stands then.

    `durable` False spares the two syncs: for what can be made again, and is checked when it is read.
    """
    with stream_replacement(path, mode=mode, durable=durable) as file:
        file.write(data)


@contextmanager
def stream_replacement(path: Path, *, mode: int = PRIVATE, durable: bool = True) -> Iterator[BinaryIO]:
    """Do the same with what is written to the file yielded; an exception within leaves the old file. Raises OSError."""
    directory = os.open(path.parent, DIRECTORY)
    try:
        temporary = b".%s.tmp" % secrets.token_hex(8).encode()
        with create_file(directory, temporary, mode, durable=durable) as file:
            yield file
        rename_over(directory, temporary, os.fsencode(path.name), durable=durable)
    finally:
        os.close(directory)


@contextmanager
def create_file(directory: int, name: bytes, mode: int, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file with these permissions in an open directory, synced at the end; after an error it is removed.

    Raises OSError, FileExistsError if the name is taken.
    """
    descriptor = os.open(name, _CREATE_FLAGS, PRIVATE, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(descriptor, mode & _PERMISSION_BITS)
            if durable:
                os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def rename_over(directory: int, temporary: bytes, name: bytes, *, durable: bool = True) -> None:
    """Give a finished file its name, in place of what has it; after an error the file is removed. Raises OSError."""
    try:
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    if durable:
        sync_directory(directory)


def sync_directory(directory: int) -> None:
    """Make renames in a directory durable, where the file system offers that. Raises OSError if it failed."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in _NOT_SYNCABLE:
            raise
