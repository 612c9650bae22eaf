"""Where layers can lie: the session's own directory if its file system can be an upper one, else memory.

Overlayfs takes no overlayfs (a container's root), network or FUSE file system as an upper layer (SAFETY C2); whether
whiteouts can be made is found by making one.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from core.errors import StateError
from core.shadow.overlay import make_whiteout, remove_tree

MEMORY = Path("/dev/shm")
_MOUNTS = Path("/proc/self/mountinfo")
_NO_UPPERS = {"overlay", "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "vfat", "exfat", "ecryptfs", "ntfs3", "aufs"}
_REFERENCE = "place"


def place_for(layers: Path) -> Path:
    """The directory in which layers are made, for a session whose layers belong into `layers` (made if missing).

    When that can't hold uppers, it says in a file where in memory they are. `StateError`: nowhere.
    """
    try:
        layers.mkdir(mode=0o700, exist_ok=True)
        if known := _referred(layers):
            return known
        if can_be_upper(layers):
            return layers
        return _in_memory(layers)
    except OSError as error:
        raise StateError(
            f"Layers for commands can't be made in {layers}: {error.strerror}.",
            hint="Make room or set AGENT_TUI_STATE_DIR to a directory of your own on a local disk.",
        ) from error


def can_be_upper(directory: Path) -> bool:
    """Whether overlayfs can write there: the type of its file system, and a whiteout that is really made."""
    kind = file_system(directory)
    if kind in _NO_UPPERS or kind.startswith("fuse"):
        return False
    trial = directory / f".trial-{os.getpid()}"
    with suppress(OSError):
        make_whiteout(trial)
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


def _referred(layers: Path) -> Path | None:
    """The place in memory of an earlier start, if it is still there and ours."""
    try:
        place = Path(os.fsdecode((layers / _REFERENCE).read_bytes()))
        found = place.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700
    return place if ours and place.parent == MEMORY else None


def _in_memory(layers: Path) -> Path:
    if not MEMORY.is_dir():
        raise StateError(
            f"No file system here can hold the layers of commands: {layers} is on {file_system(layers) or 'one'} "
            f"that can't, and there is no {MEMORY}.",
            hint="Set AGENT_TUI_STATE_DIR to a directory on a local disk or a volume.",
        )
    place = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=MEMORY))
    (layers / _REFERENCE).write_bytes(os.fsencode(place))
    return place


def forget_place(layers: Path) -> None:
    """Remove what a session has in memory; for when the session itself goes."""
    place = _referred(layers)
    if place is not None:
        remove_tree(place)
