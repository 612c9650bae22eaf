"""The entries of a command's layer sorted by meaning: files that are put, files that go, and what stays for a bulk.

The layer itself is cleared of what does not stay: special files, copies of what was there already, and the marks of
directories whose files are accounted for one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from core.filesystem.open_beneath import open_parent
from core.filesystem.removal import remove_path
from core.git.index import is_same_index
from core.shadow.effects.path_classes import PathClass, PathClasses, is_git_protected
from core.shadow.layers.layer_scan import LayerEntry, LayerScan
from core.shadow.layers.layer_store import KeptTop
from core.shadow.layers.merged_tree import MergedTree, TreeNode
from core.shadow.layers.overlayfs import (
    encode_place,
    get_place,
    is_opaque,
    list_missing_parents,
    make_whiteout,
    set_opaque,
)
from core.shadow.paths import AnyAncestor, collect_directories, format_paths
from core.workspace import MAX_EDITED_BYTES
from core.workspace.file_names import is_git_internal

_UNPROTECTED = {"refs", "logs"}  # directories of git's


class LayerSorting:
    """Sort one layer. `puts`: reviewed files and links by path, still in the layer; `deletes`: reviewed removals;
    `tops`: what stays, by its highest place; `gone`: removed directories, with their modes; `returned`: those that are
    there (again); `replaced`: those replaced by a file or link; `unhidden`: removals that were decided in bulk until
    now; `is_closed`: True for paths in a directory that stays in the layer and hides everything below it."""

    def __init__(self, upper: Path, scanned: LayerScan, tree: MergedTree, classes: PathClasses) -> None:
        self._upper = upper
        self._scanned = scanned
        self._tree = tree
        self._classes = classes
        self._entries = {each.path: each for each in scanned.entries}
        self._hidden: dict[str, KeptTop] = {}
        self._dropped: list[str] = []
        self._stripped: list[str] = []
        self._shut: list[str] = []
        self._large: list[str] = []
        self._bare: list[str] = []
        self._closed: set[str] = set()
        self.is_closed = AnyAncestor(self._closed.__contains__)
        self.puts: dict[str, LayerEntry] = {}
        self.deletes: dict[str, None] = {}
        self.tops: dict[str, KeptTop] = {}
        self.gone: dict[str, int] = {}
        self.returned: set[str] = set()
        self.replaced: set[str] = set()
        self.unhidden: set[str] = set()

    def get_path(self, path: str) -> Path:
        return get_place(self._upper, path)

    def _mark_closed(self, path: str) -> None:
        self._closed.add(path)
        self.is_closed = AnyAncestor(self._closed.__contains__)

    def sort(self) -> None:
        """Fill the fields. Raises OSError."""
        for path in self._scanned.too_deep:
            self._dropped.append(path)
            remove_path(self.get_path(path))
        for each in self._scanned.entries:
            self._sort_entry(each)

    def clear_layer(self) -> None:
        """Clear the layer of what does not stay, once the pending puts have been taken out. Raises OSError.

        A put that was there before as it is goes, unless it would be hidden then.
        """
        for path in self.puts:
            if not self.is_closed(path):
                self.get_path(path).unlink(missing_ok=True)
        is_covered = AnyAncestor(self.puts.__contains__)
        for path, top in self._hidden.items():
            if not is_covered(path):
                self._hide(path, top)
        needed = collect_directories(self.puts)
        live = collect_directories(path for path in self._tree.list_pending_files() if path not in self.deletes)
        for each in reversed(self._scanned.entries):
            if each.kind == "directory":
                self._clear_directory(each, needed, live)
        for each in self._scanned.entries:
            if each.kind == "directory" and each.mode & 0o700 != 0o700 and self.get_path(each.path).is_dir():
                self.get_path(each.path).chmod(each.mode)

    def describe_dropped(self) -> Iterator[str]:
        """Yield sentences for the user and the model on what was dropped or is decided by itself."""
        for paths, what in (
            (self._dropped, "not kept (no regular file, link or directory, or its path is too long)"),
            (self._stripped, "kept without its setuid, setgid or sticky bits"),
            (self._shut, "kept so that its owner can read it, and not shut"),
            (self._large, f"larger than {MAX_EDITED_BYTES >> 20} MB: decided as a whole, without its lines"),
            (self._bare, "an empty directory, or a directory's mode: git does not know it, it is decided by itself"),
        ):
            if paths:
                yield f"{format_paths(paths)}: {what}."

    # entries

    def _classify(self, found: LayerEntry) -> PathClass:
        return self._classes.classify(found.path, found.kind == "directory")

    def _sort_entry(self, found: LayerEntry) -> None:
        if found.kind == "special":
            self._dropped.append(found.path)
            self.get_path(found.path).unlink()
            return
        cls = self._classify(found)
        if found.kind == "whiteout":
            self._sort_whiteout(found, cls)
        elif found.kind == "directory":
            self._sort_directory(found, cls)
        elif (
            cls.kind == "reviewed"
            or (cls.kind == "git" and is_git_protected(found.path))
            or found.path in self._tree.state.changes
        ):
            self._add_put(found)
        else:
            self._keep_in_layer(found, cls)

    def _add_put(self, found: LayerEntry) -> None:
        if found.kind == "file" and found.size > MAX_EDITED_BYTES:
            self._large.append(found.path)
            self._keep_in_layer(found, PathClass("large", found.path, found.path))
            return
        if found.mode & 0o7000 and found.kind == "file":
            self._stripped.append(found.path)
        node = self._tree.find_node(found.path)
        if node is not None and node.kind == "directory":
            for path in self._list_children(found.path):
                self._delete_all(path)
            self._record_removed_directory(found.path, node)
            self.replaced.add(found.path)
        self._delete_rest(found.path)
        self.puts[found.path] = found

    def _record_removed_directory(self, path: str, node: TreeNode) -> None:
        """Record that a directory is removed, with its mode on disk."""
        self.gone[path] = (self._tree.find_on_disk(path) or node).mode

    def _delete_rest(self, path: str) -> None:
        """Delete what was to be decided in bulk, where a file replaces a directory that is hidden already."""
        for each, below in self._tree.walk_disk(path):
            if below.kind == "directory":
                self._record_removed_directory(each, below)
                self.replaced.add(path)
            elif self._tree.find_node(each) is None and each not in self._tree.state.changes:
                self.deletes[each] = None
                self.unhidden.add(each)

    def _keep_in_layer(self, found: LayerEntry, cls: PathClass) -> None:
        if found.kind == "file" and found.mode & 0o7400 != 0o400:
            if found.mode & 0o7000:
                self._stripped.append(found.path)
            if not found.mode & 0o400:
                self._shut.append(found.path)
            self.get_path(found.path).chmod(found.mode & 0o777 | 0o400)  # it is read again: compared, copied, accepted
        node = self._tree.find_node(found.path)
        if node is not None and not self.is_closed(found.path) and self._is_unchanged(found, node):
            self.get_path(found.path).unlink()
        else:
            self.tops.setdefault(cls.top, _build_top(cls))

    def _is_unchanged(self, found: LayerEntry, node: TreeNode) -> bool:
        """True if a command copied a file up without a change, or refreshed what git remembers of the disk."""
        if node.kind != found.kind or node.mode != found.mode & 0o777:
            return False
        if found.path.endswith(".git/index"):
            before = self._tree.read(found.path, node, MAX_EDITED_BYTES)
            return is_same_index(before, self.get_path(found.path).read_bytes())
        if node.size != found.size or (found.kind == "file" and node.size > MAX_EDITED_BYTES):
            return False
        place = self.get_path(found.path)
        now = os.fsencode(place.readlink()) if found.kind == "symlink" else place.read_bytes()
        return now == self._tree.read(found.path, node, MAX_EDITED_BYTES)

    def _sort_directory(self, found: LayerEntry, cls: PathClass) -> None:
        node = self._tree.find_node(found.path)
        if node is not None and node.kind in {"file", "symlink"}:
            as_file = self._classes.classify(found.path, False)
            if as_file.kind == "reviewed" or found.path in self._tree.state.changes:
                self.deletes[found.path] = None
        if cls.kind != "reviewed":
            self.tops.setdefault(cls.top, _build_top(cls))
            if found.opaque:
                self._mark_closed(found.path)
                self._delete_pending(found.path)
                self._delete_protected(found.path)
            return
        self.returned.add(found.path)
        if found.opaque:
            if node is not None and node.kind == "directory":
                self._replace_directory(found.path)
            set_opaque(self.get_path(found.path), False)

    def _delete_pending(self, path: str) -> None:
        """Delete what was pending in a place that is decided in bulk."""
        for each in self._tree.list_pending_files():
            is_inside = each == path or each.startswith(f"{path}/")
            if is_inside and (each not in self._entries or self._entries[each].kind == "whiteout"):
                self.deletes[each] = None

    def _delete_protected(self, path: str) -> None:
        """Delete, file by file, what made git run something in a directory of git's that was made again."""
        waiting = [path] if is_git_internal(path) else []
        while waiting:
            directory = waiting.pop()
            is_crowd = directory.endswith("/objects")
            for name, kind in self._tree.list_names(directory).items():
                each = f"{directory}/{name}"
                if kind == "directory":
                    waiting += [each] if name not in _UNPROTECTED and (name == "info" or not is_crowd) else []
                elif is_git_protected(each):
                    found = self._entries.get(each)
                    if found is None or found.kind not in {"file", "symlink"}:
                        self.deletes[each] = None

    def _sort_whiteout(self, found: LayerEntry, cls: PathClass) -> None:
        node = self._tree.find_node(found.path)
        lever = cls.kind == "git" and is_git_protected(found.path) and node is not None and node.kind != "directory"
        if cls.kind != "reviewed" and not lever:
            self._delete_pending(found.path)
            if node is None:
                self.get_path(found.path).unlink()
            else:
                self.tops.setdefault(cls.top, _build_top(cls))
            return
        self.get_path(found.path).unlink()
        if lever:
            self.deletes[found.path] = None
        elif node is not None:
            self._hidden |= self._record_deletion(found.path)

    # directories that were removed or replaced

    def _list_children(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in sorted(self._tree.list_names(path))]

    def _record_deletion(self, path: str) -> dict[str, KeptTop]:
        """Record the removal of what was at a path. Return what is to be hidden in the layer that stays: the highest
        places that are not reviewed."""
        hidden: dict[str, KeptTop] = {}
        directories: dict[str, TreeNode] = {}
        reviewed = []
        waiting = [path]
        while waiting:
            each = waiting.pop()
            node = self._tree.find_node(each)
            if node is None:
                continue
            cls = self._classes.classify(each, node.kind == "directory")
            if cls.kind != "reviewed":
                self._delete_pending(each)
                hidden[each] = _build_top(cls)
            elif node.kind == "directory":
                directories[each] = node
                waiting += reversed(self._list_children(each))
            elif node.kind in {"file", "symlink"} and node.size <= MAX_EDITED_BYTES:
                reviewed.append(each)
            else:
                hidden[each] = KeptTop(root=each, kind="large")
        self.deletes |= dict.fromkeys(reviewed)
        above = collect_directories(reviewed)
        for each in reversed(directories):
            if each in above:
                self._record_removed_directory(each, directories[each])
            else:
                hidden[each] = KeptTop(root=each)
        is_below = AnyAncestor(hidden.__contains__)
        return {each: top for each, top in hidden.items() if not is_below(each)}

    def _delete_all(self, path: str) -> None:
        """Delete everything at a path whose directory is replaced by a file, with one decision."""
        waiting = [path]
        while waiting:
            each = waiting.pop()
            node = self._tree.find_node(each)
            if node is not None and node.kind == "directory":
                self._record_removed_directory(each, node)
                waiting += self._list_children(each)
            elif node is not None:
                self.deletes[each] = None

    def _replace_directory(self, path: str) -> None:
        """Record that what is not in the layer has gone from a directory that was removed and made again."""
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

    # what stays

    def _hide(self, path: str, top: KeptTop) -> None:
        for each in list_missing_parents(self._upper, path):
            node = self._tree.find_node(each)
            with open_parent(encode_place(self._upper, each)) as (above, name):
                os.mkdir(name, dir_fd=above)
                os.chmod(name, node.mode if node else self._tree.workspace.directory_mode, dir_fd=above)
        make_whiteout(self.get_path(path))
        self.tops[path] = top

    def _clear_directory(self, found: LayerEntry, needed: set[str], live: set[str]) -> None:
        """Keep a directory only for its content, or for itself: empty, or of another mode.

        `needed` by what was put, `live` by what is still pending: those are there without a layer.
        """
        place = encode_place(self._upper, found.path)
        mode = found.mode & 0o777
        if found.mode != mode:
            self.get_path(found.path).chmod(mode)
        if self.is_closed(found.path):
            return
        reviewed = self._classify(found).kind == "reviewed"
        below = self._tree.find_below_pending(found.path)
        node = self._tree.find_node(found.path) or (below if reviewed else None)
        is_there = found.path in live or (below is not None and below.kind == "directory")
        if is_there and node is not None and node.kind == "directory":
            is_container = mode == node.mode
        else:
            holds = found.path in needed or not _is_empty(place)
            is_container = reviewed and holds and mode == self._tree.workspace.directory_mode
        if is_container:
            if _is_empty(place) and not is_opaque(place):
                with open_parent(place) as (above, name):
                    os.rmdir(name, dir_fd=above)
        elif reviewed:
            self._bare.append(found.path)
            self.tops[found.path] = KeptTop(root=found.path, kind="directory")


def _is_empty(directory: bytes) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def _build_top(cls: PathClass) -> KeptTop:
    return KeptTop(root=cls.root, kind=cls.kind)
