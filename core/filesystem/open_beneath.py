"""Opening paths beneath a directory, safe against concurrent changes of the tree.

`open_beneath` passes no symbolic link at all: by openat2(2) in one system call where the kernel has it, else component
by component with O_NOFOLLOW. `resolve_links` expands links that stay in the tree beforehand; it needs no protection
against races, because its result is only ever opened by `open_beneath`. `DirectoryCursor` holds one directory open, for
walks through trees that are not reorganized meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MAX_LINKS = 40  # as the kernel
_OPENAT2 = 437  # the same number on every Linux architecture in use
_BENEATH_WITHOUT_LINKS = 0x08 | 0x04 | 0x02  # RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
Opener = Callable[[int, bytes, int, int], int]
LinkTarget = Callable[[bytes], bytes | None]
SpellName = Callable[[bytes, bytes], bytes]
_MAX_STEPS: Final = 3  # up or down; more distant directories are opened by their paths
_STEP_FLAGS = DIRECTORY | os.O_NOFOLLOW


def split_components(path: bytes) -> list[bytes]:
    """Split a path into its parts, without empty ones and "."."""
    return [part for part in path.split(b"/") if part not in {b"", b"."}]


def open_beneath(top: int, path: bytes, flags: int, mode: int = 0) -> int:
    """Open `path` below the directory descriptor `top`. Raises OSError (ELOOP) if any part is a symbolic link."""
    return _choose_opener()(top, path or b".", flags | os.O_CLOEXEC, mode)


@contextmanager
def open_parent(path: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the descriptor of the parent directory of an absolute path, and the name in it. Raises OSError."""
    above, _, name = path.rpartition(b"/")
    directory = os.open(above or b"/", DIRECTORY)
    try:
        yield directory, name
    finally:
        os.close(directory)


@cache
def _choose_opener() -> Opener:
    return _make_openat2() or open_by_walking


def _make_openat2() -> Opener | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    size = ctypes.c_size_t(ctypes.sizeof(How))

    def openat2(top: int, path: bytes, flags: int, mode: int) -> int:
        open_how = How(flags, mode if flags & os.O_CREAT else 0, _BENEATH_WITHOUT_LINKS)
        while True:
            descriptor = int(call(_OPENAT2, ctypes.c_int(top), ctypes.c_char_p(path), ctypes.byref(open_how), size))
            if descriptor >= 0:
                return descriptor
            number = ctypes.get_errno()
            if number not in {errno.EINTR, errno.EAGAIN}:
                raise OSError(number, os.strerror(number), path)

    return openat2 if _can_open(openat2) else None


def _can_open(opener: Opener) -> bool:
    """True if `opener` works: old kernels fail with ENOSYS, filters of containers with EPERM."""
    with suppress(OSError):
        top = os.open(".", DIRECTORY)
        try:
            os.close(opener(top, b".", DIRECTORY, 0))
            return True
        finally:
            os.close(top)
    return False


def open_by_walking(top: int, path: bytes, flags: int, mode: int = 0) -> int:
    """Implement `open_beneath` on any system: one open per component, without following links."""
    *parents, last = split_components(path) or [b"."]
    if b".." in parents or last == b"..":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    current = top
    try:
        for part in parents:
            below = _open_component(current, part, DIRECTORY, 0)
            if current != top:
                os.close(current)
            current = below
        return _open_component(current, last, flags, mode)
    finally:
        if current != top:
            os.close(current)


def _open_component(current: int, part: bytes, flags: int, mode: int) -> int:
    try:
        return os.open(part, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=current)
    except OSError:
        # Systems fail with different errors for a link (ELOOP, ENOTDIR, EMLINK).
        if _is_link(current, part):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise


def _is_link(current: int, part: bytes) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=current, follow_symlinks=False).st_mode)
    except OSError:
        return False


