"""Whether a directory can hold the upper layer of an overlay (SAFETY C2).

Overlayfs takes no overlayfs (a container's root), network or FUSE file system as an upper layer; whether whiteouts can
be made is found by making one.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/dev/shm")
_MOUNTS = Path("/proc/self/mountinfo")
_NO_UPPERS = {"overlay", "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "vfat", "exfat", "ecryptfs", "ntfs3", "aufs"}


def can_be_upper(directory: Path) -> bool:
    """Whether overlayfs can write there: the type of its file system, and a whiteout that is really made."""
    kind = file_system(directory)
    if kind in _NO_UPPERS or kind.startswith("fuse"):
        return False
    trial = directory / f".trial-{os.getpid()}"
    with suppress(OSError):
        os.mknod(trial, stat.S_IFCHR, os.makedev(0, 0))
        trial.unlink()
        return True
    return False


def file_system(directory: Path) -> str:
    """The type of the file system that a directory is on, "" if it can't be told."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
        real = os.fsencode(directory.resolve())
    except OSError:
        return ""
    best, kind = b"", ""
    for line in lines:
        head, _, tail = line.partition(b" - ")
        point = _unescaped(head.split(b" ")[4])
        if len(point) >= len(best) and (real + b"/").startswith(point.rstrip(b"/") + b"/"):
            best, kind = point, tail.split(b" ")[0].decode("ascii", "replace")
    return kind


def _unescaped(point: bytes) -> bytes:
    """Space, tab, newline and backslash stand as three octal digits."""
    head, *rest = point.split(b"\\")
    return head + b"".join(bytes((int(each[:3], 8),)) + each[3:] for each in rest)
