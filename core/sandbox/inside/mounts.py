"""Mounts: the overlay of one command, the table of mounts, and a plan of mounts for a new root.

An overlay has the workspace below, the pending layers over it, and a fresh upper on top. Layers are named by descriptor
(`/proc/self/fd/N`), so no path is too long, none needs escaping, and none can be read from `/proc/mounts` inside. A
plan is made before the root changes and applied after, outer mounts first. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import contextlib
import os
import stat

from core.filesystem.mount_table import read_mounts
from core.sandbox.inside import kernel

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Not synced: a command's changes are made durable when they are absorbed, and syncing a whole disk takes seconds.
_OPTIONS: tuple[tuple[bytes, bytes | None], ...] = ((b"index", b"off"), (b"userxattr", None), (b"volatile", None))
_NO_SUID_NO_DEVICES = kernel.NO_SUID | kernel.NO_DEVICES
COVERS = b"dev/.covers"  # holds the empty files and directories that are mounted over hidden paths


def create_tmpfs(size: int, mode: str) -> int:
    """Create a file system in memory of at most `size` bytes, not attached; return its descriptor."""
    options = [(b"size", str(size).encode()), (b"mode", mode.encode())]
    return kernel.create_mount(b"tmpfs", options, _NO_SUID_NO_DEVICES)


def create_overlay(lowers: Sequence[bytes], upper: bytes, work: bytes) -> int:
    """Create an overlay, not attached; return its descriptor. `lowers` topmost first, the workspace last."""
    descriptors = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (*lowers, upper, work)]
    try:
        *below, top, scratch = [f"/proc/self/fd/{descriptor}".encode() for descriptor in descriptors]
        return _create_by_layers(below, top, scratch)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def create_read_only_overlay(lowers: Sequence[bytes], *, rights_of: int = 0) -> int:
    """Create a read-only overlay of two directories or more, not attached; return its descriptor.

    It accesses them with the rights of the user `rights_of`, which only root can choose.
    """
    options: list[tuple[bytes, bytes | None]] = [(b"lowerdir+", lower) for lower in lowers]
    options += [(b"redirect_dir", b"nofollow")]
    try:
        with kernel.FileAccessAs(rights_of):
            return kernel.create_mount(b"overlay", options, _NO_SUID_NO_DEVICES | kernel.READ_ONLY)
    except OSError as error:
        if "lowerdir+" not in str(error):
            raise
    return _create_by_options(b"redirect_dir=nofollow,lowerdir=" + b":".join(lowers), rights_of=rights_of)


def _create_by_layers(lowers: Sequence[bytes], upper: bytes, work: bytes) -> int:
    layers = [*((b"lowerdir+", lower) for lower in lowers), (b"upperdir", upper), (b"workdir", work)]
    options: list[tuple[bytes, bytes | None]] = [*layers, *_OPTIONS]
    try:
        return kernel.create_mount(b"overlay", options, _NO_SUID_NO_DEVICES)
    except OSError as error:
        if "lowerdir+" not in str(error):
            raise
    return create_by_option_string(lowers, upper, work)


def create_by_option_string(lowers: Sequence[bytes], upper: bytes, work: bytes) -> int:
    """Create the overlay on kernels before 6.5, which take the lower directories in one string."""
    options = [b"lowerdir=" + b":".join(lowers), b"upperdir=" + upper, b"workdir=" + work]
    options += [name if value is None else name + b"=" + value for name, value in _OPTIONS]
    return _create_by_options(b",".join(options))


def _create_by_options(options: bytes, *, rights_of: int = 0) -> int:
    mount_point = b".overlay"
    os.mkdir(mount_point)
    try:
        with kernel.FileAccessAs(rights_of):
            kernel.mount_with_options(b"overlay", mount_point, options)
        try:
            mount = kernel.clone_mount(mount_point, recursive=False)
        finally:
            kernel.unmount(mount_point)
    finally:
        os.rmdir(mount_point)
    kernel.set_mount_attributes(mount, b"", add=_NO_SUID_NO_DEVICES)
    return mount


def list_mounts_below(directory: bytes) -> list[bytes]:
    """Return this process's mount points inside a directory, outermost first."""
    inside = directory.rstrip(b"/") + b"/"
    return sorted({point for point, _ in read_mounts() if point.startswith(inside) and point != inside})


def detach_submounts(workspace: bytes) -> list[tuple[bytes, int]]:
    """Detach the mounts inside the workspace; return their paths and descriptors.

    The kernel refuses an overlay by which an ordinary user could uncover a path below a mount. Only root can detach
    such mounts, in a mount namespace, before it enters the box. Raises OSError (EBUSY) for others.
    """
    mount_points = list_mounts_below(workspace)
    if not mount_points:
        return []
    if os.geteuid() != 0:
        label = mount_points[0].decode("utf-8", "backslashreplace")
        raise OSError(16, f"{label} is a mount point inside the workspace; an ordinary user can't have it in a sandbox")
    kernel.unshare(kernel.NEW_MOUNTS)
    kernel.make_mounts_private()
    outermost = [path for path in mount_points if not any(path.startswith(parent + b"/") for parent in mount_points)]
    submounts = [(path, kernel.clone_mount(path)) for path in outermost]
    for path in outermost:
        kernel.unmount(path)
    return submounts


class MountPlan:
    """The planned mounts: pairs of a target and a step, applied with outer targets first."""

    def __init__(self) -> None:
        self._steps: list[tuple[bytes, Callable[[bytes], None]]] = []
        self.writable: list[bytes] = []

    def add_mount(self, descriptor: int, target: bytes, *, is_needed: bool = False, is_writable: bool = False) -> None:
        """Attach a mount by its descriptor. With `is_needed` False it is omitted if its mount point can't be made."""

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
        """Make an empty directory, if that is possible."""

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
    """Make a symbolic link, unless the name exists or its directory is read-only."""
    if os.path.lexists(link):
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(link), 0o755, exist_ok=True)
        os.symlink(target, link)


def make_mount_point(target: bytes, *, like: int) -> None:
    """Make a directory or an empty file to mount on. Only fresh directories are writable."""
    if os.path.lexists(target):
        return
    if stat.S_ISDIR(os.fstat(like).st_mode):
        os.makedirs(target, 0o755)
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def cover_path(target: bytes) -> None:
    """Mount an empty file or directory over an existing path, so that it can be neither read nor listed."""
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
        if os.path.lexists(target):  # else it was removed meanwhile, as sockets are
            raise
