"""The host's directories as a command sees them: read-only overlays of each, never the directories themselves.

A read-only directory keeps nobody from connecting to a unix socket or from writing into a pipe. In an overlay every
file has an inode of its own, so nobody listens behind such a name, whoever made it, wherever and whenever (SAFETY C1).
As root the overlays reach what they show with the rights of a user who owns nothing: what is not readable by everybody
is not readable by the command. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import os
import stat

from core.sandbox.inside import kernel
from core.sandbox.inside.rootfs import mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from core.sandbox.inside.rootfs.mount_plan import MountPlan

_LOCKED_DOWN = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEVICES
# No socket lives in one of these, and overlayfs may not take them.
_WITHOUT_SOCKETS = frozenset(
    {b"vfat", b"exfat", b"msdos", b"ntfs3", b"iso9660", b"udf", b"squashfs", b"erofs", b"cramfs"}
)
_MOST_PARTS = 5_000  # places that a directory with mounts in it may be split into


class HostOverlays:
    """Takes directories by descriptor, to be attached by a `MountPlan`.

    `nothing`: the path of an empty directory that is mounted here. `needed_paths`: absolute, real paths that something
    will be mounted on, wherever they are.
    """

    def __init__(self, nothing: bytes, needed_paths: Iterable[bytes]) -> None:
        self._nothing = os.open(nothing, os.O_PATH | os.O_DIRECTORY)
        self._mounted = mounts.read_mount_types()
        self._nobody = kernel.find_nobody_id() if os.geteuid() == 0 else 0
        self._apart = {*self._mounted, *(path for path in needed_paths if self._nobody and not _is_traversable(path))}
        self._count = 0

    def plan_path(self, plan: MountPlan, path: bytes, *, is_private: bool = False) -> None:
        """Plan to show what is at an absolute path, at this path; for links what they lead to, in their place.

        What is neither a directory nor a regular file is left out, and so is a file system that no overlay takes.
        `is_private`: also what is not readable by everybody. Raises OSError if the host's own root can't be shown like
        this.
        """
        self._plan_opened(plan, os.open(path, os.O_PATH), path, for_all=self._nobody > 0 and not is_private)

    def _plan_opened(self, plan: MountPlan, descriptor: int, path: bytes, *, for_all: bool) -> None:
        """Plan what a descriptor stands for, and close it."""
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                self._plan_file(plan, descriptor, path)
            elif stat.S_ISDIR(mode):
                self._plan_directory(plan, descriptor, path, for_all=for_all)
        finally:
            os.close(descriptor)

    def create_overlay(self, directory: int, *, for_all: bool) -> int:
        """Create the overlay of one directory, which may have no mounts in it; return its descriptor."""
        lowers = [b"/proc/self/fd/%d" % descriptor for descriptor in (directory, self._nothing)]
        return mounts.create_read_only_overlay(lowers, rights_of=self._nobody if for_all else 0)

    def _plan_file(self, plan: MountPlan, descriptor: int, path: bytes) -> None:
        mount = kernel.clone_mount(b"/proc/self/fd/%d" % descriptor, recursive=False)
        kernel.set_mount_attributes(mount, b"", add=_LOCKED_DOWN)
        plan.add_mount(mount, path)

    def _plan_directory(self, plan: MountPlan, descriptor: int, path: bytes, *, for_all: bool) -> None:
        real = os.readlink(b"/proc/self/fd/%d" % descriptor)
        inside = real.rstrip(b"/") + b"/"
        if any(point.startswith(inside) for point in self._apart):
            self._plan_entries(plan, real, path, for_all=for_all)
            return
        try:
            plan.add_mount(self.create_overlay(descriptor, for_all=for_all), path)
        except OSError:
            kind = self._find_file_system(real)
            if kind in _WITHOUT_SOCKETS:
                self._plan_file(plan, descriptor, path)
            elif kind == self._find_file_system(b"/"):
                raise
            else:
                plan.add_directory(path, 0o755)

    def _find_file_system(self, real: bytes) -> bytes:
        above = [point for point in self._mounted if (real + b"/").startswith(point.rstrip(b"/") + b"/")]
        return self._mounted[max(above, key=len)] if above else b""

    def _plan_entries(self, plan: MountPlan, real: bytes, path: bytes, *, for_all: bool) -> None:
        """Plan a directory entry by entry: mounts below it would be uncovered in an overlay, which the kernel
        refuses, and on what is not open to everybody nothing could be mounted."""
        mode = stat.S_IMODE(os.stat(real).st_mode)
        plan.add_directory(path, mode)
        if for_all and not mode & stat.S_IXOTH:
            return
        for entry in _scan_directory(real):
            self._count += 1
            if self._count > _MOST_PARTS:
                raise OSError(7, f"more than {_MOST_PARTS:,} places beside mounts, the last one {os.fsdecode(real)}")
            target = path + b"/" + entry.name
            if entry.is_symlink():
                plan.add_link(target, os.readlink(entry.path))
            elif not for_all or entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                try:
                    descriptor = os.open(entry.path, os.O_PATH | os.O_NOFOLLOW)
                except OSError:
                    continue
                self._plan_opened(plan, descriptor, target, for_all=for_all)


def _is_traversable(path: bytes) -> bool:
    above = os.path.dirname(path)
    while above != b"/":
        if os.path.isdir(above) and not os.stat(above).st_mode & stat.S_IXOTH:
            return False
        above = os.path.dirname(above)
    return True


def _scan_directory(directory: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return
