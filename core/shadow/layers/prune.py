"""Pruning of retained layers: removing whiteouts over nothing, and directories that exist anyway."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.filesystem.open_beneath import open_parent
from core.filesystem.overlay_support import is_opaque
from core.shadow.layers.layer_files import make_parent_directories
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.layer_store import RetainedLayers, select_bases
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import encode_layer_path, get_layer_path, merge_entry


def prune_retained(tree: MergedTree, touched_paths: Iterable[str]) -> RetainedLayers:
    """Return the record without those of `touched_paths` that have no content, after clearing the lowest layer
    accordingly.

    With several layers nothing is done, as an upper layer may hide content of a lower one.
    """
    layers, retained_layers = tree.layers, tree.layers.retained
    if len(retained_layers.layers) != 1 or layers.open_layers:
        return retained_layers
    removed_directories = {
        path: mode for path, mode in retained_layers.gone.items() if tree.find_on_disk(path) is not None
    }
    top_layer = layers.get_upper(retained_layers.layers[0])
    empty = {
        path
        for path in touched_paths
        if path in retained_layers.tops and _clear_if_empty(path, top_layer, tree, retained_layers)
    }
    for path in empty:
        prune_directories(top_layer, path)
    tops = {path: top for path, top in retained_layers.tops.items() if path not in empty}
    return replace(
        retained_layers, tops=tops, bases=select_bases(tops, retained_layers.bases), gone=removed_directories
    )


def _clear_if_empty(path: str, layer: Path, tree: MergedTree, retained_layers: RetainedLayers) -> bool:
    entries = list(tree.stack.walk(path))
    for child, entry in entries:
        if entry is None and tree.find_on_disk(child) is None:
            with suppress(OSError):
                get_layer_path(layer, child).unlink()
    top_entry = tree.stack.find(path)
    if not isinstance(top_entry, LayeredEntry):
        return top_entry is None
    if retained_layers.tops[path].kind != "directory" or len(entries) > 1:
        return False
    disk = tree.find_on_disk(path)
    mode = top_entry.stats.st_mode & 0o777
    if disk is not None and disk.kind == "directory":
        return disk.mode == mode and not is_opaque(top_entry.location)
    return path in tree.list_live_directories() and mode == tree.workspace.directory_mode


def prune_directories(layer: Path, path: str) -> None:
    """Remove an empty directory, and its parents that are empty then."""
    while path:
        try:
            with open_parent(encode_layer_path(layer, path)) as (above, name):
                os.rmdir(name, dir_fd=above)
        except OSError as error:
            if error.errno != errno.ENOENT:
                return
        path = path.rpartition("/")[0]


def move_entry(layer: Path, upper: Path, path: str) -> None:
    """Move an entry of a layer to another layer, over earlier entries at the same path."""
    source = get_layer_path(layer, path)
    if not os.path.lexists(source):
        return
    target = make_parent_directories(
        upper, path, lambda above: stat.S_IMODE(get_layer_path(layer, above).lstat().st_mode)
    )
    merge_entry(source, target)
    prune_directories(layer, path)
