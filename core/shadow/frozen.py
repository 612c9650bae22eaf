"""What checkpoints keep of the layers: for each, the record of the kept layers as it was, and so their names.

A record is never written in place, so a hard link to it is a copy that costs nothing; a layer that is named here is
not changed any more: who wants to change it makes one of his own first, of hard links to the same files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.shadow.overlay import is_opaque, is_whiteout, passable, set_opaque
from core.shadow.transfer import copy
from core.workspace.beneath import holder
from core.workspace.descent import Descent
from core.workspace.removing import remove

_ORDER = 12  # digits


class _Named(Struct):
    layers: tuple[str, ...] = ()


class Frozen:
    """The records of one session's checkpoints, `<directory>/<order>-<checkpoint>.json`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._named: dict[str, tuple[str, ...]] | None = None

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The layers of each record, oldest first, by its file."""
        if self._named is None:
            self._named = dict(self._read())
        return self._named

    def _read(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        if not self._directory.is_dir():
            return
        seen: dict[int, tuple[str, ...]] = {}
        for path in sorted(self._directory.glob("*.json")):
            node = path.stat().st_ino
            if node not in seen:
                try:
                    seen[node] = msgspec.json.decode(path.read_bytes(), type=_Named).layers
                except (OSError, msgspec.MsgspecError):
                    continue
            yield path.name, seen[node]

    @property
    def layers(self) -> frozenset[str]:
        """The layers that may not be changed."""
        return frozenset(each for layers in self.named.values() for each in layers)

    def add(self, checkpoint: str, order: int, record: Path, layers: tuple[str, ...]) -> None:
        """Keep a record for a checkpoint. Raises OSError."""
        named = self.named
        self._directory.mkdir(mode=0o700, exist_ok=True)
        name = f"{order:0{_ORDER}d}-{checkpoint}.json"
        link(record, self._directory / name)
        named[name] = layers

    def path(self, checkpoint: str) -> Path | None:
        """Where the record of a checkpoint lies; None: it has none."""
        name = self._file(checkpoint)
        return self._directory / name if name else None

    def _file(self, checkpoint: str) -> str:
        return next((each for each in self.named if each[_ORDER + 1 :] == f"{checkpoint}.json"), "")

    def drop(self, checkpoint: str) -> None:
        """Forget what a checkpoint names."""
        self.drop_file(self._file(checkpoint))

    def drop_file(self, name: str) -> None:
        if name:
            (self._directory / name).unlink(missing_ok=True)
            self.named.pop(name, None)


def link(source: Path, target: Path) -> None:
    """The same file, link or whiteout at another place; a copy where the file system has no (more) links."""
    with holder(os.fsencode(source)) as (here, name), holder(os.fsencode(target)) as (there, other):
        _link((here, name), (there, other))


def _link(source: tuple[int, bytes], target: tuple[int, bytes]) -> None:
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
            copy(source, target, sync=False)
        else:
            raise


def link_tree(source: Path, target: Path) -> None:
    """A layer once more: directories of its own, hard links to the same files. Raises OSError, and leaves nothing."""
    try:
        _link_tree(source, target)
    except OSError:
        with suppress(OSError):
            remove(target)
        raise


def _link_tree(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    waiting, done = [b""], []
    with Descent(source.parent) as sources, Descent(target.parent) as targets:
        one, other = os.fsencode(source.name), os.fsencode(target.name)
        while waiting:
            path = waiting.pop()
            above, _, name = (one + path).rpartition(b"/")
            found = os.stat(name, dir_fd=sources.at(above), follow_symlinks=False)
            passable(sources.at(above), name)
            here, there = sources.at(one + path), targets.at(other + path)
            with os.scandir(here) as entries:
                below = [(os.fsencode(each.name), each.is_dir(follow_symlinks=False)) for each in entries]
            for each, is_directory in below:
                if is_directory:
                    os.mkdir(each, 0o700, dir_fd=there)
                    waiting.append(path + b"/" + each)
                else:
                    _link((here, each), (there, each))
            if is_opaque(here):
                set_opaque(there, True)
            done.append((path, found))
        for path, found in reversed(done):
            _finish(sources, one + path, found)
            _finish(targets, other + path, found, as_old=True)


def _finish(tree: Descent, path: bytes, found: os.stat_result, *, as_old: bool = False) -> None:
    """Give a directory the mode, and with `as_old` the times, that the copied one had."""
    above, _, name = path.rpartition(b"/")
    mode = stat.S_IMODE(found.st_mode)
    if as_old or mode & 0o700 != 0o700:
        os.chmod(name, mode, dir_fd=tree.at(above))
    if as_old:
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=tree.at(above))
