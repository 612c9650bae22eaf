"""The format of overlayfs's layers: whiteouts, opaque directories, and what may be done to a layer without a mount.

A whiteout is a character device 0:0, an opaque directory carries `user.overlay.opaque` (kernel documentation,
filesystems/overlayfs; mounted with `userxattr`). Nothing here follows a symbolic link.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

OPAQUE = "user.overlay.opaque"
_DEEPEST = 48  # levels that are gone down before a tree is cut in two
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WITHOUT = {errno.ENODATA, errno.EOPNOTSUPP, errno.EACCES, errno.ENOENT}


def is_whiteout(found: os.stat_result) -> bool:
    """Whether a layer's entry says that the name does not exist."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def make_whiteout(path: Path) -> None:
    """Raises OSError, also for an entry that is there already."""
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def is_opaque(directory: Path | bytes) -> bool:
    """Whether the directory hides what lower layers have at its place."""
    try:
        return os.getxattr(directory, OPAQUE, follow_symlinks=False) == b"y"
    except OSError as error:
        if error.errno in _WITHOUT:
            return False
        raise


def set_opaque(directory: Path, opaque: bool) -> None:
    """Raises OSError, for a file system without user attributes only when there is something to set."""
    if opaque:
        os.setxattr(directory, OPAQUE, b"y", follow_symlinks=False)
        return
    try:
        os.removexattr(directory, OPAQUE, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _WITHOUT:
            raise


def remove_tree(path: Path) -> None:
    """Remove a directory whatever is in it: directories of mode 000, devices, paths longer than the system takes.

    What is not there is no error; raises OSError for what can't be removed.
    """
    above = os.open(path.parent, _OPEN)
    try:
        waiting = [os.fsencode(path.name)]
        while waiting:
            _remove(above, waiting.pop(), _Cut(above, waiting), 0)
    finally:
        os.close(above)


def remove(path: Path) -> None:
    """Remove whatever stands at a path; nothing there is no error."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.EPERM}:
            raise
        remove_tree(path)


class _Cut:
    """Where subtrees that lie too deep are moved, to be removed after the rest."""

    def __init__(self, top: int, waiting: list[bytes]) -> None:
        self._top = top
        self._waiting = waiting

    def off(self, directory: int, name: bytes) -> None:
        free = b".cut-" + secrets.token_hex(8).encode()
        os.rename(name, free, src_dir_fd=directory, dst_dir_fd=self._top)
        self._waiting.append(free)


def _remove(above: int, name: bytes, cut: _Cut, depth: int) -> None:
    try:
        directory = _opened(above, name)
    except FileNotFoundError:
        return
    try:
        with os.scandir(directory) as entries:
            found = [(os.fsencode(each.name), each.is_dir(follow_symlinks=False)) for each in entries]
        for each, is_directory in found:
            if not is_directory:
                os.unlink(each, dir_fd=directory)
            elif depth < _DEEPEST:
                _remove(directory, each, cut, depth + 1)
            else:
                cut.off(directory, each)
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=above)


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


def merge_down(upper: Path, lower: Path) -> None:
    """Move all of the layer `upper` into the layer below it, by renames; `upper` is empty afterwards.

    After every single step both layers together show the same, so an interruption leaves nothing to mend: what the
    lower one loses was hidden already, and what it gains hides the same from the same place.
    """
    for each in list(upper.iterdir()):
        merge_entry(each, lower / each.name)


def merge_entry(source: Path, target: Path) -> None:
    """`merge_down` for one entry."""
    try:
        below = target.lstat()
    except FileNotFoundError:
        source.rename(target)
        return
    if not stat.S_ISDIR(source.lstat().st_mode):
        if stat.S_ISDIR(below.st_mode):
            remove(target)
        source.rename(target)
    elif stat.S_ISDIR(below.st_mode):
        _merge_directories(source, target)
    else:
        set_opaque(source, True)  # what hid the layers below from it goes
        target.unlink()
        source.rename(target)


def _merge_directories(source: Path, target: Path) -> None:
    mode = make_passable(source)
    make_passable(target)
    if is_opaque(source):
        for each in list(target.iterdir()):
            remove(each)
        set_opaque(target, True)
    merge_down(source, target)
    target.chmod(mode)
    source.rmdir()


def make_passable(directory: Path) -> int:
    """Let its owner list and change a directory; returns the mode that it had."""
    mode = stat.S_IMODE(directory.lstat().st_mode)
    if mode & 0o700 != 0o700:
        directory.chmod(mode | 0o700)
    return mode
