"""Several layers as one: what a stack of overlayfs layers shows of a path, without a mount.

As the kernel does it: the topmost layer that has a name wins, directories are merged, a whiteout or anything else that
is no directory hides what the layers below have at and below its place, an opaque directory what is below it. A
`LayerStack` is short-lived: it caches what it has found of a directory, so that a tree costs what it holds, however
deep it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from core.filesystem.open_beneath import DirectoryCursor
from core.filesystem.overlay_support import is_whiteout
from core.shadow.layers.overlayfs import is_opaque
from core.shadow.paths import inherit
from core.workspace.file_names import from_os_name, to_os_name

HIDDEN: Final = "hidden"
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}  # the last: no layer keeps a path of that length


class LayeredEntry(Struct, frozen=True):
    """An entry of the stack: the layer that shows it, its path there, and its stats."""

    layer: Path
    place: bytes
    stats: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.stats.st_mode)


class StackListing(Struct, frozen=True):
    """The stack's entries in a directory, by name (None: a whiteout); `closed`: nothing below the stack shows."""

    entries: dict[str, LayeredEntry | None]
    closed: bool


class _LayerDirectory(Struct, frozen=True, gc=False):
    """A directory in a layer, from its top (None: it has none); `closed`: what lower layers have is hidden."""

    path: bytes | None
    closed: bool


class _Layer:
    def __init__(self, path: Path) -> None:
        self.at = path
        self._top = os.fsencode(path)
        self._known = {".": _LayerDirectory(b"", closed=False)}
        self._open = DirectoryCursor(path)

    def find_directory(self, rel: str) -> _LayerDirectory:
        """Return what the layer has of a directory and its parents."""
        return inherit(self._known, rel, self._descend)

    def _descend(self, rel: str, above: _LayerDirectory) -> _LayerDirectory:
        if above.path is None:
            return above
        name = to_os_name(rel.rpartition("/")[2])
        stats = self._read_stats(above.path, name)
        if stats is None:
            return _LayerDirectory(None, above.closed)
        if not stat.S_ISDIR(stats.st_mode):
            return _LayerDirectory(None, closed=True)
        path = above.path + b"/" + name if above.path else name
        with suppress(PermissionError):
            return _LayerDirectory(path, above.closed or is_opaque(self._open.open_at(path)))
        return _LayerDirectory(path, above.closed)

    def _read_stats(self, directory: bytes, name: bytes) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._open.open_at(directory), follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            return None

    def find_entry(self, rel: str) -> LayeredEntry | Literal["hidden"] | None:
        """Return the layer's entry at a path; HIDDEN: nothing is there; None: it says nothing."""
        above, name, stats = self._look_up(rel)
        if above.path is None or stats is None:
            return HIDDEN if above.closed else None
        return HIDDEN if is_whiteout(stats) else self._build_entry(above.path, name, stats)

    def _look_up(self, rel: str) -> tuple[_LayerDirectory, bytes, os.stat_result | None]:
        """Return the directory of a path, the name in it, and the stats of what is there."""
        directory, _, name = rel.rpartition("/")
        above, os_name = self.find_directory(directory or "."), to_os_name(name)
        return above, os_name, None if above.path is None else self._read_stats(above.path, os_name)

    def _build_entry(self, directory: bytes, name: bytes, stats: os.stat_result) -> LayeredEntry:
        return LayeredEntry(self.at, b"/".join(part for part in (self._top, directory, name) if part), stats)

    def forget(self, rel: str) -> None:
        """Remove the layer's entry at a path, unless that is a directory."""
        above, name, stats = self._look_up(rel)
        if above.path is not None and stats is not None and not stat.S_ISDIR(stats.st_mode):
            os.unlink(name, dir_fd=self._open.open_at(above.path))

    def list_entries(self, directory: bytes) -> Iterator[tuple[str, LayeredEntry | None]]:
        """Yield the entries of one of its directories, by name (None: a whiteout)."""
        with os.scandir(self._open.open_at(directory)) as entries:
            for entry in entries:
                stats, name = entry.stat(follow_symlinks=False), os.fsencode(entry.name)
                yield from_os_name(name), None if is_whiteout(stats) else self._build_entry(directory, name, stats)


class LayerStack:
    """Layers, topmost first."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = tuple(_Layer(layer) for layer in layers)

    def find(self, rel: str) -> LayeredEntry | Literal["hidden"] | None:
        """Return the entry at a path; HIDDEN: the stack says that nothing is there; None: it says nothing."""
        for layer in self._layers:
            entry = layer.find_entry(rel)
            if entry is not None:
                return entry
        return None

    def list_directory(self, rel: str) -> StackListing:
        """Return the stack's entries in a directory; "." is the top."""
        entries: dict[str, LayeredEntry | None] = {}
        for layer in self._layers:
            directory = layer.find_directory(rel)
            if directory.path is not None:
                for entry in layer.list_entries(directory.path):
                    entries.setdefault(*entry)
            if directory.closed:
                return StackListing(entries, closed=True)
        return StackListing(entries, closed=False)

    def walk(self, rel: str) -> Iterator[tuple[str, LayeredEntry | None]]:
        """Yield everything that the stack shows at and below a path, directories first; None: nothing is there."""
        top_entry = self.find(rel)
        if top_entry is None:
            return
        yield rel, None if top_entry == HIDDEN else top_entry
        waiting = [rel] if top_entry != HIDDEN and top_entry.is_directory else []
        while waiting:
            above = waiting.pop()
            for name, entry in sorted(self.list_directory(above).entries.items()):
                path = f"{above}/{name}"
                yield path, entry
                if entry is not None and entry.is_directory:
                    waiting.append(path)

    def find_hiding_layer(self, rel: str) -> Path | None:
        """Return the layer that says of a path that nothing is there; None: none does."""
        for layer in self._layers:
            entry = layer.find_entry(rel)
            if entry is not None:
                return layer.at if entry == HIDDEN else None
        return None

    def forget(self, rel: str) -> None:
        """Remove a file, link or whiteout from every layer, so that the workspace shows. Raises OSError."""
        for layer in self._layers:
            layer.forget(rel)


NO_LAYERS: Final = LayerStack(())
