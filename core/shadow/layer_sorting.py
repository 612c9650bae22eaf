"""Sorts the entries of a command's layer: files to put, files to delete, and what stays in the layer for a bulk.

Entries that do not stay are removed from the layer: special files, copies of unchanged files, and markers of
directories whose files are recorded one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from core.filesystem.open_beneath import open_parent
from core.filesystem.overlay_support import is_opaque, make_whiteout, set_opaque
from core.filesystem.removal import remove_path
from core.git.index import is_same_index
from core.protocol.paths import is_below
from core.shadow.content.paths import AnyAncestor, collect_directories, format_paths
from core.shadow.layers.layer_store import RetainedTop
from core.shadow.layers.merged_tree import MergedTree, TreeNode
from core.shadow.layers.overlayfs import (
    LayerEntry,
    LayerScan,
    encode_layer_path,
    get_layer_path,
    list_missing_parents,
)
from core.shadow.layers.path_classes import PathClass, PathClasses, is_git_protected
from core.workspace import MAX_EDITED_BYTES
from core.workspace.file_names import is_git_internal

_UNPROTECTED = {"refs", "logs"}  # directories of git


class LayerSorting:
    """Sort one layer. `puts`: reviewed files and links by path, still in the layer; `deletes`: reviewed removals;
    `tops`: what stays, by its topmost path; `gone`: removed directories, with their modes; `returned`: directories that
    exist (again); `replaced`: those replaced by a file or link; `unhidden`: removals that were part of a bulk until
    now; `folders`: new directories without reviewed files, `removed_folders` such ones that are gone; `is_closed`: True
    for paths in a directory that stays in the layer and hides everything below it."""

    def __init__(self, upper: Path, scan: LayerScan, tree: MergedTree, classes: PathClasses) -> None:
        self._upper = upper
        self._scanned = scan
        self._tree = tree
        self._classes = classes
        self._entries = {entry.path: entry for entry in scan.entries}
        self._hidden: dict[str, RetainedTop] = {}
        self._dropped: list[str] = []
        self._stripped: list[str] = []
        self._shut: list[str] = []
        self._large: list[str] = []
        self._modes: list[str] = []
        self.folders: list[str] = []
        self.removed_folders: list[str] = []
        self._closed: set[str] = set()
        self.is_closed = AnyAncestor(self._closed.__contains__)
        self.puts: dict[str, LayerEntry] = {}
        self.deletes: dict[str, None] = {}
        self.tops: dict[str, RetainedTop] = {}
        self.gone: dict[str, int] = {}
        self.returned: set[str] = set()
        self.replaced: set[str] = set()
        self.unhidden: set[str] = set()

    def get_path(self, path: str) -> Path:
        return get_layer_path(self._upper, path)

    def _mark_closed(self, path: str) -> None:
        self._closed.add(path)
        self.is_closed = AnyAncestor(self._closed.__contains__)

    def sort(self) -> None:
        """Fill the fields. Raises OSError."""
        for path in self._scanned.too_deep:
            self._dropped.append(path)
            remove_path(self.get_path(path))
        for entry in self._scanned.entries:
            self._sort_entry(entry)

    def clear_layer(self) -> None:
        """Remove from the layer what does not stay, once the pending puts have been taken out. Raises OSError.

        An unchanged put is removed, unless a directory of the layer would hide the original.
        """
        for path in self.puts:
            if not self.is_closed(path):
                self.get_path(path).unlink(missing_ok=True)
        is_covered = AnyAncestor(self.puts.__contains__)
        for path, top in self._hidden.items():
            if not is_covered(path):
                self._hide(path, top)
        needed_directories = collect_directories(self.puts)
        live = collect_directories(path for path in self._tree.list_pending_files() if path not in self.deletes)
        for entry in reversed(self._scanned.entries):
            if entry.kind == "directory":
                self._clear_directory(entry, needed_directories, live)
        for entry in self._scanned.entries:
            if entry.kind == "directory" and entry.mode & 0o700 != 0o700 and self.get_path(entry.path).is_dir():
                self.get_path(entry.path).chmod(entry.mode)

    def describe_dropped(self) -> Iterator[str]:
        """Yield sentences for the user and the model on entries that were dropped or are decided separately."""
        for paths, description in (
            (self._dropped, "not kept (not a regular file, link or directory, or its path is too long)"),
            (self._stripped, "kept without its setuid, setgid or sticky bits"),
            (self._shut, "kept readable for its owner, without its restrictive mode"),
            (self._large, f"larger than {MAX_EDITED_BYTES >> 20} MB: accepted or rejected as a whole"),
            (
                self._modes,
                "the directory's mode is accepted or rejected by itself, as git does not track it",
            ),
        ):
            if paths:
                yield f"{format_paths(paths)}: {description}."

    # entries

    def _classify(self, entry: LayerEntry) -> PathClass:
        return self._classes.classify(entry.path, entry.kind == "directory")

    def _sort_entry(self, entry: LayerEntry) -> None:
        if entry.kind == "special":
            self._dropped.append(entry.path)
            self.get_path(entry.path).unlink()
            return
        cls = self._classify(entry)
        if entry.kind == "whiteout":
            self._sort_whiteout(entry, cls)
        elif entry.kind == "directory":
            self._sort_directory(entry, cls)
        elif (
            cls.kind == "reviewed"
            or (cls.kind == "git" and is_git_protected(entry.path))
            or entry.path in self._tree.state.changes
        ):
            self._add_put(entry)
        else:
            self._retain_in_layer(entry, cls)

    def _add_put(self, entry: LayerEntry) -> None:
        if entry.kind == "file" and entry.size > MAX_EDITED_BYTES:
            self._large.append(entry.path)
            self._retain_in_layer(entry, PathClass("large", entry.path, entry.path))
            return
        if entry.mode & 0o7000 and entry.kind == "file":
            self._stripped.append(entry.path)
        node = self._tree.find_node(entry.path)
        if node is not None and node.kind == "directory":
            for path in self._list_children(entry.path):
                self._delete_all(path)
            self._record_removed_directory(entry.path, node)
            self.replaced.add(entry.path)
        self._delete_rest(entry.path)
        self.puts[entry.path] = entry

    def _record_removed_directory(self, path: str, node: TreeNode) -> None:
        """Record the removal of a directory, with its mode on disk."""
        self.gone[path] = (self._tree.find_on_disk(path) or node).mode

    def _delete_rest(self, path: str) -> None:
        """Delete the paths of a bulk where a file replaces a directory that is hidden already."""
        for child, below in self._tree.walk_disk(path):
            if below.kind == "directory":
                self._record_removed_directory(child, below)
                self.replaced.add(path)
            elif self._tree.find_node(child) is None and child not in self._tree.state.changes:
                self.deletes[child] = None
                self.unhidden.add(child)

    def _retain_in_layer(self, entry: LayerEntry, cls: PathClass) -> None:
        if entry.kind == "file" and entry.mode & 0o7400 != 0o400:
            if entry.mode & 0o7000:
                self._stripped.append(entry.path)
            if not entry.mode & 0o400:
                self._shut.append(entry.path)
            # The file is read again to compare, copy and accept it.
            self.get_path(entry.path).chmod(entry.mode & 0o777 | 0o400)
        node = self._tree.find_node(entry.path)
        if node is not None and not self.is_closed(entry.path) and self._is_unchanged(entry, node):
            self.get_path(entry.path).unlink()
        else:
            self.tops.setdefault(cls.top, _build_top(cls))

    def _is_unchanged(self, entry: LayerEntry, node: TreeNode) -> bool:
        """True if a command copied a file up without a change, or only refreshed git's index."""
        if node.kind != entry.kind or node.mode != entry.mode & 0o777:
            return False
        if entry.path.endswith(".git/index"):
            before = self._tree.read(entry.path, node, MAX_EDITED_BYTES)
            return is_same_index(before, self.get_path(entry.path).read_bytes())
        if node.size != entry.size or (entry.kind == "file" and node.size > MAX_EDITED_BYTES):
            return False
        path = self.get_path(entry.path)
        now = os.fsencode(path.readlink()) if entry.kind == "symlink" else path.read_bytes()
        return now == self._tree.read(entry.path, node, MAX_EDITED_BYTES)

    def _sort_directory(self, entry: LayerEntry, cls: PathClass) -> None:
        node = self._tree.find_node(entry.path)
        if node is not None and node.kind in {"file", "symlink"}:
            as_file = self._classes.classify(entry.path, False)
            if as_file.kind == "reviewed" or entry.path in self._tree.state.changes:
                self.deletes[entry.path] = None
        if cls.kind != "reviewed":
            self.tops.setdefault(cls.top, _build_top(cls))
            if entry.opaque:
                self._mark_closed(entry.path)
                self._delete_pending(entry.path)
                self._delete_protected(entry.path)
            return
        self.returned.add(entry.path)
        if entry.opaque:
            if node is not None and node.kind == "directory":
                self._replace_directory(entry.path)
            set_opaque(self.get_path(entry.path), False)

    def _delete_pending(self, path: str) -> None:
        """Delete the pending changes at a path that belongs to a bulk now."""
        for pending_file in self._tree.list_pending_files():
            is_inside = is_below(pending_file, path)
            if is_inside and (pending_file not in self._entries or self._entries[pending_file].kind == "whiteout"):
                self.deletes[pending_file] = None

    def _delete_protected(self, path: str) -> None:
        """Delete, file by file, what made git run something in a recreated directory of git."""
        waiting = [path] if is_git_internal(path) else []
        while waiting:
            directory = waiting.pop()
            is_crowd = directory.endswith("/objects")
            for name, kind in self._tree.list_names(directory).items():
                child = f"{directory}/{name}"
                if kind == "directory":
                    waiting += [child] if name not in _UNPROTECTED and (name == "info" or not is_crowd) else []
                elif is_git_protected(child):
                    entry = self._entries.get(child)
                    if entry is None or entry.kind not in {"file", "symlink"}:
                        self.deletes[child] = None

    def _sort_whiteout(self, entry: LayerEntry, cls: PathClass) -> None:
        node = self._tree.find_node(entry.path)
        is_protected = (
            cls.kind == "git" and is_git_protected(entry.path) and node is not None and node.kind != "directory"
        )
        if cls.kind != "reviewed" and not is_protected:
            self._delete_pending(entry.path)
            if node is None:
                self.get_path(entry.path).unlink()
            else:
                self.tops.setdefault(cls.top, _build_top(cls))
            return
        self.get_path(entry.path).unlink()
        if is_protected:
            self.deletes[entry.path] = None
        elif node is not None:
            self._hidden |= self._record_deletion(entry.path)

    # removed and replaced directories

    def _list_children(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in sorted(self._tree.list_names(path))]

    def _record_deletion(self, path: str) -> dict[str, RetainedTop]:
        """Record the removal of a path. Return what the layer has to hide: the topmost paths that are not reviewed."""
        hidden_tops: dict[str, RetainedTop] = {}
        directories: dict[str, TreeNode] = {}
        reviewed_paths = []
        waiting = [path]
        while waiting:
            child = waiting.pop()
            node = self._tree.find_node(child)
            if node is None:
                continue
            cls = self._classes.classify(child, node.kind == "directory")
            if cls.kind != "reviewed":
                self._delete_pending(child)
                hidden_tops[child] = _build_top(cls)
            elif node.kind == "directory":
                directories[child] = node
                waiting += reversed(self._list_children(child))
            elif node.kind in {"file", "symlink"} and node.size <= MAX_EDITED_BYTES:
                reviewed_paths.append(child)
            else:
                hidden_tops[child] = RetainedTop(root=child, kind="large")
        self.deletes |= dict.fromkeys(reviewed_paths)
        above = collect_directories(reviewed_paths)
        for child in reversed(directories):
            if child in above:
                self._record_removed_directory(child, directories[child])
            else:
                hidden_tops[child] = RetainedTop(root=child)
                self.removed_folders.append(child)
        is_below = AnyAncestor(hidden_tops.__contains__)
        return {child: top for child, top in hidden_tops.items() if not is_below(child)}

    def _delete_all(self, path: str) -> None:
        """Delete everything at a path whose directory is replaced by a file, in one decision."""
        waiting = [path]
        while waiting:
            child = waiting.pop()
            node = self._tree.find_node(child)
            if node is not None and node.kind == "directory":
                self._record_removed_directory(child, node)
                waiting += self._list_children(child)
            elif node is not None:
                self.deletes[child] = None

    def _replace_directory(self, path: str) -> None:
        """Record the removal of everything in a recreated directory that the layer does not have."""
        waiting = [path]
        while waiting:
            for child in self._list_children(waiting.pop()):
                now, before = self._entries.get(child), self._tree.find_node(child)
                if now is None:
                    self._hidden |= self._record_deletion(child)
                elif now.kind == "directory" and before is not None and before.kind == "directory" and not now.opaque:
                    if self._classify(now).kind == "reviewed":
                        waiting.append(child)
                    else:
                        set_opaque(self.get_path(child), True)
                        self._mark_closed(child)

    # bulks

    def _hide(self, path: str, top: RetainedTop) -> None:
        for parent in list_missing_parents(self._upper, path):
            node = self._tree.find_node(parent)
            with open_parent(encode_layer_path(self._upper, parent)) as (above, name):
                os.mkdir(name, dir_fd=above)
                os.chmod(name, node.mode if node else self._tree.workspace.directory_mode, dir_fd=above)
        make_whiteout(self.get_path(path))
        self.tops[path] = top

    def _clear_directory(self, entry: LayerEntry, needed_directories: set[str], live: set[str]) -> None:
        """Remove a directory from the layer unless it has content, or stays for itself: empty, or with another mode.

        `needed_directories` are those of puts, `live` those of pending changes; both exist without a layer.
        """
        layer_path = encode_layer_path(self._upper, entry.path)
        mode = entry.mode & 0o777
        if entry.mode != mode:
            self.get_path(entry.path).chmod(mode)
        if self.is_closed(entry.path):
            return
        is_reviewed = self._classify(entry).kind == "reviewed"
        below = self._tree.find_below_pending(entry.path)
        node = self._tree.find_node(entry.path) or (below if is_reviewed else None)
        is_there = entry.path in live or (below is not None and below.kind == "directory")
        holds = entry.path in needed_directories or not _is_empty(layer_path)
        if is_there and node is not None and node.kind == "directory":
            is_container = mode == node.mode
        else:
            is_container = is_reviewed and holds and mode == self._tree.workspace.directory_mode
        if is_container:
            if _is_empty(layer_path) and not is_opaque(layer_path):
                with open_parent(layer_path) as (above, name):
                    os.rmdir(name, dir_fd=above)
        elif is_reviewed:
            (self._modes if is_there or holds else self.folders).append(entry.path)
            self.tops[entry.path] = RetainedTop(root=entry.path, kind="directory")


def _is_empty(directory: bytes) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def _build_top(cls: PathClass) -> RetainedTop:
    return RetainedTop(root=cls.root, kind=cls.kind)
