"""Overlayfs: its marks on the entries of a layer, and the test for directories that can hold an upper layer.

Overlayfs supports no overlayfs (a container's root), network or FUSE file system as an upper layer. The test for
whiteouts creates one.

macOS has no overlayfs, and layers are only ours there. An ordinary user can't make a device, so a whiteout is a FIFO
with permissions that nobody gives one; and Python has no functions for extended attributes, so libc's are called.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from core.filesystem.mount_table import read_mounts

_IS_DARWIN = sys.platform == "darwin"
_FIFO_WHITEOUT = 0o001  # its permissions
_ENOATTR = 93  # of macOS
OPAQUE = "user.overlay.opaque"
_NO_ATTRIBUTE = {errno.ENODATA, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EACCES, errno.ENOENT, _ENOATTR}
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
    if _IS_DARWIN:
        return stat.S_ISFIFO(stats.st_mode) and stat.S_IMODE(stats.st_mode) == _FIFO_WHITEOUT
    return stat.S_ISCHR(stats.st_mode) and stats.st_rdev == 0


def make_whiteout(path: Path | bytes, *, dir_fd: int | None = None) -> None:
    """Create a whiteout. Raises OSError, also if there is an entry already."""
    if _IS_DARWIN:
        os.mkfifo(path, _FIFO_WHITEOUT, dir_fd=dir_fd)
        os.chmod(path, _FIFO_WHITEOUT, dir_fd=dir_fd)  # whatever the umask is
    else:
        os.mknod(path, stat.S_IFCHR, os.makedev(0, 0), dir_fd=dir_fd)


def is_opaque(directory: Path | bytes | int) -> bool:
    """True if the directory (its path, or a descriptor) hides the directories of lower layers."""
    try:
        return _get_attribute(directory) == b"y"
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return False
        raise


def set_opaque(directory: Path | bytes | int, opaque: bool) -> None:
    """Set or clear the opaque mark. Raises OSError; without support for user attributes, only when there is a mark to
    set."""
    try:
        _set_attribute(directory, b"y" if opaque else None)
    except OSError as error:
        if opaque or error.errno not in _NO_ATTRIBUTE:
            raise


def _get_attribute(directory: Path | bytes | int) -> bytes:
    if not _IS_DARWIN:
        return os.getxattr(directory, OPAQUE, follow_symlinks=isinstance(directory, int))
    with _open_directory(directory) as descriptor:
        text = ctypes.create_string_buffer(8)
        _check(_load_libc().fgetxattr(descriptor, OPAQUE.encode(), text, ctypes.c_size_t(8), 0, 0))
        return text.value


def _set_attribute(directory: Path | bytes | int, value: bytes | None) -> None:
    """Set the mark's attribute, or remove it."""
    if not _IS_DARWIN:
        if value is not None:
            os.setxattr(directory, OPAQUE, value, follow_symlinks=isinstance(directory, int))
        else:
            os.removexattr(directory, OPAQUE, follow_symlinks=isinstance(directory, int))
        return
    with _open_directory(directory) as descriptor:
        if value is not None:
            size = ctypes.c_size_t(len(value))
            _check(_load_libc().fsetxattr(descriptor, OPAQUE.encode(), value, size, 0, 0))
        else:
            _check(_load_libc().fremovexattr(descriptor, OPAQUE.encode(), 0))


@contextmanager
def _open_directory(directory: Path | bytes | int) -> Iterator[int]:
    """Yield a descriptor of a directory, which is no symbolic link."""
    if isinstance(directory, int):
        yield directory
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@cache
def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fgetxattr.restype = ctypes.c_ssize_t
    return libc


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


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
