"""The paths that git tracks, read from its index without running git (gitformat-index(5), versions 2 to 4)."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from struct import unpack

from msgspec import Struct

_HEADER, _STAT = 12, 40
_EXTENDED, _NAME_LENGTH = 0x4000, 0x0FFF
_ASSUME_UNCHANGED, _SKIP_WORKTREE, _INTENT_TO_ADD = 0x8000, 0x4000, 0x2000  # the last two are extended flags
_STAGE = 0x3000
_MODE = slice(24, 28)
_WORD = 0xFFFFFFFF  # the fields are truncated to 32 bits
_COMPARED = 1_000  # entries


class TrackedPaths(Struct, frozen=True):
    """The paths of an index, as bytes, sorted; `facts` are the entries without cached file status."""

    paths: list[bytes]
    facts: list[bytes]

    def is_tracked(self, path: bytes) -> bool:
        """True if git tracks the file."""
        index = bisect_left(self.paths, path)
        return index < len(self.paths) and self.paths[index] == path

    def has_tracked_below(self, directory: bytes) -> bool:
        """True if git tracks a file in or below the directory."""
        prefix = directory + b"/"
        index = bisect_left(self.paths, prefix)
        return index < len(self.paths) and self.paths[index].startswith(prefix)

    def select_below(self, directory: bytes) -> TrackedPaths:
        """Return the tracked paths below a directory, relative to it."""
        prefix = directory + b"/"
        first, end = (bisect_left(self.paths, key) for key in (prefix, directory + b"0"))  # "0" follows "/"
        return TrackedPaths([path[len(prefix) :] for path in self.paths[first:end]], self.facts[first:end])


NO_TRACKED_PATHS = TrackedPaths([], [])


def parse_index(data: bytes) -> TrackedPaths | None:
    """Return the entries of an index file; None = it is damaged, or of an unknown version."""
    for oid in (20, 32):  # sha1 and sha256 repositories; the file does not say which it is of
        with suppress(IndexError, ValueError):
            return _parse_entries(data, oid)
    return None


def is_same_index(one: bytes, other: bytes) -> bool:
    """True if two index files have the same content: git may only have refreshed its cached file status."""
    old, new = parse_index(one), parse_index(other)
    return old is not None and new is not None and old.facts == new.facts


def matches_files_of(data: bytes, root: Path) -> bool:
    """True if an index has the status of a file below `root`: inode and change time are those of that file.

    A copy of the tree has others. Only the first entries are compared.
    """
    for oid in (20, 32):
        with suppress(IndexError, ValueError):
            first = islice(_iterate_entries(data, oid), _COMPARED)
            return any(_is_status_of(data[offset : offset + _STAT], root, name) for offset, _, name in first)
    return False


def _is_status_of(status: bytes, root: Path, name: bytes) -> bool:
    seconds, nanoseconds, inode = unpack(">II12xI", status[:24])
    try:
        file_stat = (root / os.fsdecode(name)).lstat()
    except OSError:
        return False
    change_time = divmod(file_stat.st_ctime_ns, 1_000_000_000)
    return inode != 0 and (seconds, nanoseconds, inode) == (
        change_time[0] & _WORD,
        change_time[1],
        file_stat.st_ino & _WORD,
    )


def _parse_entries(data: bytes, oid: int) -> TrackedPaths:
    paths: list[bytes] = []
    facts: list[bytes] = []
    for offset, start, name in _iterate_entries(data, oid):
        paths.append(name)
        facts.append(data[offset + 24 : offset + 28] + data[offset + _STAT : start] + name)
    if paths != sorted(paths):
        raise ValueError("not sorted")
    return TrackedPaths(paths, facts)


def _iterate_entries(data: bytes, oid: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the offset of every entry, the offset of its name, and the name. Raises ValueError and IndexError."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError("no index")
    offset, name = _HEADER, b""
    for _ in range(count):
        flags_offset = offset + _STAT + oid
        flags = int.from_bytes(data[flags_offset : flags_offset + 2], "big")
        start = flags_offset + 2 + 2 * bool(flags & _EXTENDED)
        if version == 4:
            dropped_count, start = _parse_offset(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - dropped_count] + data[start:end]
            following = end + 1
        else:
            end = data.index(b"\0", start)
            name = data[start:end]
            following = offset + ((end - offset + 8) & ~7)
        if not name or (flags & _NAME_LENGTH) != min(len(name), _NAME_LENGTH):
            raise ValueError("no index with names of this length")
        yield offset, start, name
        offset = following


def _parse_offset(data: bytes, offset: int) -> tuple[int, int]:
    """Parse the offset encoding of pack files; return the value and its end."""
    value = data[offset] & 0x7F
    while data[offset] & 0x80:
        offset += 1
        value = ((value + 1) << 7) | (data[offset] & 0x7F)
    return value, offset + 1


class IndexEntry(Struct, frozen=True):
    """One entry of an index. `status`: the cached status of the file with its mode, 40 bytes; `flags` and `extended`:
    its two words of flags; `oid`: the name of its object."""

    name: bytes
    status: bytes
    oid: bytes
    flags: int
    extended: int

    @property
    def key(self) -> tuple[bytes, int]:
        """The name and the stage, by which entries are sorted."""
        return self.name, self.flags & _STAGE

    @property
    def content(self) -> tuple[bytes, bytes, int]:
        """The staged content: mode, object, and the flag that it is only intended to be added."""
        return self.status[_MODE], self.oid, self.extended & _INTENT_TO_ADD


def read_entries(data: bytes, oid: int) -> list[IndexEntry]:
    """Return the entries of an index whose object names have `oid` bytes. Raises ValueError for a damaged one."""
    entries = []
    try:
        for offset, start, name in _iterate_entries(data, oid):
            flags_offset = offset + _STAT + oid
            flags = int.from_bytes(data[flags_offset : flags_offset + 2], "big")
            extended_flags = int.from_bytes(data[flags_offset + 2 : start], "big")
            entries.append(
                IndexEntry(
                    name, data[offset : offset + _STAT], data[offset + _STAT : flags_offset], flags, extended_flags
                )
            )
    except IndexError as error:
        raise ValueError("no index") from error
    return entries


def rebuild_index(now: list[IndexEntry], before: list[IndexEntry], oid: int) -> bytes:
    """Return an index file that stages the content of `now`, and nothing else of it.

    Cached file status and the flags that make git ignore a file are those of `before`. Extensions are left out: a
    cached tree could name content that no entry has, a monitor or a shared index another file.
    """
    previous_entries = {entry.key: entry for entry in before}
    entries = sorted(
        (_restore_marks(entry, previous_entries.get(entry.key)) for entry in now), key=lambda entry: entry.key
    )
    version = 3 if any(entry.extended for entry in entries) else 2
    body = b"DIRC" + version.to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    body += b"".join(map(_format_entry, entries))
    return body + hashlib.new("sha256" if oid == 32 else "sha1", body, usedforsecurity=False).digest()


def _restore_marks(entry: IndexEntry, previous_entry: IndexEntry | None) -> IndexEntry:
    status = bytes(24) + entry.status[_MODE] + bytes(12)
    if previous_entry is not None and previous_entry.content == entry.content:
        status = previous_entry.status
    marks = (
        (previous_entry.flags & _ASSUME_UNCHANGED, previous_entry.extended & _SKIP_WORKTREE)
        if previous_entry is not None
        else (0, 0)
    )
    extended_flags = entry.extended & _INTENT_TO_ADD | marks[1]
    flags = entry.flags & _STAGE | min(len(entry.name), _NAME_LENGTH) | marks[0] | (_EXTENDED if extended_flags else 0)
    return IndexEntry(entry.name, status, entry.oid, flags, extended_flags)


def _format_entry(entry: IndexEntry) -> bytes:
    data = entry.status + entry.oid + entry.flags.to_bytes(2, "big")
    data += entry.extended.to_bytes(2, "big") if entry.extended else b""
    data += entry.name
    return data + bytes(8 - len(data) % 8)
