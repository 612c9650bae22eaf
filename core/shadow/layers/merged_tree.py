"""The merged tree, as the agent sees it: pending changes over the retained layers over the workspace.

Commands see the same tree, mounted. Paths are workspace-relative; `find_node` and `list_names` follow no link,
`resolve_links` does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from core.errors import PathRefused
from core.filesystem.open_beneath import DIRECTORY, open_beneath, open_parent
from core.filesystem.open_files import read_open_file
from core.protocol.review import Change, FileState
from core.shadow.content.contents import Contents
from core.shadow.content.paths import AnyAncestor, collect_directories, walk_directory
from core.shadow.layers.layer_files import copy_into_layer
from core.shadow.layers.layer_stack import HIDDEN, NO_LAYERS, LayeredEntry, LayerStack
from core.shadow.layers.layer_store import LayerStore, RetainedLayers
from core.state.review import ReviewState
from core.workspace import ABSENT, DirectoryEntry, Workspace
from core.workspace.file_names import from_os_name, to_os_name
from core.workspace.path_status import PERMISSION_BITS, PathKind, classify_mode, read_state_at

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class TreeNode(Struct, frozen=True, kw_only=True):
    """An entry of the merged tree: `pending` from a pending change, `layered` from a retained layer, else from disk."""

    kind: PathKind
    mode: int
    size: int = 0
    pending: FileState | None = None
    layered: LayeredEntry | None = None


class _TreeCache(Struct, eq=False):
    """Cached lookups while the `version` of the review and the record `retained` are unchanged. `covered`: True for
    paths below a pending file or link; `shows`: by removed directory, True if it has content again."""

    version: int
    retained: RetainedLayers
    stack: LayerStack
    covered: AnyAncestor
    shows: dict[str, bool] = field(default_factory=dict)


class _ThreadCache(threading.local):
    """Per thread: the depth of `MergedTree.cache_lookups`, and its cache."""

    depth = 0
    cache: _TreeCache | None = None


class MergedTree(Struct, eq=False):
    """The merged tree. `shown` returns the state of a pending change that the agent sees."""

    workspace: Workspace
    contents: Contents
    state: ReviewState
    layers: LayerStore
    shown: Callable[[Change], FileState]
    _live: tuple[int, frozenset[str]] = (-1, frozenset())
    _still: _ThreadCache = field(default_factory=_ThreadCache)

    @contextmanager
    def cache_lookups(self) -> Iterator[None]:
        """Cache lookups for a walk, during which nothing writes to the retained layers. (The project may change.)"""
        self._still.depth += 1
        try:
            yield
        finally:
            self._still.depth -= 1
            if not self._still.depth:
                self._still.cache = None

    @property
    def _cache(self) -> _TreeCache:
        version, retained_layers = self.state.version, self.layers.retained
        tree_cache = self._still.cache
        if tree_cache is not None and tree_cache.version == version and tree_cache.retained is retained_layers:
            return tree_cache
        stack = LayerStack(self.layers.list_uppers()) if retained_layers.layers else NO_LAYERS
        cache = _TreeCache(version, retained_layers, stack, AnyAncestor(self._is_pending_file))
        if self._still.depth:
            self._still.cache = cache
        return cache

    def _is_pending_file(self, path: str) -> bool:
        change = self.state.changes.get(path)
        return change is not None and self.shown(change).kind != "absent"

    @property
    def is_workspace_only(self) -> bool:
        """True if there are neither pending changes nor retained layers."""
        return not self.state.changes and not self.layers.retained.layers

    @property
    def stack(self) -> LayerStack:
        """The retained layers."""
        return self._cache.stack

    def forget(self, rel: str, *, shows: bool = True) -> None:
        """Remove a file, link or whiteout from the retained layers. With `shows`, the workspace's file or link becomes
        visible even if the layers hide its directory. Raises OSError."""
        if self.stack.find(rel) is None:
            return
        self._still.cache = None
        self.layers.unshare()
        LayerStack(self.layers.list_uppers()).forget(rel)
        layer = self.stack.find_hiding_layer(rel) if shows else None
        node = self.find_on_disk(rel) if layer else None
        if layer and node and node.kind in {"file", "symlink"}:
            copy_into_layer(self.workspace, rel, layer)

    def resolve_links(self, rel: str) -> str:
        """Return `rel` with the links of the merged tree resolved. Raises `PathRefused` if one leads outside."""
        if self.is_workspace_only:
            return self.workspace.resolve(rel)
        with self.cache_lookups():
            return self.workspace.resolve(rel, self._read_link)

    def resolve_parent_links(self, rel: str) -> str:
        """Return `rel` with the links of its directory resolved, but not the last part."""
        directory, _, name = rel.rpartition("/")
        above = self.resolve_links(directory or ".")
        return self.workspace.spell(name if above == "." else f"{above}/{name}")

    def _read_link(self, path: bytes) -> bytes | None:
        rel = from_os_name(path)
        node = self.find_node(rel)
        if node is None or node.kind != "symlink":
            return None
        if node.pending is not None:
            return self.contents.read(node.pending)
        with suppress(OSError):
            if node.layered is not None:
                return os.fsencode(Path(os.fsdecode(node.layered.location)).readlink())
            with self.workspace.open_parent(rel) as (directory, name):
                return os.readlink(name, dir_fd=directory)
        return None

    # single paths

    def find_node(self, rel: str) -> TreeNode | None:
        """Return the entry at a path, without following a link; None if there is none."""
        if rel == ".":
            return self.find_on_disk(rel)
        change = self.state.changes.get(rel)
        state = self.shown(change) if change else None
        if state is not None and state.kind != "absent":
            return TreeNode(kind=state.kind, mode=state.mode, size=state.size, pending=state)
        if self.state.changes and self._cache.covered(rel):
            return None
        if rel in self.list_live_directories():
            return TreeNode(kind="directory", mode=self.get_directory_mode(rel))
        if state is not None and not self.is_retained_directory(rel):
            return None
        node = self.find_below_pending(rel)
        is_gone = node is not None and node.kind == "directory" and rel in self.layers.retained.gone
        return None if is_gone and not self._has_content(rel) else node

    def is_retained_directory(self, rel: str) -> bool:
        """True if a retained layer has a directory there, regardless of the workspace."""
        entry = self.stack.find(rel)
        return isinstance(entry, LayeredEntry) and entry.is_directory

    def list_live_directories(self) -> frozenset[str]:
        """Return the directories that pending files and links need."""
        if self._live[0] != self.state.version:
            live = (path for path, change in self.state.changes.items() if change.pending.kind != "absent")
            self._live = (self.state.version, frozenset(collect_directories(live)))
        return self._live[1]

    def find_below_pending(self, rel: str) -> TreeNode | None:
        """Return the entry at a path without the pending changes; None if there is none."""
        entry = self.stack.find(rel)
        if entry == HIDDEN:
            return None
        return self.find_on_disk(rel) if entry is None else build_node(entry.stats, entry)

    def get_directory_mode(self, rel: str) -> int:
        """Return the mode of a directory that pending changes need: that of the existing one, or the default of new
        ones."""
        below = self.find_below_pending(rel)
        return below.mode if below and below.kind == "directory" else self.workspace.directory_mode

    def find_on_disk(self, rel: str) -> TreeNode | None:
        """Return the workspace's own entry at a path; None if there is none."""
        with suppress(OSError), self.workspace.open_parent(rel) as (directory, name):
            return build_node(os.stat(name or b".", dir_fd=directory, follow_symlinks=False))
        return None

    def is_bare_repository(self, rel: str) -> bool:
        """True if git takes a directory for a repository."""
        above = "" if rel == "." else f"{rel}/"
        head, *others = (self.find_node(above + name) for name in ("HEAD", "objects", "refs"))
        return head is not None and all(node is not None and node.kind == "directory" for node in others)

    def list_pending_files(self) -> list[str]:
        """Return all pending files and links."""
        return [path for path, change in self.state.changes.items() if change.pending.kind != "absent"]

    def walk_disk(self, rel: str) -> list[tuple[str, TreeNode]]:
        """Return a directory of the workspace itself and everything below it; nothing if there is none."""
        node = self.find_on_disk(rel)
        if node is None or node.kind != "directory":
            return []
        children = [(child, self.find_on_disk(child)) for child, _ in walk_directory(self.workspace, rel) or ()]
        return [(child, below) for child, below in children if below is not None]

    # directories

    def list_names(self, rel: str) -> dict[str, PathKind]:
        """Return the entries of a directory with their kinds; nothing if it is no directory."""
        kinds = self._list_with_removed(rel)
        hidden_names = [name for name, path in self._filter_removed(rel, kinds) if not self._has_content(path)]
        return {name: kind for name, kind in kinds.items() if name not in hidden_names} if hidden_names else kinds

    def _filter_removed(self, rel: str, names: Mapping[str, PathKind]) -> list[tuple[str, str]]:
        """Return the names and paths of the entries that are directories removed by commands."""
        prefix, removed_directories = "" if rel == "." else f"{rel}/", self.layers.retained.gone
        paths = (
            ((name, prefix + name) for name, kind in names.items() if kind == "directory")
            if removed_directories
            else ()
        )
        return [(name, path) for name, path in paths if path in removed_directories]

    def _has_content(self, rel: str) -> bool:
        """True if a removed directory has content again, directly or further down."""
        visibility = self._cache.shows
        waiting = [] if rel in visibility else [rel]
        while waiting:
            path = waiting[-1]
            names = self._list_with_removed(path)
            below = [child for _, child in self._filter_removed(path, names)]
            unknown = [child for child in below if child not in visibility] if len(below) == len(names) else []
            if unknown:
                waiting += unknown
                continue
            visibility[path] = len(below) < len(names) or any(visibility[child] for child in below)
            waiting.pop()
        return visibility[rel]

    def _list_with_removed(self, rel: str) -> dict[str, PathKind]:
        """Return `list_names` including removed directories that are empty."""
        kinds = self._list_below_pending(rel)
        for name, entry in self._list_pending_in(rel).items():
            if entry is not None:
                kinds[name] = entry.kind
            elif kinds.get(name) != "directory":
                kinds.pop(name, None)
        return kinds

    def _list_below_pending(self, rel: str) -> dict[str, PathKind]:
        listing = self.stack.list_directory(rel)
        kinds: dict[str, PathKind] = {}
        change = self.state.changes.get(rel)
        if change is not None and self.shown(change).kind != "absent":
            return kinds
        if not listing.closed:
            node = self.find_on_disk(rel)
            if node is not None and node.kind == "directory":
                kinds = {disk_entry.name: disk_entry.kind for disk_entry in self.workspace.list_dir(rel)}
        for name, entry in listing.entries.items():
            if entry is None:
                kinds.pop(name, None)
            else:
                kinds[name] = classify_mode(entry.stats.st_mode)
        return kinds

    def _list_pending_in(self, rel: str) -> Mapping[str, DirectoryEntry | None]:
        """Return the pending entries of a directory, by name; None: a pending deletion."""
        prefix = "" if rel == "." else f"{rel}/"
        directory_entries: dict[str, DirectoryEntry | None] = {}
        for path, change in self.state.changes.items():
            if not path.startswith(prefix):
                continue
            name, slash, _ = path[len(prefix) :].partition("/")
            kind = change.pending.kind
            if slash and kind != "absent":
                directory_entries[name] = DirectoryEntry(name=name, kind="directory")
            elif not slash and (kind != "absent" or name not in directory_entries):
                directory_entries[name] = None if kind == "absent" else DirectoryEntry(name=name, kind=kind)
        return directory_entries

    # content

    def read(self, rel: str, node: TreeNode, limit: int) -> bytes:
        """Return at most `limit` bytes of the file `node` at `rel`, or the target of a link. Raises `PathRefused`."""
        if node.kind == "symlink":
            return self._read_link(to_os_name(rel)) or b""
        if node.pending is not None:
            return self.contents.read(node.pending)[:limit]
        if node.layered is None:
            return self.workspace.read_bytes(rel, limit)
        top = os.open(node.layered.layer, DIRECTORY)
        try:
            descriptor = open_beneath(top, to_os_name(rel), _READ)
        except OSError as error:
            raise PathRefused(f"{rel!r}: {error.strerror}.") from error
        finally:
            os.close(top)
        try:
            return read_open_file(descriptor, limit)
        except OSError as error:
            raise PathRefused(f"{rel!r} can't be read: {error.strerror}.", code="not_a_file") from error

    def read_state_below(self, rel: str) -> FileState:
        """Return the state without pending changes, its bytes stored. Raises `PathRefused` if it is no file or too
        large."""
        entry = self.stack.find(rel)
        if entry == HIDDEN:
            return ABSENT
        if entry is None:
            return self.read_disk_state(rel)
        try:
            with open_parent(entry.location) as (directory, name):
                return self.contents.store(*read_state_at(directory, name, rel))
        except OSError as error:
            raise PathRefused(f"{rel!r}: {error.strerror}.") from error

    def read_disk_state(self, rel: str) -> FileState:
        """Return the workspace's own state at a path, its bytes stored; a path behind a link is absent."""
        try:
            return self.contents.store(*self.workspace.read_state(rel))
        except PathRefused as error:
            if error.code == "path_escapes":
                return ABSENT
            raise


def build_node(stats: os.stat_result, layered_entry: LayeredEntry | None = None) -> TreeNode:
    """Build the node of an entry on disk, or in a layer."""
    mode = stats.st_mode & PERMISSION_BITS
    return TreeNode(kind=classify_mode(stats.st_mode), mode=mode, size=stats.st_size, layered=layered_entry)
