"""Overlayfs: its marks on the entries of a layer, and the test for directories that can hold an upper layer.

Overlayfs supports no overlayfs (a container's root), network or FUSE file system as an upper layer. The test for
whiteouts creates one.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from core.filesystem.mount_table import read_mounts

OPAQUE = "user.overlay.opaque"
_NO_ATTRIBUTE = {errno.ENODATA, errno.EOPNOTSUPP, errno.EACCES, errno.ENOENT}
SHARED_MEMORY = Path("/dev/shm")
_REMOTE_TYPES = {"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs"}
_UNSUITABLE_LOWER_TYPES = {"9p", "drvfs", "vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "cifs", "smb3"}
_UNSUITABLE_TYPES = _REMOTE_TYPES | {"overlay", "vfat", "exfat", "ecryptfs", "ntfs3", "aufs"}


def can_be_lower(kind: str) -> bool:
    """True if overlayfs shows a project on a file system of this type: on those of Windows, names have no one spelling,
    and 9p (a drive under WSL) has too few attributes."""
    return kind not in _UNSUITABLE_LOWER_TYPES


def is_whiteout(stats: os.stat_result) -> bool:
    """True if an entry is a whiteout, which marks a deleted name: a character device 0:0."""
    return stat.S_ISCHR(stats.st_mode) and stats.st_rdev == 0


def make_whiteout(path: Path | bytes) -> None:
    """Create a whiteout. Raises OSError, also if there is an entry already."""
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def is_opaque(directory: Path | bytes | int) -> bool:
    """True if the directory (its path, or a descriptor) hides the directories of lower layers."""
    try:
        return os.getxattr(directory, OPAQUE, follow_symlinks=isinstance(directory, int)) == b"y"
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return False
        raise


def set_opaque(directory: Path | bytes | int, opaque: bool) -> None:
    """Set or clear the opaque mark. Raises OSError; without support for user attributes, only when there is a mark to
    set."""
    follow = isinstance(directory, int)
    if opaque:
        os.setxattr(directory, OPAQUE, b"y", follow_symlinks=follow)
        return
    try:
        os.removexattr(directory, OPAQUE, follow_symlinks=follow)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise


def can_hold_upper(directory: Path) -> bool:
    """True if overlayfs can use the directory as an upper layer, by its file system's type and a trial whiteout."""
    kind = find_file_system_type(directory)
    if kind in _UNSUITABLE_TYPES or kind.startswith("fuse"):
        return False
    trial = directory / f".trial-{os.getpid()}"
    with suppress(OSError):
        make_whiteout(trial)
        trial.unlink()
        return True
    return False


def find_file_system_type(directory: Path) -> str:
    """Return the type of the file system of a directory, "" if it is unknown."""
    try:
        mounts = read_mounts()
        real = os.fsencode(directory.resolve())
    except OSError:
        return ""
    best, kind = b"", ""
    for point, name in mounts:
        if len(point) >= len(best) and (real + b"/").startswith(point.rstrip(b"/") + b"/"):
            best, kind = point, name.decode("ascii", "replace")
    return kind
