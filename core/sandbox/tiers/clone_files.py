"""Copies of files that share their blocks with the originals, where the file system can do that.

macOS clones a file or a whole directory in one call (clonefile(2), on APFS); Linux shares the blocks of one file
(FICLONE, on Btrfs, XFS and bcachefs) or copies inside the kernel. Elsewhere the bytes are read and written. The system
calls are behind `CloneCalls`, so that each answer of each system can be tried on any machine.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from core.filesystem.removal import remove_path

Outcome = Literal["cloned", "copied", "unreadable", "offline"]
PathClone = Callable[[bytes, bytes], None]
BlockClone = Callable[[int, int], None]
RangeCopy = Callable[[int, int, int], int]
NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FICLONE = 0x40049409
_CLONE_NOFOLLOW, _CLONE_NOOWNERCOPY = 1, 2
_CHUNK = 1 << 24
_NOT_ON_THIS_DISK = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOTTY}
OTHER_VOLUME = "The project is on another volume than agent-tui's state directory, so its files are copied, not cloned."
NO_CLONES = "The project's file system can't clone files, so they are copied."


class CloneCalls(Struct, frozen=True, kw_only=True):
    """The system's calls for cloning, each raising OSError; None: it has no such call.

    `clone_path` clones a file or a directory to a path that must not exist; `clone_blocks` a file into an open one;
    `copy_range` copies up to a number of bytes between open files and returns how many it copied.
    """

    clone_path: PathClone | None = None
    clone_blocks: BlockClone | None = None
    copy_range: RangeCopy | None = None


@cache
def get_clone_calls() -> CloneCalls:
    """Return the calls of this system."""
    if sys.platform == "darwin":
        return CloneCalls(clone_path=_load_clonefile())
    if not sys.platform.startswith("linux"):
        return CloneCalls()
    return CloneCalls(clone_blocks=_clone_blocks, copy_range=os.copy_file_range)


def _clone_blocks(reader: int, writer: int) -> None:
    import fcntl

    fcntl.ioctl(writer, _FICLONE, reader)


def _load_clonefile() -> PathClone:
    import ctypes

    function = ctypes.CDLL("libSystem.dylib", use_errno=True).clonefile
    function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint)

    def clonefile(source: bytes, target: bytes) -> None:
        if function(source, target, _CLONE_NOFOLLOW | _CLONE_NOOWNERCOPY):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), source)

    return clonefile


class Cloner:
    """Clones the files of one copy. A way that its file system refused is not tried again for the next file.

    `refusal`: on a system whose disks can usually clone, why files are copied instead; else "".
    """

    def __init__(self, calls: CloneCalls | None = None) -> None:
        self._calls = calls or get_clone_calls()
        self._can_clone = True
        self.refusal = ""

    def clone_tree(self, source: bytes, target: bytes) -> bool:
        """Clone a directory in one call, where the system has one; `target` must not exist.

        Returns False if it can't be cloned so (no such call, a socket or an offline file inside, another volume): then
        there is no target, and its files are to be cloned one by one.
        """
        if self._calls.clone_path is None or not self._can_clone:
            return False
        try:
            self._calls.clone_path(source, target)
        except OSError as error:
            if error.errno == errno.EXDEV:
                self._give_up(error)
            remove_path(Path(os.fsdecode(target)))
            return False
        return True

    def clone_file(self, source: bytes, target: bytes) -> Outcome:
        """Make `target`, which must not exist, a file with the bytes, permissions and times of `source`.

        No link is followed. An unreadable file becomes an empty one without permissions, and so does one that is
        "offline": its content is only in the cloud, and fetching it could take any time. Raises OSError.
        """
        if self._calls.clone_path is not None and self._can_clone:
            try:
                self._calls.clone_path(source, target)
            except OSError as error:
                if (outcome := self._handle_refusal(error)) is not None:
                    os.close(os.open(target, NEW_FILE, 0))
                    return outcome
            else:
                _clear_flags(target)
                return "cloned"
        return self._copy_file(source, target)

    def _handle_refusal(self, error: OSError) -> Outcome | None:
        """Return the outcome of a file that can't be read; None: its bytes can be copied. Raises any other error."""
        if error.errno == errno.EDEADLK:
            return "offline"
        if error.errno in {errno.EACCES, errno.EPERM}:
            return "unreadable"
        if error.errno != errno.EXDEV and error.errno not in _NOT_ON_THIS_DISK:
            raise error
        self._give_up(error)
        return None

    def _give_up(self, error: OSError) -> None:
        self._can_clone = False
        if self._calls.clone_path is not None:
            self.refusal = OTHER_VOLUME if error.errno == errno.EXDEV else NO_CLONES

    def _copy_file(self, source: bytes, target: bytes) -> Outcome:
        try:
            reader = os.open(source, _READ)
        except PermissionError:
            os.close(os.open(target, NEW_FILE, 0))
            return "unreadable"
        try:
            info = os.fstat(reader)
            writer = os.open(target, NEW_FILE, 0o600)
            try:
                outcome = self._copy_bytes(reader, writer)
                os.fchmod(writer, info.st_mode & 0o777)
                os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
            finally:
                os.close(writer)
        except OSError as error:
            if error.errno != errno.EDEADLK:
                raise
            os.truncate(target, 0)
            os.chmod(target, 0)
            return "offline"
        finally:
            os.close(reader)
        return outcome

    def _copy_bytes(self, reader: int, writer: int) -> Outcome:
        if self._calls.clone_blocks is not None and self._can_clone:
            try:
                self._calls.clone_blocks(reader, writer)
            except OSError as error:
                self._give_up(error)
            else:
                return "cloned"
        if self._calls.copy_range is not None:
            try:
                while self._calls.copy_range(reader, writer, _CHUNK):
                    pass
            except OSError:
                os.lseek(reader, 0, os.SEEK_SET)
                os.ftruncate(writer, 0)
                os.lseek(writer, 0, os.SEEK_SET)
            else:
                return "copied"
        while piece := os.read(reader, _CHUNK):
            view = memoryview(piece)
            while view:
                view = view[os.write(writer, view) :]
        return "copied"


def _clear_flags(target: bytes) -> None:
    """Clear the flags of a clone: one that is immutable, as its original, could not even be removed again."""
    if getattr(os.lstat(target), "st_flags", 0):
        os.chflags(target, 0, follow_symlinks=False)  # type: ignore[attr-defined,unused-ignore]
