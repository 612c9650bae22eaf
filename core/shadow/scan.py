"""What a layer holds, entry by entry: read from the directory itself, without a mount and without opening a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.shadow.overlay import is_opaque, is_whiteout, make_passable
from core.workspace.descent import Descent
from core.workspace.names import from_os

Kind = Literal["file", "symlink", "directory", "whiteout", "special"]
_LONGEST = 3800  # bytes of a path: the kernel takes 4096, and ours stand deeper than a workspace's
_WITH_LAYER = 4000  # ... with that of the layer: other layers' are a little longer


class Found(Struct, frozen=True, gc=False):
    """One entry of a layer. `mode` without the type; `size` in bytes; `blocks`: bytes on disk, its share of a file that
    has several names; `opaque`: of a directory that replaces one."""

    path: str
    kind: Kind
    mode: int
    size: int
    blocks: int = 0
    opaque: bool = False


class Scanned(Struct, frozen=True):
    """All entries of a layer, every directory before what is in it; `too_deep` are those at and below which nothing was
    looked at, because their paths are longer than the system takes."""

    entries: list[Found]
    too_deep: list[str]


def scan(layer: Path) -> Scanned:
    """Walk a layer. Directories that their owner may not read are made readable. Raises OSError."""
    found = Scanned([], [])
    longest = min(_LONGEST, _WITH_LAYER - len(os.fsencode(layer)))
    waiting = [(b"", -1)]
    with Descent(layer) as descent:
        while waiting:
            above, number = waiting.pop()
            directory = _opened(descent, above, layer)
            if number >= 0 and is_opaque(directory):
                found.entries[number] = replace(found.entries[number], opaque=True)
            with os.scandir(directory) as entries:
                below = [_taken(each, above, longest, found) for each in sorted(entries, key=_name)]
            waiting += [each for each in reversed(below) if each is not None]
    return found


def _opened(descent: Descent, path: bytes, layer: Path) -> int:
    try:
        return descent.at(path)
    except PermissionError:
        make_passable(layer / os.fsdecode(path))
    return descent.at(path)


def _name(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)


def _taken(entry: os.DirEntry[str], above: bytes, longest: int, into: Scanned) -> tuple[bytes, int] | None:
    """Add an entry; of a directory, its path and its number are returned."""
    name = os.fsencode(entry.name)
    path = above + b"/" + name if above else name
    if len(path) > longest:
        into.too_deep.append(from_os(path))
        return None
    stats = entry.stat(follow_symlinks=False)
    kind = _kind(stats)
    blocks = stats.st_blocks * 512 // (1 if kind == "directory" else stats.st_nlink)
    into.entries.append(Found(from_os(path), kind, stat.S_IMODE(stats.st_mode), stats.st_size, blocks))
    return (path, len(into.entries) - 1) if kind == "directory" else None


def _kind(stats: os.stat_result) -> Kind:
    if stat.S_ISREG(stats.st_mode):
        return "file"
    if stat.S_ISDIR(stats.st_mode):
        return "directory"
    if stat.S_ISLNK(stats.st_mode):
        return "symlink"
    return "whiteout" if is_whiteout(stats) else "special"
