"""Several layers as one: what a stack of overlayfs layers shows of a path, without a mount.

As the kernel does it: the topmost layer that has a name wins, directories are merged, a whiteout or anything else that
is no directory hides what the layers below have at and below its place, an opaque directory what is below it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from core.shadow.overlay import is_opaque, is_whiteout
from core.workspace.names import from_os, to_os

HIDDEN: Final = "hidden"


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


class Stack:
    """Layers, topmost first."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = tuple(layers)

    def __bool__(self) -> bool:
        return bool(self._layers)

    def find(self, rel: str) -> Layered | Literal["hidden"] | None:
        """What the stack shows at a path; HIDDEN: it says that nothing is there; None: it says nothing."""
        parts = to_os(rel).split(b"/")
        for layer in self._layers:
            found = _in_layer(layer, parts)
            if found is not None:
                return found
        return None

    def listing(self, rel: str) -> Listing:
        """What the stack has in a directory; "." is the top."""
        parts = [] if rel == "." else to_os(rel).split(b"/")
        entries: dict[str, Layered | None] = {}
        for layer in self._layers:
            place, closed = _directory(layer, parts)
            if place is not None:
                for each in _entries(layer, place):
                    entries.setdefault(*each)
            if closed:
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
        parts = to_os(rel).split(b"/")
        for layer in self._layers:
            found = _in_layer(layer, parts)
            if found is not None:
                return layer if found == HIDDEN else None
        return None

    def forget(self, rel: str) -> None:
        """Take a file, link or whiteout out of every layer, so that the workspace shows. Raises OSError."""
        parts = to_os(rel).split(b"/")
        for layer in self._layers:
            found = _in_layer(layer, parts)
            place = os.fsencode(layer) + b"/" + b"/".join(parts)
            if found is not None and os.path.lexists(place) and not stat.S_ISDIR(os.lstat(place).st_mode):
                Path(os.fsdecode(place)).unlink()


def _in_layer(layer: Path, parts: list[bytes]) -> Layered | Literal["hidden"] | None:
    place = os.fsencode(layer)
    closed = False
    for count, part in enumerate(parts, 1):
        place += b"/" + part
        try:
            stats = os.lstat(place)
        except FileNotFoundError:
            return HIDDEN if closed else None
        if is_whiteout(stats):
            return HIDDEN
        if count == len(parts):
            return Layered(layer, place, stats)
        if not stat.S_ISDIR(stats.st_mode):
            return HIDDEN
        closed = closed or is_opaque(place)
    return None


def _directory(layer: Path, parts: list[bytes]) -> tuple[bytes | None, bool]:
    """Where a layer has a directory (None: nowhere), and whether it hides what lower layers have there."""
    place = os.fsencode(layer)
    closed = False
    for part in parts:
        place += b"/" + part
        try:
            stats = os.lstat(place)
        except FileNotFoundError:
            return None, closed
        if not stat.S_ISDIR(stats.st_mode):
            return None, True
        closed = closed or is_opaque(place)
    return place, closed


def _entries(layer: Path, place: bytes) -> Iterator[tuple[str, Layered | None]]:
    with os.scandir(place) as entries:
        for each in entries:
            stats = each.stat(follow_symlinks=False)
            found = None if is_whiteout(stats) else Layered(layer, each.path, stats)
            yield from_os(each.name), found
