"""The status of a path: its kind, permissions, size, and the state that a review compares."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from core.errors import PathRefused
from core.protocol.review import FileState

PathKind = Literal["file", "directory", "symlink", "other"]

ABSENT = FileState(kind="absent", mode=0)
MAX_EDITED_BYTES = 64 * 1024 * 1024  # bytes of a file that may be edited
PERMISSION_BITS = 0o777  # setuid, setgid and sticky bits are neither recorded nor applied
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CHUNK = 1 << 20


class PathStat(Struct, frozen=True, kw_only=True):
    """Status of a path: `size` in bytes; `mode` the permission bits; `links` the number of names the file has."""

    kind: PathKind
    size: int
    mode: int
    links: int = 1


class DirectoryEntry(Struct, frozen=True, kw_only=True):
    """One name in a directory. A symbolic link is "symlink", whatever it points at.

    `ignored`: by git, or withheld from the agent, if that was looked up.
    """

    name: str
    kind: PathKind
    ignored: bool = False


def read_state_at(directory: int, name: bytes, rel: str) -> tuple[FileState, bytes | None]:
    """Return the state of one name in an open directory. Raises OSError and `PathRefused` (not a file, too large)."""
    file_stat = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(file_stat.st_mode):
        target = os.readlink(name, dir_fd=directory)
        digest = hashlib.sha256(target).hexdigest()
        return FileState(kind="symlink", blob=digest, mode=PERMISSION_BITS, size=len(target)), target
    if not stat.S_ISREG(file_stat.st_mode):
        raise PathRefused(f"{rel!r} is not a regular file but {describe_mode(file_stat.st_mode)}.", code="not_a_file")
    if file_stat.st_size > MAX_EDITED_BYTES:
        raise PathRefused(f"{rel!r} is too large to edit ({file_stat.st_size:,} bytes).", code="too_large")
    descriptor = os.open(name, READ_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        mode = os.fstat(descriptor).st_mode
        data = read_all(descriptor, MAX_EDITED_BYTES)
    finally:
        os.close(descriptor)
    digest = hashlib.sha256(data).hexdigest()
    return FileState(kind="file", blob=digest, mode=mode & PERMISSION_BITS, size=len(data)), data


def read_replaceable_mode(directory: int, name: bytes, rel: str) -> int | None:
    """Return the permissions of a file that may be replaced; None: it is missing. Raises OSError, `PathRefused`."""
    try:
        file_stat = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(file_stat.st_mode):
        raise PathRefused(f"{rel!r} is not a regular file but {describe_mode(file_stat.st_mode)}.", code="not_a_file")
    if file_stat.st_nlink > 1:
        raise PathRefused(f"{rel!r} has a second name (a hard link).", hint="Copy it to a separate file.")
    return file_stat.st_mode & PERMISSION_BITS


def read_all(descriptor: int, limit: int) -> bytes:
    """Read the rest of a file, at most `limit` bytes. Raises OSError."""
    size = os.fstat(descriptor).st_size
    data = os.read(descriptor, min(limit, size + 1))
    if len(data) >= limit or not data or len(data) == size:
        return data
    parts, remaining = [data], limit - len(data)
    while remaining > 0 and (chunk := os.read(descriptor, min(remaining, _CHUNK))):
        parts.append(chunk)
        remaining -= len(chunk)
    return b"".join(parts)


def to_path_stat(file_stat: os.stat_result) -> PathStat:
    """Convert the system's status of a path."""
    mode = file_stat.st_mode & PERMISSION_BITS
    return PathStat(kind=classify_mode(file_stat.st_mode), size=file_stat.st_size, mode=mode, links=file_stat.st_nlink)


def classify_mode(mode: int) -> PathKind:
    """Return the kind of an entry by its `st_mode`."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


def classify_entry(entry: os.DirEntry[str]) -> PathKind:
    """Return the kind of a directory's entry; "other" if it has vanished."""
    with suppress(OSError):
        if entry.is_symlink():
            return "symlink"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        if entry.is_file(follow_symlinks=False):
            return "file"
    return "other"


_KINDS: dict[int, PathKind] = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "symlink"}
_DESCRIPTIONS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


def describe_mode(mode: int) -> str:
    """Return the kind of an entry in words, by its `st_mode`."""
    return _DESCRIPTIONS.get(stat.S_IFMT(mode), "something else")
