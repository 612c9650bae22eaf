"""The layers that checkpoints keep: for each, the record of the kept layers at that time.

A record is never written in place, so a hard link to it is a copy that costs nothing; a layer that is named here is not
changed any more: to change it, `LayerStore.unshare` makes a copy first, of hard links to the same files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.filesystem.directory_cursor import DirectoryCursor
from core.filesystem.open_beneath import open_parent
from core.filesystem.removal import remove_path
from core.shadow.bulk.layer_transfer import copy_file
from core.shadow.layers.overlayfs import is_opaque, is_whiteout, make_passable_at, set_opaque

_ORDER = 12  # digits


class _NamedLayers(Struct):
    layers: tuple[str, ...] = ()


class CheckpointRecords:
    """The records of one session's checkpoints, `<directory>/<order>-<checkpoint>.json`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._named: dict[str, tuple[str, ...]] | None = None

    @property
    def layers_by_record(self) -> dict[str, tuple[str, ...]]:
        """The layers of each record, oldest first, by its file name."""
        if self._named is None:
            self._named = dict(self._read_records())
        return self._named

    def _read_records(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        if not self._directory.is_dir():
            return
        seen: dict[int, tuple[str, ...]] = {}
        for path in sorted(self._directory.glob("*.json")):
            node = path.stat().st_ino
            if node not in seen:
                try:
                    seen[node] = msgspec.json.decode(path.read_bytes(), type=_NamedLayers).layers
                except (OSError, msgspec.MsgspecError):
                    continue
            yield path.name, seen[node]

    @property
    def layers(self) -> frozenset[str]:
        """The layers that may not be changed."""
        return frozenset(each for layers in self.layers_by_record.values() for each in layers)

    def add(self, checkpoint: str, order: int, record: Path, layers: tuple[str, ...]) -> None:
        """Keep a record for a checkpoint. Raises OSError."""
        named = self.layers_by_record
        self._directory.mkdir(mode=0o700, exist_ok=True)
        name = f"{order:0{_ORDER}d}-{checkpoint}.json"
        link_entry(record, self._directory / name)
        named[name] = layers

    def find_path(self, checkpoint: str) -> Path | None:
        """Return the record's path of a checkpoint; None if it has none."""
        name = self._find_file(checkpoint)
        return self._directory / name if name else None

    def _find_file(self, checkpoint: str) -> str:
        return next((each for each in self.layers_by_record if each[_ORDER + 1 :] == f"{checkpoint}.json"), "")

    def drop(self, checkpoint: str) -> None:
        """Forget the record of a checkpoint."""
        self.drop_file(self._find_file(checkpoint))

    def drop_file(self, name: str) -> None:
        """Forget a record by its file name ("" = none)."""
        if name:
            (self._directory / name).unlink(missing_ok=True)
            self.layers_by_record.pop(name, None)


def link_entry(source: Path, target: Path) -> None:
    """Link a file, link or whiteout at another place; copy it where the file system has no (more) links."""
    with open_parent(os.fsencode(source)) as (here, name), open_parent(os.fsencode(target)) as (there, other):
        _link_at((here, name), (there, other))


def _link_at(source: tuple[int, bytes], target: tuple[int, bytes]) -> None:
    (here, name), (there, other) = source, target
    try:
        os.link(name, other, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if is_whiteout(found):
            os.mknod(other, stat.S_IFCHR, os.makedev(0, 0), dir_fd=there)
        elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
            copy_file(source, target, sync=False)
        else:
            raise


def link_tree(source: Path, target: Path) -> None:
    """Copy a layer: directories of its own, hard links to the same files. Raises OSError, and leaves nothing then."""
    try:
        _copy_tree(source, target)
    except OSError:
        with suppress(OSError):
            remove_path(target)
        raise


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    waiting, done = [b""], []
    with DirectoryCursor(source.parent) as sources, DirectoryCursor(target.parent) as targets:
        one, other = os.fsencode(source.name), os.fsencode(target.name)
        while waiting:
            path = waiting.pop()
            above, _, name = (one + path).rpartition(b"/")
            found = os.stat(name, dir_fd=sources.open_at(above), follow_symlinks=False)
            make_passable_at(sources.open_at(above), name)
            here, there = sources.open_at(one + path), targets.open_at(other + path)
            with os.scandir(here) as entries:
                below = [(os.fsencode(each.name), each.is_dir(follow_symlinks=False)) for each in entries]
            for each, is_directory in below:
                if is_directory:
                    os.mkdir(each, 0o700, dir_fd=there)
                    waiting.append(path + b"/" + each)
                else:
                    _link_at((here, each), (there, each))
            if is_opaque(here):
                set_opaque(there, True)
            done.append((path, found))
        for path, found in reversed(done):
            _restore_metadata(sources, one + path, found)
            _restore_metadata(targets, other + path, found, as_old=True)


def _restore_metadata(tree: DirectoryCursor, path: bytes, found: os.stat_result, *, as_old: bool = False) -> None:
    """Set a directory's mode, and with `as_old` its times, to those of the original."""
    above, _, name = path.rpartition(b"/")
    mode = stat.S_IMODE(found.st_mode)
    if as_old or mode & 0o700 != 0o700:
        os.chmod(name, mode, dir_fd=tree.open_at(above))
    if as_old:
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=tree.open_at(above))
