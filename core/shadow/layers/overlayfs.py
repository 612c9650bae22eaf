"""The format of overlayfs's layers: whiteouts, opaque directories, and what may be done to a layer without a mount.

A whiteout is a character device 0:0, an opaque directory carries `user.overlay.opaque` (kernel documentation,
filesystems/overlayfs; mounted with `userxattr`). Nothing here follows a symbolic link.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from core.filesystem.open_beneath import DIRECTORY, DirectoryCursor, open_parent
from core.filesystem.removal import remove_at
from core.workspace.file_names import to_os_name

OPAQUE = "user.overlay.opaque"
_NO_ATTRIBUTE = {errno.ENODATA, errno.EOPNOTSUPP, errno.EACCES, errno.ENOENT}


def make_whiteout(path: Path) -> None:
    """Make a whiteout. Raises OSError, also if there is an entry already."""
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def encode_place(layer: Path, path: str) -> bytes:
    """Return the place of a workspace-relative path in a layer, as the system names it."""
    return os.fsencode(layer) + b"/" + to_os_name(path)


def get_place(layer: Path, path: str) -> Path:
    """Return the place of a workspace-relative path in a layer; a deep path costs less as bytes."""
    return Path(os.fsdecode(encode_place(layer, path)))


def list_missing_parents(layer: Path, path: str) -> list[str]:
    """Return the parent directories of a path that the layer does not have, outermost first."""
    top, missing = os.fsencode(layer) + b"/", []
    directory = path.rpartition("/")[0]
    while directory and not _is_directory(top + to_os_name(directory)):
        missing.append(directory)
        directory = directory.rpartition("/")[0]
    return missing[::-1]


def _is_directory(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_opaque(directory: Path | bytes | int) -> bool:
    """True if the directory (its path, or a descriptor) hides what lower layers have at its place."""
    try:
        return os.getxattr(directory, OPAQUE, follow_symlinks=isinstance(directory, int)) == b"y"
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return False
        raise


def set_opaque(directory: Path | int, opaque: bool) -> None:
    """Set or clear the opaque mark. Raises OSError; without user attributes only when there is something to set."""
    follow = isinstance(directory, int)
    if opaque:
        os.setxattr(directory, OPAQUE, b"y", follow_symlinks=follow)
        return
    try:
        os.removexattr(directory, OPAQUE, follow_symlinks=follow)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise


def merge_down(upper: Path, lower: Path) -> None:
    """Move all of the layer `upper` into the layer below it, by renames; `upper` is empty afterwards.

    After every single step both layers together show the same, so an interruption leaves nothing to mend: what the
    lower one loses was hidden already, and what it gains hides the same from the same place.
    """
    with os.scandir(upper) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        merge_entry(upper / name, lower / name)


def merge_entry(source: Path, target: Path) -> None:
    """Merge one entry, which has the same name in both; see `merge_down`."""
    waiting = [os.fsencode(source.name)]
    merged_directories: list[tuple[bytes, int]] = []
    with DirectoryCursor(source.parent) as sources, DirectoryCursor(target.parent) as targets:
        while waiting:
            path = waiting.pop()
            above, _, name = path.rpartition(b"/")
            if _move_whole(sources.open_at(above), targets.open_at(above), name):
                continue
            merged_directories.append((path, _open_up(sources, targets, path)))
            with os.scandir(sources.open_at(path)) as entries:
                waiting += [path + b"/" + os.fsencode(entry.name) for entry in entries]
        for path, mode in reversed(merged_directories):
            above, _, name = path.rpartition(b"/")
            os.chmod(name, mode, dir_fd=targets.open_at(above))
            os.rmdir(name, dir_fd=sources.open_at(above))


def _move_whole(source: int, target: int, name: bytes) -> bool:
    """Move an entry as a whole, if it can be; False if both directories have a directory of that name."""
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
        _make_opaque(source, name)  # what hid the layers below from it goes
        os.unlink(name, dir_fd=target)
    os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    return True


def _make_opaque(above: int, name: bytes) -> None:
    directory = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        set_opaque(directory, True)
    finally:
        os.close(directory)


def _open_up(sources: DirectoryCursor, targets: DirectoryCursor, path: bytes) -> int:
    """Prepare a directory of both layers for merging. Return the mode that it is to have."""
    above, _, name = path.rpartition(b"/")
    mode = make_passable_at(sources.open_at(above), name)
    make_passable_at(targets.open_at(above), name)
    if is_opaque(sources.open_at(path)):
        with os.scandir(targets.open_at(path)) as entries:
            below = [os.fsencode(entry.name) for entry in entries]
        for child in below:
            remove_at(targets.open_at(path), child)
        set_opaque(targets.open_at(path), True)
    return mode


def make_passable_at(above: int, name: bytes) -> int:
    """Let the owner list and change a directory; return its previous mode."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=above)
    return mode


def make_passable(directory: Path) -> int:
    """Let the owner list and change a directory given by path; return its previous mode."""
    with open_parent(os.fsencode(directory)) as (above, name):
        return make_passable_at(above, name)
