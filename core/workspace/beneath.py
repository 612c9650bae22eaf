"""Opening paths beneath a directory, whatever anyone does to the tree meanwhile.

`open_direct` passes no symbolic link at all: by openat2(2) in one system call where the kernel has it, else component
by component with O_NOFOLLOW. `resolve` expands links that stay in the tree beforehand; it needs no protection against
races, because what it answers is only ever opened by `open_direct`.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MAX_LINKS = 40  # as the kernel

_OPENAT2 = 437  # the same number on every Linux architecture in use
_BENEATH_WITHOUT_LINKS = 0x08 | 0x04 | 0x02  # RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS

Opener = Callable[[int, bytes, int, int], int]
LinkTarget = Callable[[bytes], bytes | None]


def components(path: bytes) -> list[bytes]:
    """The parts of a path, without empty ones and "."."""
    return [part for part in path.split(b"/") if part not in {b"", b"."}]


def open_direct(top: int, path: bytes, flags: int, mode: int = 0) -> int:
    """Open `path` below the directory descriptor `top`; OSError(ELOOP) when any part of it is a symbolic link."""
    return _opener()(top, path or b".", flags | os.O_CLOEXEC, mode)


@contextmanager
def holder(place: bytes) -> Iterator[tuple[int, bytes]]:
    """The descriptor of the directory that an absolute path lies in, and the name in it. Raises OSError."""
    above, _, name = place.rpartition(b"/")
    directory = os.open(above or b"/", DIRECTORY)
    try:
        yield directory, name
    finally:
        os.close(directory)


@cache
def _opener() -> Opener:
    return _kernel_opener() or open_by_walking


def _kernel_opener() -> Opener | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    size = ctypes.c_size_t(ctypes.sizeof(How))

    def openat2(top: int, path: bytes, flags: int, mode: int) -> int:
        how = How(flags, mode if flags & os.O_CREAT else 0, _BENEATH_WITHOUT_LINKS)
        while True:
            found = int(call(_OPENAT2, ctypes.c_int(top), ctypes.c_char_p(path), ctypes.byref(how), size))
            if found >= 0:
                return found
            number = ctypes.get_errno()
            if number not in {errno.EINTR, errno.EAGAIN}:
                raise OSError(number, os.strerror(number), path)

    return openat2 if _works(openat2) else None


def _works(opener: Opener) -> bool:
    """Really try it: an old kernel answers ENOSYS, a container's filter EPERM."""
    try:
        top = os.open(".", DIRECTORY)
    except OSError:
        return False
    try:
        os.close(opener(top, b".", DIRECTORY, 0))
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def open_by_walking(top: int, path: bytes, flags: int, mode: int = 0) -> int:
    """The portable form of `open_direct`: one open per component, none of which follows a link."""
    *parents, last = components(path) or [b"."]
    if b".." in parents or last == b"..":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    current = top
    try:
        for part in parents:
            below = _step(current, part, DIRECTORY, 0)
            if current != top:
                os.close(current)
            current = below
        return _step(current, last, flags, mode)
    finally:
        if current != top:
            os.close(current)


def _step(current: int, part: bytes, flags: int, mode: int) -> int:
    try:
        return os.open(part, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=current)
    except OSError:
        # Systems differ in what they answer for a link (ELOOP, ENOTDIR, EMLINK).
        if _is_link(current, part):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise


def _is_link(current: int, part: bytes) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=current, follow_symlinks=False).st_mode)
    except OSError:
        return False


def resolve(top: int, root: bytes, path: bytes) -> bytes:
    """`path` with every symbolic link in it followed; parts that do not exist are kept as they are.

    `root` is the absolute path of `top`, so that absolute links back into the tree can be told from others.
    OSError(EXDEV) when a link leads out of the tree, OSError(ELOOP) when links go round.
    """
    parts = components(path)
    if b".." not in parts and _passes_no_link(top, b"/".join(parts)):
        return b"/".join(parts)
    return follow(root, path, lambda part: _link_target(top, part))


def _passes_no_link(top: int, path: bytes) -> bool:
    """Whether all of a path is there and none of it is a link, as far as one system call can tell."""
    if not hasattr(os, "O_PATH"):
        return False
    try:
        found = open_direct(top, path, os.O_PATH)
    except OSError:
        return False
    try:
        return not stat.S_ISLNK(os.fstat(found).st_mode)
    finally:
        os.close(found)


def follow(root: bytes, path: bytes, link_target: LinkTarget) -> bytes:
    """`resolve` for any tree: `link_target` says where a link at a path (without links above it) leads, None: none;
    FileNotFoundError: nothing is there, so that nothing below is asked for."""
    todo = components(path)[::-1]
    done: list[bytes] = []
    links = there = 0  # so many of the parts that are done are there, so that there can be a link in the last of them
    while todo:
        part = todo.pop()
        if part == b"..":
            if not done:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            done.pop()
            there = min(there, len(done))
            continue
        target = None
        if there == len(done):
            with suppress(FileNotFoundError):
                target = link_target(b"/".join((*done, part)))
                there += 1
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith(b"/"):
            target = _within(root, target)
            done.clear()
        there = len(done)
        todo.extend(components(target)[::-1])
    return b"/".join(done)


def _link_target(top: int, path: bytes) -> bytes | None:
    try:
        return os.readlink(path, dir_fd=top)
    except FileNotFoundError:
        raise
    except OSError:
        return None  # no link, or nothing there, or not reachable: the open that follows will say so


def _within(root: bytes, target: bytes) -> bytes:
    prefix = root.rstrip(b"/") + b"/"
    if not (target + b"/").startswith(prefix):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), target)
    return target[len(prefix) :]
