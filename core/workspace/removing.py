"""Removing whatever stands at a place: directories of mode 000, devices, trees as deep as anyone can make them.

Every step is relative to the descriptor of a directory and passes no symbolic link, so neither the length of a path
nor what is done to the tree meanwhile matters. What lies deep is moved up and removed later, so that neither
descriptors nor Python's calls run out. For what is the program's own (layers, copies, sessions), never the project.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.workspace.beneath import holder

_DEEPEST = 48  # levels that are gone down before a tree is cut in two
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = {errno.EISDIR, errno.EPERM}  # what systems answer for an unlink of one


def remove(path: Path) -> None:
    """Remove a file, a link or a directory with all that is in it; nothing there is no error. Raises OSError."""
    with suppress(FileNotFoundError), holder(os.fsencode(path)) as (above, name):
        remove_at(above, name)


def remove_at(above: int, name: bytes) -> None:
    """`remove` for a name in the directory of this descriptor."""
    try:
        os.unlink(name, dir_fd=above)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _DIRECTORY:
            raise
        _Removal(above).of(name)


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it.

    What is not there is no error. All that can be removed is, then the first OSError is raised.
    """
    with suppress(FileNotFoundError), holder(os.fsencode(path)) as (above, name):
        _Removal(above).of(name)


class _Removal:
    """Of trees in the directory `top`."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._waiting: list[bytes] = []
        self._failed: OSError | None = None

    def of(self, name: bytes) -> None:
        self._waiting.append(name)
        while self._waiting:
            self._tree(self._top, self._waiting.pop(), 0)
        if self._failed is not None:
            raise self._failed

    def _tree(self, above: int, name: bytes, depth: int) -> None:
        try:
            directory = _opened(above, name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed = self._failed or error
            return
        try:
            with os.scandir(directory) as entries:
                found = [(os.fsencode(each.name), each.is_dir(follow_symlinks=False)) for each in entries]
            for each, is_directory in found:
                self._entry(directory, each, is_directory, depth)
        finally:
            os.close(directory)
        self._try(lambda: os.rmdir(name, dir_fd=above))

    def _entry(self, directory: int, name: bytes, is_directory: bool, depth: int) -> None:
        if not is_directory:
            self._try(lambda: os.unlink(name, dir_fd=directory))
        elif depth < _DEEPEST:
            self._tree(directory, name, depth + 1)
        else:
            self._try(lambda: self._cut_off(directory, name))

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed = self._failed or error

    def _cut_off(self, directory: int, name: bytes) -> None:
        """Move a subtree that lies too deep beside the whole, to be removed after the rest."""
        free = b".cut-" + secrets.token_hex(8).encode()
        os.rename(name, free, src_dir_fd=directory, dst_dir_fd=self._top)
        self._waiting.append(free)


def _opened(above: int, name: bytes) -> int:
    """A directory's descriptor, made readable and writable for us first if it is ours and is not."""
    with suppress(PermissionError):
        directory = os.open(name, _OPEN, dir_fd=above)
        if os.geteuid() == 0 or os.fstat(directory).st_mode & 0o700 == 0o700:
            return directory
        os.close(directory)
    if stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        os.chmod(name, 0o700, dir_fd=above)
    return os.open(name, _OPEN, dir_fd=above)
