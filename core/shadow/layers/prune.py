"""Pruning of kept layers: whiteouts over nothing, and directories that are there anyway."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.filesystem.open_beneath import open_parent
from core.shadow.bulk.layer_transfer import make_room
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.layer_store import KeptLayers, LayerStore
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import is_opaque, merge_entry
from core.shadow.paths import AnyAncestor
from core.workspace.file_names import to_os_name


def prune_kept(layers: LayerStore, tree: MergedTree, touched: Iterable[str]) -> KeptLayers:
    """Return the record without the tops, of those `touched`, that hold nothing; the lowest layer is cleared
    accordingly.

    While there are several layers nothing is done: what an upper one hides may be in a lower one.
    """
    kept = layers.kept
    if len(kept.layers) != 1 or layers.open_layers:
        return kept
    gone = {path: mode for path, mode in kept.gone.items() if tree.find_on_disk(path) is not None}
    top_layer = layers.get_upper(kept.layers[0])
    empty = {path for path in touched if path in kept.tops and _clear_if_empty(path, top_layer, tree, kept)}
    for path in empty:
        prune_directories(top_layer, path)
    tops = {path: top for path, top in kept.tops.items() if path not in empty}
    is_below = AnyAncestor(tops.__contains__)
    bases = {path: base for path, base in kept.bases.items() if path in tops or is_below(path)}
    return replace(kept, tops=tops, bases=bases, gone=gone)


def _clear_if_empty(path: str, layer: Path, tree: MergedTree, kept: KeptLayers) -> bool:
    entries = list(tree.stack.walk(path))
    for each, entry in entries:
        if entry is None and tree.find_on_disk(each) is None:
            with suppress(OSError):
                Path(os.fsdecode(_join_path(layer, each))).unlink()
    found = tree.stack.find(path)
    if not isinstance(found, LayeredEntry):
        return found is None
    if kept.tops[path].kind != "directory" or len(entries) > 1:
        return False
    disk = tree.find_on_disk(path)
    mode = found.stats.st_mode & 0o777
    if disk is not None and disk.kind == "directory":
        return disk.mode == mode and not is_opaque(found.place)
    return path in tree.list_live_directories() and mode == tree.directory_mode


def prune_directories(layer: Path, path: str) -> None:
    """Remove a place that holds nothing, and the directories that led to it alone."""
    while path:
        try:
            with open_parent(_join_path(layer, path)) as (above, name):
                os.rmdir(name, dir_fd=above)
        except OSError as error:
            if error.errno != errno.ENOENT:
                return
        path = path.rpartition("/")[0]


def _join_path(layer: Path, path: str) -> bytes:
    return os.fsencode(layer) + b"/" + to_os_name(path)


def move_place(layer: Path, upper: Path, path: str) -> None:
    """Move a place of a layer to another layer, laid over what was moved there before."""
    name = os.fsdecode(to_os_name(path))
    if not os.path.lexists(layer / name):
        return
    merge_entry(
        layer / name,
        make_room(upper, path, lambda above: stat.S_IMODE((layer / os.fsdecode(to_os_name(above))).lstat().st_mode)),
    )
    prune_directories(layer, path)
