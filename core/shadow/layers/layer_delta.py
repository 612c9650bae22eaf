"""Differences of layers, written as new layers: between two stacks, and of a layer that a running process still writes.

Between two stacks only names and stats are read: files that are the same have the same inode or, where they had to be
copied, the same size, mode and time. The new layer consists of hard links.

A running process continues to write to its own layer, so nothing in that is moved, linked or changed. Files are copied
from it; a copy that began while its file was written is repeated the next time, as its signature is taken first.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.filesystem.open_beneath import open_parent
from core.filesystem.overlay_support import is_opaque, make_whiteout, set_opaque
from core.protocol.paths import list_parents
from core.shadow.layers.layer_files import copy_file, link_entry, make_parent_directories
from core.shadow.layers.layer_stack import NO_LAYERS, LayeredEntry, LayerStack
from core.shadow.layers.overlayfs import LayerEntry, encode_layer_path, get_layer_path, scan_layer
from core.workspace.path_status import PERMISSION_BITS

_UNKNOWN: Final = object()  # the stack has no entry and no whiteout for a name
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
        """Exclude removals at a path and below it: these files were set aside, not removed."""
        self._found = {
            child: entry
            for child, entry in self._found.items()
            if entry is not None or (child != path and not child.startswith(f"{path}/"))
        }

    def write_to(self, upper: Path) -> None:
        """Write the difference into an empty layer. Raises OSError."""
        for path, entry in self._found.items():
            target = get_layer_path(upper, path)
            self._make_parents(path, upper)
            if entry is None:
                make_whiteout(target)
            elif entry.is_directory:
                self._make_directory(target, entry)
            else:
                link_entry(Path(os.fsdecode(entry.location)), target)
        for path in self._opaque:
            target = get_layer_path(upper, path)
            if target.is_dir():
                set_opaque(target, True)

    def _make_parents(self, path: str, upper: Path) -> None:
        """Create the directories above a path, with their present modes."""
        for rel in list_parents(path):
            target = get_layer_path(upper, rel)
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

    # comparison

    def _compare_directory(self, path: str, old_stack: LayerStack) -> Iterator[tuple[str, LayerStack]]:
        """Compare a directory of both stacks, and yield its subdirectories; `old_stack` is empty where it no longer
        counts."""
        before, after = old_stack.list_directory(path), self._now.list_directory(path)
        entry = self._now.find(path) if path != "." and after.closed and not before.closed else None
        if isinstance(entry, LayeredEntry) and is_opaque(entry.location):
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


class _Signature(Struct, frozen=True):
    """The stats that reveal a change of an entry; of a directory, changes of its entries aside."""

    kind: str
    number: int
    mode: int
    size: int = 0
    changed_ns: int = 0
    opaque: bool = False

    def is_same_directory(self, other: _Signature | None) -> bool:
        """True if both are of one directory, whose mode may have changed."""
        return other is not None and (self.kind, self.number, self.opaque) == (other.kind, other.number, other.opaque)


class LiveLayer:
    """The layer at `upper` of a running process."""

    def __init__(self, upper: Path) -> None:
        self._upper = upper
        self._known: dict[str, _Signature] = {}

    def copy_changes(self, target: Path) -> bool:
        """Copy new entries into an empty layer, with whiteouts for removed ones. False: there are none. Raises OSError;
        the changes are copied again the next time then."""
        entries = scan_layer(self._upper).entries
        signatures = self._sign(entries)
        if signatures == self._known:
            return False
        modes = {entry.path: entry.mode for entry in entries if entry.kind == "directory"}
        replaced_paths = set[str]()
        for entry in entries:
            old_signature, now = self._known.get(entry.path), signatures.get(entry.path)
            is_below = any(above in replaced_paths for above in list_parents(entry.path))
            if now is None or (old_signature == now and not is_below):
                continue
            if not now.is_same_directory(old_signature):
                replaced_paths.add(entry.path)
            copy_path = make_parent_directories(target, entry.path, modes.__getitem__)
            with suppress(FileNotFoundError):  # it was removed meanwhile, which the next copy records
                self._copy(entry, copy_path)
            if entry.kind == "directory" and old_signature is not None and entry.path in replaced_paths:
                set_opaque(copy_path, True)  # even if nothing is below it except entries that were copied before
        for path in sorted(self._known.keys() - signatures.keys()):
            self._hide(target, path, signatures, modes)
        self._known = signatures
        return True

    def _sign(self, entries: list[LayerEntry]) -> dict[str, _Signature]:
        signatures = {}
        for entry in entries:
            with suppress(FileNotFoundError):
                stats = os.lstat(encode_layer_path(self._upper, entry.path))
                if entry.kind == "directory":
                    signatures[entry.path] = _Signature(entry.kind, stats.st_ino, entry.mode, opaque=entry.opaque)
                else:
                    change_time = max(stats.st_mtime_ns, stats.st_ctime_ns)
                    signatures[entry.path] = _Signature(
                        entry.kind, stats.st_ino, entry.mode, stats.st_size, change_time
                    )
        return signatures

    def _copy(self, entry: LayerEntry, target: Path) -> None:
        source = get_layer_path(self._upper, entry.path)
        if entry.kind == "directory":
            with suppress(FileExistsError):
                target.mkdir(0o700)
            target.chmod(entry.mode | 0o700)
            set_opaque(target, entry.opaque)
        elif entry.kind == "whiteout":
            make_whiteout(target)
        elif entry.kind == "special":
            with suppress(OSError):  # an entry that cannot be created here is skipped
                os.mknod(target, source.lstat().st_mode)
        else:
            _copy_content(source, target)

    def _hide(self, target: Path, path: str, signatures: dict[str, _Signature], modes: dict[str, int]) -> None:
        """Create a whiteout for a removed entry, unless one above it hides it already."""
        parents = list_parents(path)
        is_covered = any(
            above not in modes or not signatures[above].is_same_directory(self._known[above]) for above in parents
        )
        if self._known[path].kind != "whiteout" and not is_covered:
            whiteout_path = make_parent_directories(target, path, modes.__getitem__)
            with suppress(FileExistsError):
                make_whiteout(whiteout_path)


def _copy_content(source: Path, target: Path) -> None:
    """Copy a file or a link; a file that its owner may not read is made readable temporarily."""
    with open_parent(os.fsencode(source)) as source_name, open_parent(os.fsencode(target)) as target_name:
        try:
            copy_file(source_name, target_name, sync=False)
        except PermissionError as refused:
            stats = source.lstat()
            if not stat.S_ISREG(stats.st_mode) or refused.errno != errno.EACCES:
                raise
            source.chmod(stats.st_mode & PERMISSION_BITS | 0o400)
            try:
                copy_file(source_name, target_name, sync=False)
            finally:
                source.chmod(stats.st_mode & PERMISSION_BITS)
                target.chmod(stats.st_mode & PERMISSION_BITS)
