"""What one stack of layers has otherwise than another that it began as: laid out as a layer of its own, by hard links.

Nothing is read but names and stats: files that are the same have the same inode, or, where they had to be copied, the
same size, mode and time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.shadow.frozen import link
from core.shadow.overlay import is_opaque, make_whiteout, set_opaque
from core.shadow.stack import Layered, Stack
from core.workspace.names import to_os

_NOTHING: Final = Stack(())
_SILENT: Final = object()  # a stack says nothing of a name
_Entry = Layered | None | object


class Delta:
    """From `begun` to `now`; `paths` are the files, links and removals that differ, `now`'s are what is laid out."""

    def __init__(self, begun: Stack, now: Stack) -> None:
        self._begun = begun
        self._now = now
        self._found: dict[str, Layered | None] = {}
        self._opaque: dict[str, None] = {}
        self._below(".", begun)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self._found)

    def without(self, path: str) -> None:
        """Leave out a path and all that is below it."""
        kept = {each: entry for each, entry in self._found.items() if each != path and not each.startswith(f"{path}/")}
        self._found = kept

    def lay_out(self, upper: Path) -> None:
        """Put it into an empty layer. Raises OSError."""
        for path, entry in self._found.items():
            place = upper / os.fsdecode(to_os(path))
            self._directories(path, upper)
            if entry is None:
                make_whiteout(place)
            elif entry.is_directory:
                self._directory(place, entry)
            else:
                link(Path(os.fsdecode(entry.place)), place)
        for path in self._opaque:
            place = upper / os.fsdecode(to_os(path))
            if place.is_dir():
                set_opaque(place, True)

    def _directories(self, path: str, upper: Path) -> None:
        """The directories that lead to a path, as they are now."""
        above = path.split("/")[:-1]
        for count in range(1, len(above) + 1):
            rel = "/".join(above[:count])
            place = upper / os.fsdecode(to_os(rel))
            if not place.is_dir():
                found = self._now.find(rel)
                if isinstance(found, Layered):
                    self._directory(place, found)
                else:
                    place.mkdir()

    def _directory(self, place: Path, entry: Layered) -> None:
        if not place.is_dir():
            place.mkdir(mode=0o700)
        place.chmod(stat.S_IMODE(entry.stats.st_mode) | 0o700)

    # comparing

    def _below(self, path: str, begun: Stack) -> None:
        """Compare a directory of both; `begun` is empty where nothing of the one before counts any more."""
        waiting = [(path, begun)]
        while waiting:
            waiting += self._directory_compared(*waiting.pop())

    def _directory_compared(self, path: str, begun: Stack) -> Iterator[tuple[str, Stack]]:
        before, after = begun.listing(path), self._now.listing(path)
        if path != "." and after.closed and not before.closed and self._is_opaque_now(path):
            self._opaque[path] = None
            begun, before = _NOTHING, _NOTHING.listing(path)
        for name in sorted({*before.entries, *after.entries}):
            rel = name if path == "." else f"{path}/{name}"
            old: _Entry = before.entries.get(name, _SILENT)
            new: _Entry = after.entries.get(name, _SILENT)
            both_directories = _is_directory(old) and _is_directory(new)
            if not _same(old, new) and not (new is _SILENT and old is None):
                self._found[rel] = new if isinstance(new, Layered) else None
            if _is_directory(new):
                yield rel, begun if both_directories else _NOTHING

    def _is_opaque_now(self, path: str) -> bool:
        found = self._now.find(path)
        return isinstance(found, Layered) and is_opaque(found.place)


def _is_directory(entry: _Entry) -> bool:
    return isinstance(entry, Layered) and entry.is_directory


def _same(old: _Entry, new: _Entry) -> bool:
    if not isinstance(old, Layered) or not isinstance(new, Layered):
        return old is new
    one, other = old.stats, new.stats
    if stat.S_IFMT(one.st_mode) != stat.S_IFMT(other.st_mode):
        return False
    if stat.S_ISDIR(one.st_mode):
        return stat.S_IMODE(one.st_mode) == stat.S_IMODE(other.st_mode)
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
        return True
    return _marks(one) == _marks(other)


def _marks(found: os.stat_result) -> tuple[int, int, int]:
    return stat.S_IMODE(found.st_mode), found.st_size, found.st_mtime_ns
