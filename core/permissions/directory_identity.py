"""The identity of a directory, by which another one in its place is told apart, even with its inode number.

A file system gives a freed inode number to the next directory that is made, so device and inode are not enough: the
time of birth is (statx), or else the number of the inode's generation (within the handle that name_to_handle_at gives).
Where neither is to be had, `born` is "", and only the contents of the project tell one from another.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from msgspec import Struct

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_BTIME = 80  # bytes into struct statx: seconds (s64), nanoseconds (u32)
_STATX_SIZE = 256
_MAX_HANDLE = 128


class DirectoryIdentity(Struct, frozen=True):
    """`born`: "b…" a time of birth, "g…" a handle with a generation, "" neither is known."""

    device: int
    inode: int
    born: str


def identify_directory(directory: Path) -> DirectoryIdentity:
    """Return the identity of a directory. Raises OSError."""
    stats = directory.stat()
    born = getattr(stats, "st_birthtime", None)
    if born is None and sys.platform.startswith("linux"):
        path = os.fsencode(directory)
        birth_text = _read_birth_time(path) or _read_generation(path)
    else:
        birth_text = "" if born is None else f"b{born!r}"
    return DirectoryIdentity(stats.st_dev, stats.st_ino, birth_text)


def _read_birth_time(path: bytes) -> str:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if call is None or call(_AT_FDCWD, path, 0, _STATX_BTIME, buffer) != 0:
        return ""
    seconds, nanoseconds = struct.unpack_from("=qI", buffer.raw, _BTIME)
    is_known = struct.unpack_from("=I", buffer.raw)[0] & _STATX_BTIME and (seconds or nanoseconds)
    return f"b{seconds}.{nanoseconds:09}" if is_known else ""


def _read_generation(path: bytes) -> str:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "name_to_handle_at", None)
    handle = ctypes.create_string_buffer(struct.pack("=Ii", _MAX_HANDLE, 0), 8 + _MAX_HANDLE)
    if call is None or call(_AT_FDCWD, path, handle, ctypes.byref(ctypes.c_int()), 0) != 0:
        return ""
    size, kind = struct.unpack_from("=Ii", handle.raw)
    return f"g{kind}:{handle.raw[8 : 8 + size].hex()}"
