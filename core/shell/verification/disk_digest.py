"""A digest of the inputs of a check besides the pending text: the project's files on disk.

Files that git does not ignore count by their content, so touching one, or rewriting the same bytes, changes nothing.
Ignored files (dependencies, build outputs) may be very large, so their names, sizes and times of change count. A
project that exceeds the bounds has no digest, and results about it are never reused.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from core.filesystem.open_beneath import DIRECTORY, open_beneath
from core.workspace import IgnoreRules, Workspace
from core.workspace.file_names import from_os_name

MAX_ENTRIES: Final = 60_000
MAX_BYTES: Final = 256 << 20  # bytes of content
_CHUNK: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_Signature = tuple[int, int, int, int]


class _TooLarge(Exception):
    """The project is over the bounds."""


class DiskDigest(Struct, eq=False):
    """The digest of one workspace. Contents are read once per state of a file; use one thread at a time.

    `max_entries`, `max_bytes`: the bounds."""

    workspace: Workspace
    max_entries: int = MAX_ENTRIES
    max_bytes: int = MAX_BYTES
    _known: dict[bytes, tuple[_Signature, str]] = field(default_factory=dict)

    def compute(self) -> str:
        """Return the digest of the present files, "" if the project is too large; slow, for a thread."""
        match_in = IgnoreRules(self.workspace).open_snapshot()
        digest, entries, read = hashlib.sha256(), dict[bytes, tuple[_Signature, str]](), 0
        try:
            for count, (path, stats, is_ignored) in enumerate(self._walk(match_in)):
                if count >= self.max_entries:
                    raise _TooLarge
                signature = (stats.st_ino, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns)
                if is_ignored or not stat.S_ISREG(stats.st_mode):
                    content = repr(signature) if stat.S_ISREG(stats.st_mode) else self._read_link(path)
                elif (cached_entry := self._known.get(path)) is not None and cached_entry[0] == signature:
                    content = cached_entry[1]
                else:
                    read += stats.st_size
                    if read > self.max_bytes:
                        raise _TooLarge
                    content = self._hash_file(path)
                entries[path] = (signature, content)
                digest.update(repr((path, stat.S_IMODE(stats.st_mode), content)).encode())
        except _TooLarge:
            return ""
        self._known = entries
        return digest.hexdigest()

    def _walk(
        self, match_in: Callable[[str], Callable[[str, bool], bool]]
    ) -> Iterator[tuple[bytes, os.stat_result, bool]]:
        """Yield all files and links except those of `.git`, sorted by name within a directory."""
        root = os.fsencode(self.workspace.root)
        waiting: list[tuple[bytes, bool]] = [(b"", False)]
        while waiting:
            directory, is_ignored = waiting.pop()
            name = from_os_name(directory) or "."
            matches = None if is_ignored else match_in(name)
            for entry in self._list_entries(root, directory):
                if entry.name == b".git":
                    continue
                path = directory + b"/" + entry.name if directory else entry.name
                is_directory = entry.is_dir(follow_symlinks=False)
                is_left_out = is_ignored or (matches is not None and matches(from_os_name(entry.name), is_directory))
                if is_directory:
                    waiting.append((path, is_left_out))
                    continue
                with suppress(FileNotFoundError):
                    yield path, entry.stat(follow_symlinks=False), is_left_out

    def _list_entries(self, root: bytes, directory: bytes) -> list[os.DirEntry[bytes]]:
        with suppress(OSError), os.scandir(root + b"/" + directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
        return []

    def _read_link(self, path: bytes) -> str:
        with suppress(OSError):
            return repr(Path(os.fsdecode(os.fsencode(self.workspace.root) + b"/" + path)).readlink())
        return "special"

    def _hash_file(self, path: bytes) -> str:
        digest = hashlib.sha256()
        top = os.open(self.workspace.root, DIRECTORY)
        try:
            descriptor = open_beneath(top, path, _READ)
        except OSError:
            return "unreadable"
        finally:
            os.close(top)
        try:
            while data := os.read(descriptor, _CHUNK):
                digest.update(data)
        finally:
            os.close(descriptor)
        return digest.hexdigest()
