"""The overlay of one command: the workspace below, the pending layers over it, a fresh upper on top (SAFETY C1, C2).

Layers are named by descriptor (`/proc/self/fd/N`), so no path is too long, none needs escaping, and none can be read
from `/proc/mounts` inside. Runs in `python -I -S` with no more than the modules that `kernel` loads.
"""

from __future__ import annotations

import os

from core.sandbox import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Not synced: what a command wrote is made durable when it is absorbed, and syncing a whole disk here takes seconds.
_FLAGS = ("userxattr", "volatile")
_SETTINGS = (("index", "off"),)
_SAFE = kernel.NO_SUID | kernel.NO_DEVICES


def tmpfs(size: int, mode: str) -> int:
    """A file system in memory of at most `size` bytes, attached nowhere: its descriptor."""
    options = [(b"size", str(size).encode()), (b"mode", mode.encode())]
    return kernel.open_file_system(b"tmpfs", options, _SAFE)


def overlay(lowers: Sequence[bytes], upper: bytes, work: bytes) -> int:
    """An overlay, attached nowhere: its descriptor. `lowers` topmost first, the workspace last."""
    opened = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (*lowers, upper, work)]
    try:
        *below, top, scratch = [f"/proc/self/fd/{each}".encode() for each in opened]
        return _by_layers(below, top, scratch)
    finally:
        for each in opened:
            os.close(each)


def read_only(lowers: Sequence[bytes], *, rights_of: int = 0) -> int:
    """An overlay of two directories or more that takes no changes, attached nowhere: its descriptor. It reaches them
    with the rights of the user `rights_of`, which only root can choose."""
    options: list[tuple[bytes, bytes | None]] = [(b"lowerdir+", lower) for lower in lowers]
    options += [(b"redirect_dir", b"nofollow")]
    try:
        with kernel.FileRights(rights_of):
            return kernel.open_file_system(b"overlay", options, _SAFE | kernel.READ_ONLY)
    except OSError as error:
        if "lowerdir+" not in str(error):
            raise
    return _by_options(b"redirect_dir=nofollow,lowerdir=" + b":".join(lowers), rights_of=rights_of)


def _by_layers(lowers: Sequence[bytes], upper: bytes, work: bytes) -> int:
    options: list[tuple[bytes, bytes | None]] = [(b"lowerdir+", lower) for lower in lowers]
    options += [(b"upperdir", upper), (b"workdir", work)]
    options += [(name.encode(), value.encode()) for name, value in _SETTINGS]
    options += [(name.encode(), None) for name in _FLAGS]
    try:
        return kernel.open_file_system(b"overlay", options, _SAFE)
    except OSError as error:
        if "lowerdir+" not in str(error):
            raise
    return by_string(lowers, upper, work)


def by_string(lowers: Sequence[bytes], upper: bytes, work: bytes) -> int:
    """The same for kernels before 6.5, which take the lower directories in one string."""
    settings = [f"{name}={value}".encode() for name, value in _SETTINGS]
    named = [b"lowerdir=" + b":".join(lowers), b"upperdir=" + upper, b"workdir=" + work]
    return _by_options(b",".join([*named, *settings, *(flag.encode() for flag in _FLAGS)]))


def _by_options(options: bytes, *, rights_of: int = 0) -> int:
    place = b".overlay"
    os.mkdir(place)
    try:
        with kernel.FileRights(rights_of):
            kernel.mount_with_options(b"overlay", place, options)
        try:
            taken = kernel.clone_mount(place, recursive=False)
        finally:
            kernel.unmount(place)
    finally:
        os.rmdir(place)
    kernel.set_attributes(taken, b"", add=_SAFE)
    return taken


def kinds_of_mounts() -> dict[bytes, bytes]:
    """The type of the file system at each mount point, as this process sees them."""
    with open("/proc/self/mountinfo", "rb") as table:
        halves = [line.partition(b" - ") for line in table]
    return {_unescaped(head.split(b" ", 5)[4]): tail.split(b" ", 1)[0] for head, _, tail in halves}


def mounts_below(directory: bytes) -> list[bytes]:
    """Where file systems are mounted inside a directory, outermost first, as this process sees it."""
    with open("/proc/self/mountinfo", "rb") as table:
        points = [_unescaped(line.split(b" ", 5)[4]) for line in table]
    inside = directory.rstrip(b"/") + b"/"
    return sorted({point for point in points if point.startswith(inside) and point != inside})


def take_submounts(workspace: bytes) -> list[tuple[bytes, int]]:
    """What is mounted inside the workspace, off it and by descriptor: the kernel lays no overlay over what an ordinary
    user could uncover that way. Only root can take it off, in mounts of its own, before it enters the box.
    """
    found = mounts_below(workspace)
    if not found:
        return []
    if os.geteuid() != 0:
        shown = found[0].decode("utf-8", "backslashreplace")
        raise OSError(16, f"{shown} is a mount point inside the workspace; an ordinary user can't have it in a box")
    kernel.unshare(kernel.NEW_MOUNTS)
    kernel.make_mounts_private()
    outermost = [path for path in found if not any(path.startswith(each + b"/") for each in found)]
    taken = [(path, kernel.clone_mount(path)) for path in outermost]
    for path in outermost:
        kernel.unmount(path)
    return taken


def _unescaped(field: bytes) -> bytes:
    """Blank, tab, newline and backslash stand as three octal digits in the kernel's tables."""
    for code in (b"\\040", b"\\011", b"\\012", b"\\134"):
        field = field.replace(code, bytes([int(code[1:], 8)]))
    return field
