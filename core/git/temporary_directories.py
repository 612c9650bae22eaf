"""Directories for a few calls of git; those of a killed process are removed when a session is next opened.

Every directory is locked (flock) while it is in use, and a lock dies with its process: an unlocked one is abandoned.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from core.filesystem.removal import remove_tree

_PREFIX: Final = "agent-tui-git-"


@contextmanager
def make_temporary_directory() -> Iterator[Path]:
    """Make an empty directory for this user alone, removed afterwards. Raises OSError."""
    with hold_temporary_directory() as (directory, _):
        yield directory


@contextmanager
def hold_temporary_directory() -> Iterator[tuple[Path, int]]:
    """Do the same, and yield the descriptor of its lock too: a program that inherits it holds the directory as long as
    it runs, even if this process is killed. Raises OSError."""
    directory, lock = _make_locked()
    try:
        yield directory, lock
    finally:
        with suppress(OSError):
            remove_tree(directory)
        os.close(lock)


def _make_locked() -> tuple[Path, int]:
    """Make a directory and its lock; if another process removed it as abandoned before it was locked, try again."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if directory.is_dir():
                return directory, lock
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the directories of killed processes of this user."""
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_abandoned(path)


def _remove_abandoned(directory: Path) -> None:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(directory)
    finally:
        os.close(lock)
