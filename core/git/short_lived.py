"""Directories that last as long as a few calls of git; where a process was killed, until a session is opened again.

Each is locked (flock) while it is in use, and a lock dies with its process: what is not locked is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from core.workspace.removing import remove_tree

_PREFIX: Final = "agent-tui-git-"


@contextmanager
def short_lived() -> Iterator[Path]:
    """An empty directory for this user alone. Raises OSError."""
    directory, lock = _made()
    try:
        yield directory
    finally:
        with suppress(OSError):
            remove_tree(directory)
        os.close(lock)


def _made() -> tuple[Path, int]:
    """A directory and its lock; one that was taken for an abandoned one before it was locked is made again."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if directory.is_dir():
                return directory, lock
            os.close(lock)


def sweep_abandoned() -> None:
    """Remove what killed processes of this user have left."""
    with suppress(OSError):
        for each in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_abandoned(each)


def _remove_abandoned(directory: Path) -> None:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(directory)
    finally:
        os.close(lock)
