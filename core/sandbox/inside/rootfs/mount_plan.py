"""The mounts of a new root, planned before the root changes and applied after, outer ones first.

Runs in `python -I -S -B`.
"""

from __future__ import annotations

import contextlib
import os
import stat

from core.sandbox.inside import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

COVERS = b"dev/.covers"  # holds the empty files and directories that are mounted over what is hidden


class MountPlan:
    """The mounts to make: pairs of a target and the step that mounts there, outer ones first."""

    def __init__(self) -> None:
        self._steps: list[tuple[bytes, Callable[[bytes], None]]] = []
        self.writable: list[bytes] = []

    def add_mount(self, descriptor: int, target: bytes, *, is_needed: bool = False, is_writable: bool = False) -> None:
        """Attach a mount that was taken before. One that is not needed is left out where there is no place for it."""

        def step(path: bytes) -> None:
            try:
                make_mount_point(path, like=descriptor)
                kernel.attach_mount(descriptor, path)
            except OSError:
                if is_needed:
                    raise
                os.close(descriptor)
                return
            if is_writable:
                self.writable.append(path)

        self._steps.append((target, step))

    def add_directory(self, target: bytes, mode: int) -> None:
        """Make an empty directory, where there is a place for it."""

        def step(path: bytes) -> None:
            with contextlib.suppress(OSError):
                os.makedirs(path, 0o755, exist_ok=True)
                os.chmod(path, mode)

        self._steps.append((target, step))

    def add_link(self, link: bytes, target: bytes) -> None:
        self._steps.append((link, lambda path: make_link(path, target)))

    def add_cover(self, target: bytes) -> None:
        self._steps.append((target, cover_path))

    def apply(self) -> None:
        for target, step in sorted(self._steps, key=lambda pair: pair[0].rstrip(b"/").count(b"/")):
            step(target)


def make_link(link: bytes, target: bytes) -> None:
    """Make a symbolic link. Where there is something already, or all is read-only, it needs none."""
    if os.path.lexists(link):
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(link), 0o755, exist_ok=True)
        os.symlink(target, link)


def make_mount_point(target: bytes, *, like: int) -> None:
    """Make a directory or an empty file to mount on. Only fresh places can take one: all else is read-only."""
    if os.path.lexists(target):
        return
    if stat.S_ISDIR(os.fstat(like).st_mode):
        os.makedirs(target, 0o755)
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def cover_path(target: bytes) -> None:
    """Mount an empty file or directory over a path, if it is there: it can be neither read nor listed then."""
    if not os.path.exists(target):
        return
    cover = b"/%s/%d" % (COVERS, len(os.listdir(b"/" + COVERS)))
    if os.path.isdir(target):
        os.mkdir(cover, 0o755)
    else:
        os.close(os.open(cover, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
    mount = kernel.clone_mount(cover)
    try:
        kernel.attach_mount(mount, target)
    except FileNotFoundError:
        os.close(mount)
        if os.path.lexists(target):  # else it went away just now, as sockets do
            raise
