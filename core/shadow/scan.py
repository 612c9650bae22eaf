"""What a layer holds, entry by entry: read from the directory itself, without a mount and without an open."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Literal

from msgspec import Struct

from core.shadow.overlay import is_opaque, is_whiteout, make_passable
from core.workspace.names import from_os

Kind = Literal["file", "symlink", "directory", "whiteout", "special"]
_LONGEST = 3800  # bytes of a path: the kernel takes 4096, and ours stand deeper than a workspace's


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
    """All entries of a layer, every directory before what is in it; `too_deep` are those below which nothing was
    looked at, because their paths are longer than the system takes."""

    entries: list[Found]
    too_deep: list[str]


def scan(layer: Path) -> Scanned:
    """Walk a layer. Directories that their owner may not read are made readable. Raises OSError."""
    top = os.fsencode(layer)
    found, too_deep = Scanned([], []), len(top) + _LONGEST
    waiting = [b""]
    while waiting:
        above = waiting.pop()
        if len(top) + len(above) > too_deep:
            found.too_deep.append(from_os(above[:-1]))
            continue
        below = [_taken(each, above, found) for each in _listed(top + b"/" + above)]
        waiting += [each for each in reversed(below) if each]
    return found


def _listed(directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=_name)
    except PermissionError:
        make_passable(Path(os.fsdecode(directory)))
    with os.scandir(directory) as entries:
        return sorted(entries, key=_name)


def _name(entry: os.DirEntry[bytes]) -> bytes:
    return entry.name


def _taken(entry: os.DirEntry[bytes], above: bytes, into: Scanned) -> bytes:
    """Add an entry; of a directory, its path as a prefix is returned."""
    path = above + entry.name
    try:
        stats = entry.stat(follow_symlinks=False)
        opaque = entry.is_dir(follow_symlinks=False) and is_opaque(entry.path)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        into.too_deep.append(from_os(path))
        return b""
    kind = _kind(stats)
    blocks = stats.st_blocks * 512 // (1 if kind == "directory" else stats.st_nlink)
    into.entries.append(Found(from_os(path), kind, stat.S_IMODE(stats.st_mode), stats.st_size, blocks, opaque))
    return path + b"/" if kind == "directory" else b""


def _kind(stats: os.stat_result) -> Kind:
    if stat.S_ISREG(stats.st_mode):
        return "file"
    if stat.S_ISDIR(stats.st_mode):
        return "directory"
    if stat.S_ISLNK(stats.st_mode):
        return "symlink"
    return "whiteout" if is_whiteout(stats) else "special"
