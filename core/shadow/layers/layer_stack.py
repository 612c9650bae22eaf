"""A stack of overlayfs layers: what it shows at a path, without a mount.

It follows the kernel: the topmost layer with an entry wins, directories are merged, a whiteout or any other entry that
is no directory hides the layers below, and an opaque directory hides their content below it. A `LayerStack` is
short-lived: it caches directories, so the cost of a walk depends on the number of entries, not on their depth.
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
from core.filesystem.overlay_support import is_opaque, is_whiteout
from core.shadow.content.paths import inherit
from core.workspace.file_names import from_os_name, to_os_name

HIDDEN: Final = "hidden"
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}  # ENAMETOOLONG: no layer can have such a path


class LayeredEntry(Struct, frozen=True):
    """An entry of the stack: its layer, its path there, and its stats."""

    layer: Path
    location: bytes
    stats: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.stats.st_mode)


class StackListing(Struct, frozen=True):
    """The stack's entries in a directory, by name (None: a whiteout); `closed`: it hides the workspace's entries."""

    entries: dict[str, LayeredEntry | None]
    closed: bool


class _LayerDirectory(Struct, frozen=True, gc=False):
    """A directory in a layer, by its path there (None: it has none); `closed`: it hides the entries of lower layers."""

    path: bytes | None
    closed: bool


class _Layer:
    def __init__(self, path: Path) -> None:
        self.at = path
        self._top = os.fsencode(path)
        self._known = {".": _LayerDirectory(b"", closed=False)}
        self._open = DirectoryCursor(path)

    def find_directory(self, rel: str) -> _LayerDirectory:
        """Return the layer's state of a directory and its parents."""
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
        """Return the layer's entry at a path; HIDDEN: the layer removes it; None: the layer has none."""
        above, name, stats = self._look_up(rel)
        if above.path is None or stats is None:
            return HIDDEN if above.closed else None
        return HIDDEN if is_whiteout(stats) else self._build_entry(above.path, name, stats)

    def _look_up(self, rel: str) -> tuple[_LayerDirectory, bytes, os.stat_result | None]:
        """Return the directory of a path, the name in it, and the stats of the entry."""
        directory, _, name = rel.rpartition("/")
        above, os_name = self.find_directory(directory or "."), to_os_name(name)
        return above, os_name, None if above.path is None else self._read_stats(above.path, os_name)

    def _build_entry(self, directory: bytes, name: bytes, stats: os.stat_result) -> LayeredEntry:
        return LayeredEntry(self.at, b"/".join(part for part in (self._top, directory, name) if part), stats)

    def forget(self, rel: str) -> None:
        """Remove the layer's entry at a path, unless it is a directory."""
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
        """Return the entry at a path; HIDDEN: the stack removes it; None: the stack has none."""
        for layer in self._layers:
            entry = layer.find_entry(rel)
            if entry is not None:
                return entry
        return None

    def list_directory(self, rel: str) -> StackListing:
        """Return the stack's entries in a directory; "." is the root."""
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
        """Yield all entries of the stack at and below a path, directories first; None stands for a whiteout."""
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
        """Return the layer that removes a path; None if none does."""
        for layer in self._layers:
            entry = layer.find_entry(rel)
            if entry is not None:
                return layer.at if entry == HIDDEN else None
        return None

    def forget(self, rel: str) -> None:
        """Remove a file, link or whiteout from every layer, so that the workspace's entry shows. Raises OSError."""
        for layer in self._layers:
            layer.forget(rel)


NO_LAYERS: Final = LayerStack(())
