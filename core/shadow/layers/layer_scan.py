"""The entries of a layer, read from the directory itself, without a mount and without opening a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.filesystem.open_beneath import DirectoryCursor
from core.filesystem.overlay_support import is_whiteout
from core.shadow.layers.overlayfs import is_opaque, make_passable
from core.workspace.file_names import from_os_name
from core.workspace.path_status import classify_mode

LayerEntryKind = Literal["file", "symlink", "directory", "whiteout", "special"]
_MAX_PATH_BYTES = 3800  # bytes of a path: the kernel takes 4096, and ours stand deeper than a workspace's
_MAX_FULL_PATH_BYTES = 4000  # ... with that of the layer: other layers' are a little longer


class LayerEntry(Struct, frozen=True, gc=False):
    """One entry of a layer. `mode` without the type; `size` in bytes; `blocks`: bytes on disk, its share of a file with
    several names; `opaque`: a directory that replaces one."""

    path: str
    kind: LayerEntryKind
    mode: int
    size: int
    blocks: int = 0
    opaque: bool = False


class LayerScan(Struct, frozen=True):
    """All entries of a layer, every directory before its content; `too_deep` are the paths longer than the system
    takes, below which nothing was read."""

    entries: list[LayerEntry]
    too_deep: list[str]


def scan_layer(layer: Path) -> LayerScan:
    """Read the entries of a layer. Directories that their owner may not read are made readable. Raises OSError."""
    scan = LayerScan([], [])
    longest = min(_MAX_PATH_BYTES, _MAX_FULL_PATH_BYTES - len(os.fsencode(layer)))
    waiting = [(b"", -1)]
    with DirectoryCursor(layer) as descent:
        while waiting:
            above, number = waiting.pop()
            try:
                directory = descent.open_at(above)
            except PermissionError:
                make_passable(layer / os.fsdecode(above))
                directory = descent.open_at(above)
            if number >= 0 and is_opaque(directory):
                scan.entries[number] = replace(scan.entries[number], opaque=True)
            with os.scandir(directory) as entries:
                below = [
                    _add_entry(entry, above, longest, scan)
                    for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name))
                ]
            waiting += [child for child in reversed(below) if child is not None]
    return scan


def _add_entry(entry: os.DirEntry[str], above: bytes, longest: int, into: LayerScan) -> tuple[bytes, int] | None:
    """Add an entry; return the path and number of a directory."""
    name = os.fsencode(entry.name)
    path = above + b"/" + name if above else name
    if len(path) > longest:
        into.too_deep.append(from_os_name(path))
        return None
    stats = entry.stat(follow_symlinks=False)
    kind: LayerEntryKind | Literal["other"] = classify_mode(stats.st_mode)
    if kind == "other":
        kind = "whiteout" if is_whiteout(stats) else "special"
    blocks = stats.st_blocks * 512 // (1 if kind == "directory" else stats.st_nlink)
    into.entries.append(LayerEntry(from_os_name(path), kind, stat.S_IMODE(stats.st_mode), stats.st_size, blocks))
    return (path, len(into.entries) - 1) if kind == "directory" else None
