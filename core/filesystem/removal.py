"""Removal of any kind of file: directories of mode 000, devices, arbitrarily deep trees.

Every step is relative to the descriptor of a directory and passes no symbolic link, so long paths and concurrent
changes of the tree are harmless. Deep subtrees are moved up and removed later, so that neither descriptors nor Python's
call stack run out. For the program's own data (layers, copies, sessions), never for the project.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.filesystem.open_beneath import open_parent

_MAX_DEPTH = 48  # levels of recursion before a subtree is moved up
_OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IS_DIRECTORY_ERRORS = {errno.EISDIR, errno.EPERM}  # errors of unlink for a directory


def remove_path(path: Path) -> None:
    """Remove a file, a link or a directory with its content; a missing path is no error. Raises OSError."""
    with suppress(FileNotFoundError), open_parent(os.fsencode(path)) as (above, name):
        remove_at(above, name)


def remove_at(above: int, name: bytes) -> None:
    """Remove a name in an open directory, as `remove_path` does."""
    try:
        os.unlink(name, dir_fd=above)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _IS_DIRECTORY_ERRORS:
            raise
        _Removal(above).remove(name)


def remove_tree(path: Path) -> None:
    """Remove a directory with its content; a missing one is no error.

    Removes as much as possible, then raises the first OSError.
    """
    with suppress(FileNotFoundError), open_parent(os.fsencode(path)) as (above, name):
        _Removal(above).remove(name)


class _Removal:
    """Removal of trees in the directory `top`."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._waiting: list[bytes] = []
        self._first_error: OSError | None = None

    def remove(self, name: bytes) -> None:
        self._waiting.append(name)
        while self._waiting:
            self._remove_directory(self._top, self._waiting.pop(), 0)
        if self._first_error is not None:
            raise self._first_error

    def _remove_directory(self, above: int, name: bytes, depth: int) -> None:
        try:
            directory = _open_directory(above, name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._first_error = self._first_error or error
            return
        try:
            with os.scandir(directory) as entries:
                children = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]
            for child, is_directory in children:
                self._remove_entry(directory, child, is_directory, depth)
        finally:
            os.close(directory)
        self._try(lambda: os.rmdir(name, dir_fd=above))

    def _remove_entry(self, directory: int, name: bytes, is_directory: bool, depth: int) -> None:
        if not is_directory:
            self._try(lambda: os.unlink(name, dir_fd=directory))
        elif depth < _MAX_DEPTH:
            self._remove_directory(directory, name, depth + 1)
        else:
            self._try(lambda: self._move_up(directory, name))

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except FileNotFoundError:
            return
        except OSError as error:
            self._first_error = self._first_error or error

    def _move_up(self, directory: int, name: bytes) -> None:
        """Move a subtree that is too deep to the top, to be removed after the rest."""
        free = b".cut-" + secrets.token_hex(8).encode()
        os.rename(name, free, src_dir_fd=directory, dst_dir_fd=self._top)
        self._waiting.append(free)


def _open_directory(above: int, name: bytes) -> int:
    """Open a directory; one of ours is made readable and writable first."""
    with suppress(PermissionError):
        directory = os.open(name, _OPEN_FLAGS, dir_fd=above)
        if os.geteuid() == 0 or os.fstat(directory).st_mode & 0o700 == 0o700:
            return directory
        os.close(directory)
    if stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        os.chmod(name, 0o700, dir_fd=above)
    return os.open(name, _OPEN_FLAGS, dir_fd=above)
