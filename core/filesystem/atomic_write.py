"""Writing files whole or not at all, and renames that lose nothing.

A new file in the same directory is written and synced, renamed over the old one, and the directory is synced: after a
failure or a kill the name has either the old bytes or the new ones, and with `durable` the new ones survive a power
cut. Symbolic links are replaced, never followed. Two names are exchanged, and a name is taken only if it is free, by
renameat2(2) on Linux and renameatx_np(2) on macOS, which Python does not wrap: ctypes calls them.

Accepted changes of the project do not use `replace_file`: the promotion exchanges names, so that an edit made by
another program at that moment is not lost (`core.shadow`). Logs and journals are appended to.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from core.filesystem.open_beneath import DIRECTORY
from core.patterns import compile_lazily

PRIVATE = 0o600
_PERMISSION_BITS = 0o777  # setuid, setgid and sticky bits are never set
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_SUPPORTED = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP})  # one number on Linux, two on macOS
_NOT_SYNCABLE = {errno.EINVAL, errno.EBADF, *NOT_SUPPORTED}
_NO_FULL_SYNC = {errno.EINVAL, errno.ENOTTY, *NOT_SUPPORTED}
NameInDirectory = tuple[int, bytes]  # the descriptor of a directory, and a name in it
# The rename call, and its flags.
_CALL, _IF_FREE, _EXCHANGE = ("renameatx_np", 4, 2) if sys.platform == "darwin" else ("renameat2", 1, 2)
_NO_SUCH_CALL = {errno.EINVAL, errno.ENOSYS, errno.EPERM, *NOT_SUPPORTED}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EACCES, *NOT_SUPPORTED}
_PLAN_TEMPORARY = compile_lazily(rb"\.agent-tui-plan-[0-9a-f]{16}\.tmp")
RenameCall = Callable[[int, bytes, int, bytes, int], int]


def replace_file(path: Path, data: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Replace a file's content; its directory must exist. Raises OSError: then the old file remains.

    `durable` False omits the two syncs, for data that can be recreated and is checked when it is read.
    """
    with stream_replacement(path, mode=mode, durable=durable) as file:
        file.write(data)


@contextmanager
def stream_replacement(path: Path, *, mode: int = PRIVATE, durable: bool = True) -> Iterator[BinaryIO]:
    """Replace a file with the content written to the yielded file; an exception leaves the old file. Raises OSError."""
    directory = os.open(path.parent, DIRECTORY)
    try:
        temporary = b".%s.tmp" % secrets.token_hex(8).encode()
        with create_file(directory, temporary, mode, durable=durable) as file:
            yield file
        rename_over(directory, temporary, os.fsencode(path.name), durable=durable)
    finally:
        os.close(directory)


@contextmanager
def create_file(directory: int, name: bytes, mode: int, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file with the permissions `mode` in an open directory, synced at the end; after an error it is
    removed.

    Raises OSError, FileExistsError if the name is taken.
    """
    descriptor = os.open(name, _CREATE_FLAGS, PRIVATE, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(descriptor, mode & _PERMISSION_BITS)
            if durable:
                sync_file(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def rename_over(directory: int, temporary: bytes, name: bytes, *, durable: bool = True) -> None:
    """Rename a finished file over `name`; after an error the temporary file is removed. Raises OSError."""
    try:
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    if durable:
        sync_directory(directory)


def sync_file(descriptor: int) -> None:
    """Make an open file or directory durable. Raises OSError.

    On macOS fsync(2) leaves the data in the cache of the drive, which a power cut empties; F_FULLFSYNC writes that out,
    for everything synced before, too.
    """
    if (full_sync := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_directory(directory: int) -> None:
    """Make renames in a directory durable, if the file system supports that. Raises OSError."""
    try:
        sync_file(directory)
    except OSError as error:
        if error.errno not in _NOT_SYNCABLE:
            raise


def make_temporary_name(number: bytes = b"") -> bytes:
    """Return a short, hidden, unique name for a file that will be renamed. `number`: 8 bytes, else random."""
    return b".agent-tui-%s.tmp" % (number or secrets.token_bytes(8)).hex().encode()


def make_plan_temporary_name() -> bytes:
    """Return a temporary name for a plan. Promotions use other names, so no user's file ever has it."""
    return b".agent-tui-plan-%s.tmp" % secrets.token_bytes(8).hex().encode()


def is_plan_temporary_name(name: bytes) -> bool:
    """True if `make_plan_temporary_name` returns such names."""
    return _PLAN_TEMPORARY.fullmatch(name) is not None


def is_temporary_name(name: str) -> bool:
    """True if `make_temporary_name` or `make_plan_temporary_name` returns such names."""
    return name.startswith(".agent-tui-") and name.endswith(".tmp")


def exchange_names(one: NameInDirectory, other: NameInDirectory) -> bool:
    """Exchange the files of two names in one step.

    Returns False if that is not supported and nothing was done. Raises OSError.
    """
    return _rename_with_flag(one, other, _EXCHANGE)


def move_to_free_name(source: NameInDirectory, target: NameInDirectory) -> None:
    """Rename without ever replacing. Raises OSError, FileExistsError if the name is taken.

    Without the system call it uses a hard link, and on file systems without hard links a check and a rename.
    """
    if _rename_with_flag(source, target, _IF_FREE):
        return
    (above, name), (directory, target_name) = source, target
    try:
        os.link(name, target_name, src_dir_fd=above, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        os.unlink(name, dir_fd=above)
        return
    try:
        os.stat(target_name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, target_name, src_dir_fd=above, dst_dir_fd=directory)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target_name)


def _rename_with_flag(one: NameInDirectory, other: NameInDirectory, flag: int) -> bool:
    import ctypes

    call = _load_rename_call()
    if call is None:
        return False
    if call(one[0], one[1], other[0], other[1], flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_SUCH_CALL:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(other[1]))


@cache
def _load_rename_call() -> RenameCall | None:
    """Return the C library's rename call; None: it has none."""
    import ctypes

    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), _CALL)
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    call: RenameCall = function
    return call
