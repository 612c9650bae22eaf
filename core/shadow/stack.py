"""Several layers as one: what a stack of overlayfs layers shows of a path, without a mount.

As the kernel does it: the topmost layer that has a name wins, directories are merged, a whiteout or anything else that
is no directory hides what the layers below have at and below its place, an opaque directory what is below it.
A `Stack` is for one look: what it has found of a directory it does not look for again, so that a tree costs what it
holds, however deep it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from core.shadow.overlay import is_opaque, is_whiteout
from core.workspace.descent import Descent
from core.workspace.names import from_os, to_os

HIDDEN: Final = "hidden"
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}  # the last: no layer keeps a path of that length


class Layered(Struct, frozen=True):
    """An entry of the stack: the layer that shows it, where it lies there, and what it is."""

    layer: Path
    place: bytes
    stats: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.stats.st_mode)


class Listing(Struct, frozen=True):
    """What the stack has in a directory, by name (None: a whiteout); `closed`: nothing below the stack shows."""

    entries: dict[str, Layered | None]
    closed: bool


class _Place(Struct, frozen=True, gc=False):
    """A directory in a layer, from its top (None: it has none there); `closed`: what lower layers have there is
    hidden."""

    path: bytes | None
    closed: bool


class _Layer:
    """One layer. `at` is where it lies."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self._top = os.fsencode(at)
        self._known = {".": _Place(b"", closed=False)}
        self._open = Descent(at)

    def directory(self, rel: str) -> _Place:
        """What the layer has of a directory and those that it lies in."""
        missing = []
        while (found := self._known.get(rel)) is None:
            missing.append(rel)
            rel = rel.rpartition("/")[0] or "."
        for each in reversed(missing):
            found = self._known[each] = self._step(found, to_os(each.rpartition("/")[2]))
        return found

    def _step(self, above: _Place, name: bytes) -> _Place:
        if above.path is None:
            return above
        stats = self._stats(above.path, name)
        if stats is None:
            return _Place(None, above.closed)
        if not stat.S_ISDIR(stats.st_mode):
            return _Place(None, closed=True)
        path = above.path + b"/" + name if above.path else name
        return _Place(path, above.closed or self._is_opaque(path))

    def _is_opaque(self, path: bytes) -> bool:
        try:
            return is_opaque(self._open.at(path))
        except PermissionError:
            return False

    def _stats(self, directory: bytes, name: bytes) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._open.at(directory), follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            return None

    def entry(self, rel: str) -> Layered | Literal["hidden"] | None:
        """What the layer says of a path."""
        directory, _, name = rel.rpartition("/")
        above = self.directory(directory or ".")
        if above.path is not None:
            stats = self._stats(above.path, to_os(name))
            if stats is not None:
                return HIDDEN if is_whiteout(stats) else self._layered(above.path, to_os(name), stats)
        return HIDDEN if above.closed else None

    def _layered(self, directory: bytes, name: bytes, stats: os.stat_result) -> Layered:
        return Layered(self.at, b"/".join(each for each in (self._top, directory, name) if each), stats)

    def forget(self, rel: str) -> None:
        """Remove what it has at a path, unless that is a directory."""
        directory, _, name = rel.rpartition("/")
        above = self.directory(directory or ".")
        if above.path is not None:
            stats = self._stats(above.path, to_os(name))
            if stats is not None and not stat.S_ISDIR(stats.st_mode):
                os.unlink(to_os(name), dir_fd=self._open.at(above.path))

    def entries(self, directory: bytes) -> Iterator[tuple[str, Layered | None]]:
        """What is in one of its directories, by name (None: a whiteout)."""
        with os.scandir(self._open.at(directory)) as entries:
            for each in entries:
                stats, name = each.stat(follow_symlinks=False), os.fsencode(each.name)
                yield from_os(name), None if is_whiteout(stats) else self._layered(directory, name, stats)


class Stack:
    """Layers, topmost first."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = tuple(_Layer(each) for each in layers)

    def __bool__(self) -> bool:
        return bool(self._layers)

    def find(self, rel: str) -> Layered | Literal["hidden"] | None:
        """What the stack shows at a path; HIDDEN: it says that nothing is there; None: it says nothing."""
        for layer in self._layers:
            found = layer.entry(rel)
            if found is not None:
                return found
        return None

    def listing(self, rel: str) -> Listing:
        """What the stack has in a directory; "." is the top."""
        entries: dict[str, Layered | None] = {}
        for layer in self._layers:
            here = layer.directory(rel)
            if here.path is not None:
                for each in layer.entries(here.path):
                    entries.setdefault(*each)
            if here.closed:
                return Listing(entries, closed=True)
        return Listing(entries, closed=False)

    def walk(self, rel: str) -> Iterator[tuple[str, Layered | None]]:
        """Everything that the stack shows at and below a path, directories before what is in them; None: it says that
        nothing is there."""
        found = self.find(rel)
        if found is None:
            return
        yield rel, None if found == HIDDEN else found
        if found != HIDDEN and found.is_directory:
            yield from self._below(rel)

    def _below(self, rel: str) -> Iterator[tuple[str, Layered | None]]:
        waiting = [rel]
        while waiting:
            above = waiting.pop()
            for name, entry in sorted(self.listing(above).entries.items()):
                path = f"{above}/{name}"
                yield path, entry
                if entry is not None and entry.is_directory:
                    waiting.append(path)

    def hiding(self, rel: str) -> Path | None:
        """The layer that says of a path that nothing is there; None: none does."""
        for layer in self._layers:
            found = layer.entry(rel)
            if found is not None:
                return layer.at if found == HIDDEN else None
        return None

    def forget(self, rel: str) -> None:
        """Take a file, link or whiteout out of every layer, so that the workspace shows. Raises OSError."""
        for layer in self._layers:
            layer.forget(rel)
