"""Renames that lose nothing: two names exchanged at once, and a name taken only if it is free. Python has no call for
either: renameat2(2) of Linux and renameatx_np(2) of macOS are called by ctypes."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from collections.abc import Callable
from functools import cache

NameInDirectory = tuple[int, bytes]  # an open directory, and a name in it
# The call, and its flags.
_CALL, _IF_FREE, _EXCHANGE = ("renameatx_np", 4, 2) if sys.platform == "darwin" else ("renameat2", 1, 2)
_NO_SUCH_CALL = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}
_PLAN_TEMPORARY = re.compile(rb"\.agent-tui-plan-[0-9a-f]{16}\.tmp")
RenameCall = Callable[[int, bytes, int, bytes, int], int]


def make_temporary_name(number: bytes = b"") -> bytes:
    """Return a name for a file that will be renamed: short, hidden, ours, unique. `number`: 8 bytes, else random."""
    return b".agent-tui-%s.tmp" % (number or secrets.token_bytes(8)).hex().encode()


def make_plan_temporary_name() -> bytes:
    """Return a temporary name for a plan: no promotion has one, so nothing of the user's ever has it."""
    return b".agent-tui-plan-%s.tmp" % secrets.token_bytes(8).hex().encode()


def is_plan_temporary_name(name: bytes) -> bool:
    """True if `make_plan_temporary_name` gives such names."""
    return _PLAN_TEMPORARY.fullmatch(name) is not None


def is_temporary_name(name: str) -> bool:
    """True if `make_temporary_name` or `make_plan_temporary_name` gives such names."""
    return name.startswith(".agent-tui-") and name.endswith(".tmp")


def exchange_names(one: NameInDirectory, other: NameInDirectory) -> bool:
    """Exchange what two names stand for, in one step.

    False: not supported here, and nothing was done. Raises OSError.
    """
    return _rename_with_flag(one, other, _EXCHANGE)


def move_to_free_name(source: NameInDirectory, target: NameInDirectory) -> None:
    """Rename without ever replacing. Raises OSError, FileExistsError if the name is taken.

    Without the call: by a second name (a hard link), and on file systems without those by a check and a rename.
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
    """Return the C library's call; None: it has none (or a system that has no such thing)."""
    import ctypes

    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), _CALL)
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    call: RenameCall = function
    return call
