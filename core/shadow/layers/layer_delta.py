"""The difference between two stacks of layers, written as a layer of its own by hard links.

Nothing is read but names and stats: files that are the same have the same inode, or, where they had to be copied, the
same size, mode and time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.shadow.content.paths import list_parents
from core.shadow.layers.layer_files import link_entry
from core.shadow.layers.layer_stack import NO_LAYERS, LayeredEntry, LayerStack
from core.shadow.layers.overlayfs import get_place, is_opaque, make_whiteout, set_opaque

_UNKNOWN: Final = object()  # a stack says nothing of a name
_Entry = LayeredEntry | None | object


class LayerDelta:
    """The difference from `old_stack` to `now`; `paths` are the files, links and removals that differ."""

    def __init__(self, old_stack: LayerStack, now: LayerStack) -> None:
        self._begun = old_stack
        self._now = now
        self._found: dict[str, LayeredEntry | None] = {}
        self._opaque: dict[str, None] = {}
        waiting = [(".", old_stack)]
        while waiting:
            waiting += self._compare_directory(*waiting.pop())

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self._found)

    def exclude(self, path: str) -> None:
        """Exclude a path and everything below it."""
        remaining_entries = {
            child: entry for child, entry in self._found.items() if child != path and not child.startswith(f"{path}/")
        }
        self._found = remaining_entries

    def exclude_removals(self, path: str) -> None:
        """Exclude what is only no longer kept at a path and below it: it was set aside, not removed."""
        self._found = {
            child: entry
            for child, entry in self._found.items()
            if entry is not None or (child != path and not child.startswith(f"{path}/"))
        }

    def write_to(self, upper: Path) -> None:
        """Write the difference into an empty layer. Raises OSError."""
        for path, entry in self._found.items():
            target = get_place(upper, path)
            self._make_parents(path, upper)
            if entry is None:
                make_whiteout(target)
            elif entry.is_directory:
                self._make_directory(target, entry)
            else:
                link_entry(Path(os.fsdecode(entry.place)), target)
        for path in self._opaque:
            target = get_place(upper, path)
            if target.is_dir():
                set_opaque(target, True)

    def _make_parents(self, path: str, upper: Path) -> None:
        """Make the directories that lead to a path, with their modes of now."""
        for rel in list_parents(path):
            target = get_place(upper, rel)
            if not target.is_dir():
                entry = self._now.find(rel)
                if isinstance(entry, LayeredEntry):
                    self._make_directory(target, entry)
                else:
                    target.mkdir()

    def _make_directory(self, path: Path, entry: LayeredEntry) -> None:
        if not path.is_dir():
            path.mkdir(mode=0o700)
        path.chmod(stat.S_IMODE(entry.stats.st_mode) | 0o700)

    # comparing

    def _compare_directory(self, path: str, old_stack: LayerStack) -> Iterator[tuple[str, LayerStack]]:
        """Compare a directory of both, and yield those in it; `old_stack` is empty where it no longer counts."""
        before, after = old_stack.list_directory(path), self._now.list_directory(path)
        entry = self._now.find(path) if path != "." and after.closed and not before.closed else None
        if isinstance(entry, LayeredEntry) and is_opaque(entry.place):
            self._opaque[path] = None
            old_stack, before = NO_LAYERS, NO_LAYERS.list_directory(path)
        for name in sorted({*before.entries, *after.entries}):
            rel = name if path == "." else f"{path}/{name}"
            old: _Entry = before.entries.get(name, _UNKNOWN)
            new: _Entry = after.entries.get(name, _UNKNOWN)
            both_directories = _is_directory(old) and _is_directory(new)
            if not _is_same(old, new) and not (new is _UNKNOWN and old is None):
                self._found[rel] = new if isinstance(new, LayeredEntry) else None
            if _is_directory(new):
                yield rel, old_stack if both_directories else NO_LAYERS


def _is_directory(entry: _Entry) -> bool:
    return isinstance(entry, LayeredEntry) and entry.is_directory


def _is_same(old: _Entry, new: _Entry) -> bool:
    if not isinstance(old, LayeredEntry) or not isinstance(new, LayeredEntry):
        return old is new
    one, other = old.stats, new.stats
    if stat.S_IFMT(one.st_mode) != stat.S_IFMT(other.st_mode):
        return False
    if stat.S_ISDIR(one.st_mode):
        return stat.S_IMODE(one.st_mode) == stat.S_IMODE(other.st_mode)
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
        return True
    old_signature, new_signature = (
        (stat.S_IMODE(stats.st_mode), stats.st_size, stats.st_mtime_ns) for stats in (one, other)
    )
    return old_signature == new_signature