def resolve_links(top: int, root: bytes, path: bytes) -> bytes:
    """Return `path` with every symbolic link in it followed; missing parts remain unchanged.

    `root` is the absolute path of `top`, to recognize absolute links back into the tree. Raises OSError: EXDEV if a
    link leads out of the tree, ELOOP for circular links.
    """
    parts = split_components(path)
    plain = b"/".join(parts)
    if b".." not in parts and hasattr(os, "O_PATH"):  # one system call checks that all parts exist and none is a link
        with suppress(OSError):
            descriptor = open_beneath(top, plain, os.O_PATH)
            try:
                if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                    return plain
            finally:
                os.close(descriptor)
    return follow_links(root, path, lambda part: read_link(top, part))


def follow_links(root: bytes, path: bytes, link_target: LinkTarget, spell: SpellName | None = None) -> bytes:
    """Implement `resolve_links` for any tree.

    `link_target` returns the target of a link (its path has no links above it), None if the path is no link, and raises
    FileNotFoundError if it is missing, so that paths below it are not looked up. `spell` returns the name as it is
    spelled on disk, in a directory that has no links above it (`core.filesystem.name_spelling`).
    """
    todo = split_components(path)[::-1]
    resolved_parts: list[bytes] = []
    links = existing_count = 0  # number of resolved parts that exist; only then can the next part be a link
    while todo:
        part = todo.pop()
        if part == b"..":
            if not resolved_parts:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            resolved_parts.pop()
            existing_count = min(existing_count, len(resolved_parts))
            continue
        target = None
        if existing_count == len(resolved_parts):
            part = part if spell is None else spell(b"/".join(resolved_parts), part)
            with suppress(FileNotFoundError):
                target = link_target(b"/".join((*resolved_parts, part)))
                existing_count += 1
        if target is None:
            resolved_parts.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith(b"/"):
            target = _to_relative(root, target)
            resolved_parts.clear()
        existing_count = len(resolved_parts)
        todo.extend(split_components(target)[::-1])
    return b"/".join(resolved_parts)


def read_link(top: int, path: bytes) -> bytes | None:
    """Return the target of a link below `top`, None for no link. Raises FileNotFoundError."""
    try:
        return os.readlink(path, dir_fd=top)
    except FileNotFoundError:
        raise
    except OSError:
        return None  # no link or not reachable: the later open reports that


def _to_relative(root: bytes, target: bytes) -> bytes:
    prefix = root.rstrip(b"/") + b"/"
    if not (target + b"/").startswith(prefix):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), target)
    return target[len(prefix) :]


class DirectoryCursor:
    """A movable open directory below `top`, which is opened when first needed.

    Paths are bytes, relative to `top`; b"" is `top` itself.
    """

    def __init__(self, top: Path) -> None:
        self._top = top
        self._root = -1
        self._path = b""
        self._here = -1

    def __enter__(self) -> DirectoryCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptors. Safe to call twice."""
        for descriptor in {self._here, self._root} - {-1}:
            with suppress(OSError):
                os.close(descriptor)
        self._root = self._here = -1

    def open_at(self, path: bytes) -> int:
        """Return the descriptor of a directory, valid until the next call.

        Raises OSError; ENOTDIR or ELOOP for a link.
        """
        if self._root < 0:
            self._root = self._here = os.open(self._top, DIRECTORY)
            self._path = b""
        if path != self._path:
            is_near = self._ascend_towards(path)
            steps = path[len(self._path) :].lstrip(b"/").split(b"/") if is_near else []
            if is_near and len(steps) <= _MAX_STEPS:
                for step in filter(None, steps):
                    self._move(os.open(step, _STEP_FLAGS, dir_fd=self._here), self._path + b"/" + step)
            else:
                self._move(open_beneath(self._root, path, DIRECTORY), path)
        return self._here

    def _ascend_towards(self, path: bytes) -> bool:
        """Ascend to a directory that contains the path, if it is near; return True on success."""
        for _ in range(_MAX_STEPS):
            if not self._path or path == self._path or path.startswith(self._path + b"/"):
                return True
            self._move(os.open(b"..", DIRECTORY, dir_fd=self._here), self._path.rpartition(b"/")[0])
        return False

    def _move(self, directory: int, path: bytes) -> None:
        if self._here != self._root:
            os.close(self._here)
        self._here, self._path = directory, path.lstrip(b"/")
