"""The tree as the agent sees it: pending changes over what commands left behind over the workspace.

Commands see the same, mounted. Paths are workspace-relative; `node` and `names` follow no link, `canonical` does.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from core.errors import PathRefused
from core.protocol.review import Change, FileState
from core.shadow.contents import Contents
from core.shadow.disk import Within, directories_of, walked
from core.shadow.layers import Kept, Layers
from core.shadow.review import ReviewState
from core.shadow.stack import HIDDEN, Layered, Stack
from core.shadow.transfer import lay_in
from core.workspace import ABSENT, Entry, Workspace
from core.workspace.beneath import DIRECTORY, holder, open_direct
from core.workspace.names import from_os, to_os
from core.workspace.tree import LARGEST, PERMISSIONS, Kind, state_at

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class Node(Struct, frozen=True, kw_only=True):
    """What is at a path: with `pending`, that is what it is; with `layered`, a kept layer has it; else the disk."""

    kind: Kind
    mode: int
    size: int = 0
    pending: FileState | None = None
    layered: Layered | None = None


class _Look:
    """What was found out of a tree that does not change meanwhile. `covered`: whether a path lies below a pending file
    or link; `shows`: whether a directory that was removed has something again; `moment`: the version of the review and
    the record of the layers that it is about."""

    def __init__(self, moment: tuple[int, Kept], stack: Stack, holds: Callable[[str], bool]) -> None:
        self.moment = moment
        self.stack = stack
        self.covered = Within(holds)
        self.shows: dict[str, bool] = {}


class _Still(threading.local):
    """Of each thread: how many times it is within `Seen.still`, and what it found since."""

    depth = 0
    look: _Look | None = None


class Seen:
    """The merged tree. `shown` says what of a pending change the agent sees."""

    def __init__(
        self,
        workspace: Workspace,
        contents: Contents,
        state: ReviewState,
        layers: Layers,
        shown: Callable[[Change], FileState],
    ) -> None:
        self._workspace = workspace
        self._contents = contents
        self._state = state
        self._layers = layers
        self._shown = shown
        self._live: tuple[int, frozenset[str]] = (-1, frozenset())
        self._still = _Still()

    @contextmanager
    def still(self) -> Iterator[None]:
        """For whoever goes through a tree: nothing writes to the kept layers meanwhile, so nothing is looked for twice
        in them. (The project may change at any time.)"""
        self._still.depth += 1
        try:
            yield
        finally:
            self._still.depth -= 1
            if not self._still.depth:
                self._still.look = None

    @property
    def _look(self) -> _Look:
        version, kept = self._state.version, self._layers.kept
        known = self._still.look
        if known is not None and known.moment[0] == version and known.moment[1] is kept:
            return known
        look = _Look((version, kept), Stack(self._layers.stack() if kept.layers else ()), self._holds)
        if self._still.depth:
            self._still.look = look
        return look

    def _holds(self, path: str) -> bool:
        """Whether a path itself is a pending file or link."""
        change = self._state.changes.get(path)
        return change is not None and self._shown(change).kind != "absent"

    @property
    def is_bare(self) -> bool:
        """Whether the workspace is all there is to see."""
        return not self._state.changes and not self._layers.kept.layers

    @property
    def directory_mode(self) -> int:
        """The mode of a directory that is new."""
        return self._workspace.directory_mode

    @property
    def stack(self) -> Stack:
        """The kept layers."""
        return self._look.stack

    @property
    def bulk_conflicts(self) -> Mapping[str, str]:
        """What is known, by its root, of why a bulk can't be accepted as it is."""
        return {each.root: each.conflict for each in self._state.bulks}

    def forget(self, rel: str, *, shows: bool = True) -> None:
        """Take a file, link or whiteout out of the kept layers. With `shows`, the workspace's file or link shows then,
        though they hide its directory. Raises OSError."""
        if not self._layers.kept.layers or self.stack.find(rel) is None:
            return
        self._still.look = None
        self._layers.own()
        Stack(self._layers.stack()).forget(rel)
        layer = self.stack.hiding(rel) if shows else None
        node = self.disk_node(rel) if layer else None
        if layer and node and node.kind in {"file", "symlink"}:
            lay_in(self._workspace, rel, layer)

    def canonical(self, rel: str) -> str:
        """`rel` with the links of the merged tree followed; `PathRefused` when one leads out."""
        if self.is_bare:
            return self._workspace.canonical(rel)
        with self.still():
            return self._workspace.canonical(rel, self._link_target)

    def entry(self, rel: str) -> str:
        """`rel` with the links of its directory followed, but not the last part."""
        directory, _, name = rel.rpartition("/")
        above = self.canonical(directory or ".")
        return name if above == "." else f"{above}/{name}"

    def _link_target(self, path: bytes) -> bytes | None:
        rel = from_os(path)
        node = self.node(rel)
        if node is None or node.kind != "symlink":
            return None
        if node.pending is not None:
            return self._contents.data(node.pending)
        try:
            if node.layered is not None:
                return os.fsencode(Path(os.fsdecode(node.layered.place)).readlink())
            with self._workspace.directory(rel) as (directory, name):
                return os.readlink(name, dir_fd=directory)
        except OSError:
            return None

    # one path

    def node(self, rel: str) -> Node | None:
        """What is at a path itself; None: nothing."""
        if rel == ".":
            return self.disk_node(rel)
        change = self._state.changes.get(rel)
        state = self._shown(change) if change else None
        if state is not None and state.kind != "absent":
            return Node(kind=state.kind, mode=state.mode, size=state.size, pending=state)
        if self._state.changes and self._look.covered(rel):
            return None
        if rel in self.live_directories():
            below = self.below(rel)
            mode = below.mode if below and below.kind == "directory" else self._workspace.directory_mode
            return Node(kind="directory", mode=mode)
        if state is not None and not self.is_kept_directory(rel):
            return None
        node = self.below(rel)
        is_gone = node is not None and node.kind == "directory" and rel in self._layers.kept.gone
        return None if is_gone and not self._shows(rel) else node

    def is_kept_directory(self, rel: str) -> bool:
        """Whether a kept layer has a directory there, whatever the workspace has."""
        found = self.stack.find(rel)
        return isinstance(found, Layered) and found.is_directory

    def live_directories(self) -> frozenset[str]:
        """The directories that pending files and links need."""
        if self._live[0] != self._state.version:
            live = (path for path, change in self._state.changes.items() if change.pending.kind != "absent")
            self._live = (self._state.version, frozenset(directories_of(live)))
        return self._live[1]

    def below(self, rel: str) -> Node | None:
        """What is at a path without the pending changes."""
        found = self.stack.find(rel)
        if found == HIDDEN:
            return None
        return self.disk_node(rel) if found is None else _node(found.stats, found)

    def disk_node(self, rel: str) -> Node | None:
        """What the workspace itself has at a path."""
        try:
            with self._workspace.directory(rel) as (directory, name):
                return _node(os.stat(name or b".", dir_fd=directory, follow_symlinks=False))
        except OSError:
            return None

    def is_pending(self, rel: str) -> bool:
        return rel in self._state.changes

    def pending_below(self, rel: str) -> list[str]:
        """The pending files and links at and below a path."""
        return [path for path in self.pending_files() if path == rel or path.startswith(f"{rel}/")]

    def pending_files(self) -> list[str]:
        """All pending files and links."""
        return [path for path, change in self._state.changes.items() if change.pending.kind != "absent"]

    def disk_tree(self, rel: str) -> list[tuple[str, Node]]:
        """A directory of the workspace itself and all below it; nothing if there is none."""
        node = self.disk_node(rel)
        if node is None or node.kind != "directory":
            return []
        found = [(each, self.disk_node(each)) for each, _ in walked(self._workspace, rel) or ()]
        return [(each, below) for each, below in found if below is not None]

    # directories

    def names(self, rel: str) -> dict[str, Kind]:
        """The entries of a directory with their kinds; none if it is no directory."""
        found = self._names_there(rel)
        hidden = [each for each, path in self._removed(rel, found) if not self._shows(path)]
        return {name: kind for name, kind in found.items() if name not in hidden} if hidden else found

    def _removed(self, rel: str, names: Mapping[str, Kind]) -> list[tuple[str, str]]:
        """Those of the entries, with their paths, that are directories which commands removed."""
        prefix, gone = "" if rel == "." else f"{rel}/", self._layers.kept.gone
        paths = ((each, prefix + each) for each, kind in names.items() if kind == "directory") if gone else ()
        return [(each, path) for each, path in paths if path in gone]

    def _shows(self, rel: str) -> bool:
        """Whether a directory that was removed has something again, itself or further down."""
        known = self._look.shows
        waiting = [] if rel in known else [rel]
        while waiting:
            path = waiting[-1]
            names = self._names_there(path)
            below = [each for _, each in self._removed(path, names)]
            unknown = [each for each in below if each not in known] if len(below) == len(names) else []
            if unknown:
                waiting += unknown
                continue
            known[path] = len(below) < len(names) or any(known[each] for each in below)
            waiting.pop()
        return known[rel]

    def _names_there(self, rel: str) -> dict[str, Kind]:
        """`names` with directories that were removed and have nothing again."""
        found = self._names_below(rel)
        for name, entry in self.pending_in(rel).items():
            if entry is not None:
                found[name] = entry.kind
            elif found.get(name) != "directory":
                found.pop(name, None)
        return found

    def _names_below(self, rel: str) -> dict[str, Kind]:
        listing = self.stack.listing(rel)
        found: dict[str, Kind] = {}
        change = self._state.changes.get(rel)
        if change is not None and self._shown(change).kind != "absent":
            return found
        if not listing.closed:
            node = self.disk_node(rel)
            if node is not None and node.kind == "directory":
                found = {each.name: each.kind for each in self._workspace.list_dir(rel)}
        for name, entry in listing.entries.items():
            if entry is None:
                found.pop(name, None)
            else:
                found[name] = _kind(entry.stats.st_mode)
        return found

    def pending_in(self, rel: str) -> Mapping[str, Entry | None]:
        """What pending changes put into a directory, by name; None: they remove it."""
        prefix = "" if rel == "." else f"{rel}/"
        found: dict[str, Entry | None] = {}
        for path, change in self._state.changes.items():
            if not path.startswith(prefix):
                continue
            name, slash, _ = path[len(prefix) :].partition("/")
            kind = change.pending.kind
            if slash and kind != "absent":
                found[name] = Entry(name=name, kind="directory")
            elif not slash and (kind != "absent" or name not in found):
                found[name] = None if kind == "absent" else Entry(name=name, kind=kind)
        return found

    # content

    def read(self, rel: str, node: Node, limit: int) -> bytes:
        """At most `limit` bytes of what `node(rel)` found: of a file, or the target of a link. `PathRefused`."""
        if node.kind == "symlink":
            return self._link_target(to_os(rel)) or b""
        if node.pending is not None:
            return self._contents.data(node.pending)[:limit]
        if node.layered is not None:
            return self.layered_bytes(node.layered, rel, limit)
        return self._workspace.read_bytes(rel, limit)

    def layered_bytes(self, found: Layered, rel: str, limit: int) -> bytes:
        """At most `limit` bytes of a regular file of a kept layer."""
        top = os.open(found.layer, DIRECTORY)
        try:
            descriptor = open_direct(top, to_os(rel), _READ)
        except OSError as error:
            raise PathRefused(f"{rel!r}: {error.strerror}.") from error
        finally:
            os.close(top)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PathRefused(f"{rel!r} is not a regular file.", code="not_a_file")
            return file.read(limit)

    def state_below(self, rel: str) -> FileState:
        """The state without pending changes, its bytes stored. `PathRefused`: no file or link, or too large."""
        found = self.stack.find(rel)
        if found == HIDDEN:
            return ABSENT
        return self.disk_state(rel) if found is None else self._contents.keep(*layered_state(found, rel))

    def disk_state(self, rel: str) -> FileState:
        """What the workspace has at a path itself: behind a link, nothing."""
        try:
            return self._contents.keep(*self._workspace.state_of(rel))
        except PathRefused as error:
            if error.code == "path_escapes":
                return ABSENT
            raise


def layered_state(found: Layered, rel: str) -> tuple[FileState, bytes | None]:
    """The state of a kept layer's entry, and its bytes."""
    try:
        with holder(found.place) as (directory, name):
            return state_at(directory, name, rel)
    except OSError as error:
        raise PathRefused(f"{rel!r}: {error.strerror}.") from error


def _node(stats: os.stat_result, layered: Layered | None = None) -> Node:
    mode = stats.st_mode & PERMISSIONS
    return Node(kind=_kind(stats.st_mode), mode=mode, size=stats.st_size, layered=layered)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "symlink" if stat.S_ISLNK(mode) else "other"


__all__ = ["LARGEST", "Node", "Seen", "layered_state"]
