"""The format of overlayfs's layers: whiteouts, opaque directories, and what may be done to a layer without a mount.

A whiteout is a character device 0:0, an opaque directory carries `user.overlay.opaque` (kernel documentation,
filesystems/overlayfs; mounted with `userxattr`). Nothing here follows a symbolic link.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from core.workspace.beneath import DIRECTORY, holder
from core.workspace.descent import Descent
from core.workspace.names import to_os
from core.workspace.removing import remove_at

OPAQUE = "user.overlay.opaque"
_WITHOUT = {errno.ENODATA, errno.EOPNOTSUPP, errno.EACCES, errno.ENOENT}


def is_whiteout(found: os.stat_result) -> bool:
    """Whether a layer's entry says that the name does not exist."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def make_whiteout(path: Path) -> None:
    """Raises OSError, also for an entry that is there already."""
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def missing_above(layer: Path, path: str) -> list[str]:
    """The directories that lead to a path and that the layer does not have, outermost first."""
    top, missing = os.fsencode(layer) + b"/", []
    directory = path.rpartition("/")[0]
    while directory and not _is_directory(top + to_os(directory)):
        missing.append(directory)
        directory = directory.rpartition("/")[0]
    return missing[::-1]


def _is_directory(place: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False


def is_opaque(directory: Path | bytes | int) -> bool:
    """Whether the directory (its path, or a descriptor) hides what lower layers have at its place."""
    try:
        return os.getxattr(directory, OPAQUE, follow_symlinks=isinstance(directory, int)) == b"y"
    except OSError as error:
        if error.errno in _WITHOUT:
            return False
        raise


def set_opaque(directory: Path | int, opaque: bool) -> None:
    """Of a path or a descriptor. Raises OSError, for a file system without user attributes only when there is something
    to set."""
    follow = isinstance(directory, int)
    if opaque:
        os.setxattr(directory, OPAQUE, b"y", follow_symlinks=follow)
        return
    try:
        os.removexattr(directory, OPAQUE, follow_symlinks=follow)
    except OSError as error:
        if error.errno not in _WITHOUT:
            raise


def merge_down(upper: Path, lower: Path) -> None:
    """Move all of the layer `upper` into the layer below it, by renames; `upper` is empty afterwards.

    After every single step both layers together show the same, so an interruption leaves nothing to mend: what the
    lower one loses was hidden already, and what it gains hides the same from the same place.
    """
    with os.scandir(upper) as entries:
        names = [each.name for each in entries]
    for name in names:
        merge_entry(upper / name, lower / name)


def merge_entry(source: Path, target: Path) -> None:
    """`merge_down` for one entry, which has the same name in both."""
    waiting = [os.fsencode(source.name)]
    merged: list[tuple[bytes, int]] = []
    with Descent(source.parent) as sources, Descent(target.parent) as targets:
        while waiting:
            path = waiting.pop()
            above, _, name = path.rpartition(b"/")
            if _is_moved(sources.at(above), targets.at(above), name):
                continue
            merged.append((path, _opened_up(sources, targets, path)))
            with os.scandir(sources.at(path)) as entries:
                waiting += [path + b"/" + os.fsencode(each.name) for each in entries]
        for path, mode in reversed(merged):
            above, _, name = path.rpartition(b"/")
            os.chmod(name, mode, dir_fd=targets.at(above))
            os.rmdir(name, dir_fd=sources.at(above))


def _is_moved(source: int, target: int, name: bytes) -> bool:
    """Move an entry as a whole, if it can be. Not if both directories have a directory of that name."""
    try:
        below = os.stat(name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        return True
    if not stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        if stat.S_ISDIR(below.st_mode):
            remove_at(target, name)
    elif stat.S_ISDIR(below.st_mode):
        return False
    else:
        _close(source, name)  # what hid the layers below from it goes
        os.unlink(name, dir_fd=target)
    os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    return True


def _close(above: int, name: bytes) -> None:
    directory = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        set_opaque(directory, True)
    finally:
        os.close(directory)


def _opened_up(sources: Descent, targets: Descent, path: bytes) -> int:
    """Make a directory of both ready to be merged. Returns the mode that it is to have."""
    above, _, name = path.rpartition(b"/")
    mode = passable(sources.at(above), name)
    passable(targets.at(above), name)
    if is_opaque(sources.at(path)):
        with os.scandir(targets.at(path)) as entries:
            below = [os.fsencode(each.name) for each in entries]
        for each in below:
            remove_at(targets.at(path), each)
        set_opaque(targets.at(path), True)
    return mode


def passable(above: int, name: bytes) -> int:
    """Let its owner list and change a directory; returns the mode that it had."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=above)
    return mode


def make_passable(directory: Path) -> int:
    """`passable` for a path."""
    with holder(os.fsencode(directory)) as (above, name):
        return passable(above, name)
