"""Kept layers without what says nothing any more: whiteouts over nothing, directories that are there anyway."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.shadow.disk import Within
from core.shadow.layers import Kept, Layers
from core.shadow.overlay import is_opaque, merge_entry
from core.shadow.seen import Seen
from core.shadow.stack import Layered
from core.shadow.transfer import room_for
from core.workspace.beneath import holder
from core.workspace.names import to_os


def tidied(layers: Layers, seen: Seen, touched: Iterable[str]) -> Kept:
    """The record without the tops, of those `touched`, that hold nothing; the lowest layer is cleared accordingly.

    While there are several layers nothing is done: what an upper one hides may be in a lower one.
    """
    kept = layers.kept
    if len(kept.layers) != 1 or layers.open:
        return kept
    gone = {path: mode for path, mode in kept.gone.items() if seen.disk_node(path) is not None}
    top_layer = layers.upper(kept.layers[0])
    empty = {path for path in touched if path in kept.tops and _is_empty(path, top_layer, seen, kept)}
    for path in empty:
        prune(top_layer, path)
    tops = {path: top for path, top in kept.tops.items() if path not in empty}
    is_below = Within(tops.__contains__)
    bases = {path: base for path, base in kept.bases.items() if path in tops or is_below(path)}
    return replace(kept, tops=tops, bases=bases, gone=gone)


def _is_empty(path: str, layer: Path, seen: Seen, kept: Kept) -> bool:
    entries = list(seen.stack.walk(path))
    for each, entry in entries:
        if entry is None and seen.disk_node(each) is None:
            with suppress(OSError):
                Path(os.fsdecode(_at(layer, each))).unlink()
    found = seen.stack.find(path)
    if not isinstance(found, Layered):
        return found is None
    if kept.tops[path].kind != "directory" or len(entries) > 1:
        return False
    disk = seen.disk_node(path)
    mode = found.stats.st_mode & 0o777
    if disk is not None and disk.kind == "directory":
        return disk.mode == mode and not is_opaque(found.place)
    return path in seen.live_directories() and mode == seen.directory_mode


def prune(layer: Path, path: str) -> None:
    """Remove a place that holds nothing, and the directories that led to it alone."""
    while path:
        try:
            with holder(_at(layer, path)) as (above, name):
                os.rmdir(name, dir_fd=above)
        except OSError as error:
            if error.errno != errno.ENOENT:
                return
        path = path.rpartition("/")[0]


def _at(layer: Path, path: str) -> bytes:
    return os.fsencode(layer) + b"/" + to_os(path)


def move(layer: Path, upper: Path, path: str) -> None:
    """Move a place of a layer to another layer, laid over what was moved there before."""
    name = os.fsdecode(to_os(path))
    if not os.path.lexists(layer / name):
        return
    merge_entry(
        layer / name,
        room_for(upper, path, lambda above: stat.S_IMODE((layer / os.fsdecode(to_os(above))).lstat().st_mode)),
    )
    prune(layer, path)
