"""The machine's directories as a command sees them: read-only overlays of each, never the directories themselves.

Being read-only keeps nobody from connecting to a unix socket or from writing into a pipe. In an overlay every file has
an inode of its own, so that behind such a name there is nobody, whoever made it, wherever and whenever (SAFETY C1).
As root the overlays reach what they show with the rights of a user who owns nothing: what is not for everybody's eyes
is not for the command's. Runs in `python -I -S`.
"""

from __future__ import annotations

import os
import stat

from core.sandbox import kernel, mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from core.sandbox.view import Plan

_LOCKED_DOWN = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEVICES
# No socket lives in one of these, and overlayfs may not take them.
_NO_SOCKETS = frozenset({b"vfat", b"exfat", b"msdos", b"ntfs3", b"iso9660", b"udf", b"squashfs", b"erofs", b"cramfs"})
_MOST = 5_000  # places that a directory with mounts in it may be split into


class Trees:
    """Takes directories by descriptor, to be attached by a `Plan`. `nothing`: the path of an empty directory that is
    mounted here. `needed`: absolute, real paths that something will be mounted on, wherever they are."""

    def __init__(self, nothing: bytes, needed: Iterable[bytes]) -> None:
        self._nothing = os.open(nothing, os.O_PATH | os.O_DIRECTORY)
        self._mounted = mounts.kinds_of_mounts()
        self._nobody = kernel.other_id() if os.geteuid() == 0 else 0
        self._apart = {*self._mounted, *(path for path in needed if self._nobody and not _is_open(path))}
        self._count = 0

    def show(self, plan: Plan, path: bytes, *, own: bool = False) -> None:
        """Plan to show what is at an absolute path, at this path; where links lead, in their place.

        What is neither a directory nor a regular file is left out, and so is a file system that no overlay takes.
        `own`: also what is not for everybody. `OSError` when the machine's own root can't be shown like this.
        """
        place = os.open(path, os.O_PATH)
        try:
            mode = os.fstat(place).st_mode
            if stat.S_ISREG(mode):
                self._show_file(plan, place, path)
            elif stat.S_ISDIR(mode):
                self._show_directory(plan, place, path, for_all=self._nobody > 0 and not own)
        finally:
            os.close(place)

    def take(self, directory: int, *, for_all: bool) -> int:
        """The overlay of one directory, which may have no mounts in it: its descriptor."""
        lowers = [b"/proc/self/fd/%d" % each for each in (directory, self._nothing)]
        return mounts.read_only(lowers, rights_of=self._nobody if for_all else 0)

    def _show_file(self, plan: Plan, place: int, path: bytes) -> None:
        taken = kernel.clone_mount(b"/proc/self/fd/%d" % place, recursive=False)
        kernel.set_attributes(taken, b"", add=_LOCKED_DOWN)
        plan.mount(taken, path)

    def _show_directory(self, plan: Plan, place: int, path: bytes, *, for_all: bool) -> None:
        real = os.readlink(b"/proc/self/fd/%d" % place)
        inside = real.rstrip(b"/") + b"/"
        if any(point.startswith(inside) for point in self._apart):
            self._show_parts(plan, real, path, for_all=for_all)
            return
        try:
            plan.mount(self.take(place, for_all=for_all), path)
        except OSError:
            kind = self._kind(real)
            if kind in _NO_SOCKETS:
                self._show_file(plan, place, path)
            elif kind == self._kind(b"/"):
                raise
            else:
                plan.directory(path, 0o755)

    def _kind(self, real: bytes) -> bytes:
        above = [point for point in self._mounted if (real + b"/").startswith(point.rstrip(b"/") + b"/")]
        return self._mounted[max(above, key=len)] if above else b""

    def _show_parts(self, plan: Plan, real: bytes, path: bytes, *, for_all: bool) -> None:
        """A directory part by part: mounts below it would be uncovered in an overlay, which the kernel refuses, and on
        what is not open to everybody nothing could be mounted."""
        mode = stat.S_IMODE(os.stat(real).st_mode)
        plan.directory(path, mode)
        if for_all and not mode & stat.S_IXOTH:
            return
        for entry in _entries(real):
            self._count += 1
            if self._count > _MOST:
                raise OSError(7, f"more than {_MOST:,} places beside mounts, the last one {os.fsdecode(real)}")
            target = path + b"/" + entry.name
            if entry.is_symlink():
                plan.link(target, os.readlink(entry.path))
            elif not for_all or entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                self._show_part(plan, entry.path, target, for_all=for_all)

    def _show_part(self, plan: Plan, path: bytes, target: bytes, *, for_all: bool) -> None:
        try:
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            mode = os.fstat(place).st_mode
            if stat.S_ISDIR(mode):
                self._show_directory(plan, place, target, for_all=for_all)
            elif stat.S_ISREG(mode):
                self._show_file(plan, place, target)
        finally:
            os.close(place)


def _is_open(path: bytes) -> bool:
    """Whether everybody may go through all directories above a path."""
    above = os.path.dirname(path)
    while above != b"/":
        if os.path.isdir(above) and not os.stat(above).st_mode & stat.S_IXOTH:
            return False
        above = os.path.dirname(above)
    return True


def _entries(directory: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as found:
            yield from found
    except OSError:
        return
