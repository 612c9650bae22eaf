"""The pending layer: all pending changes as one overlayfs layer, so that commands see them.

The layer is derived from the review, which is authoritative. An update replaces what differs and never writes into a
file; while a command runs over the layer, the update makes a new layer of hard links. A record describes the content
of the layer. It names no layer while an update is under way: after a crash then, or a restart of the machine, the
layer is built from scratch.

The layer also holds files whose change was rejected or undone, with the current time, as `git checkout` sets it. A
build tool compares times: with the older time of the user's file, what was built from the rejected text would count as
up to date. The user's file is not written; its copy with the new time stays in the layer until the user's file
changes. It is no change in the review, as only commands see it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.errors import ContentLost, PathRefused, StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.file_dates import FileDates
from core.filesystem.open_beneath import open_parent
from core.filesystem.overlay_support import make_whiteout
from core.filesystem.removal import remove_path, remove_tree
from core.ids import OptionalId
from core.protocol.paths import list_parents
from core.protocol.review import FileState
from core.records import decode_json
from core.shadow.content.contents import Contents, explain_lost_content
from core.shadow.content.paths import AnyAncestor, collect_directories
from core.shadow.layers.layer_files import copy_file, link_tree
from core.shadow.layers.layer_store import LayerStore, RetainedLayers
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import encode_layer_path, get_layer_path, make_passable
from core.workspace import MAX_EDITED_BYTES

_RECORD = "pending.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class RenewedFile(Struct, frozen=True, kw_only=True):
    """A file of the project that is copied with a new time: its identity on disk (times in ns since 1970), and the time
    of the copy (`made`). `absent`: the path no longer exists, and its directories get the new time. `is_target`: a
    renewed link leads to it."""

    kind: Literal["absent", "file", "symlink"]
    inode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0
    made: int = 0
    is_target: bool = False

    def is_same(self, other: RenewedFile) -> bool:
        return replace(self, made=0, is_target=False) == replace(other, made=0, is_target=False)


_Node = FileState | RenewedFile


class RenewedFiles(Struct, eq=False):
    """Plan which files of the project need a copy with a new time, and create the copies."""

    tree: MergedTree

    def plan(
        self,
        known_files: Mapping[str, RenewedFile],
        returned_paths: Collection[str],
        pending_paths: Collection[str],
        last_ns: int,
    ) -> dict[str, RenewedFile]:
        """Return the files to renew, by path. `known_files`: those that are renewed already; `returned_paths`: paths
        that commands saw with other content until now; `pending_paths`: the pending ones; `last_ns`: the last time at
        which commands may have seen the other content."""
        is_covered = AnyAncestor(lambda path: path in pending_paths)
        planned_files: dict[str, RenewedFile] = {}
        for path in {*returned_paths, *(path for path, file in known_files.items() if not file.is_target)}:
            if path in pending_paths or is_covered(path) or self.tree.stack.find(path) is not None:
                continue
            file, before = self._identify(path), known_files.get(path)
            if file is None:
                continue
            if before is not None and path not in returned_paths and before.is_same(file):
                planned_files[path] = before
            elif file.modified <= (before.made if before else last_ns):
                planned_files[path] = replace(file, made=time.time_ns())
        links = [(path, file.made) for path, file in planned_files.items() if file.kind == "symlink"]
        for target, timestamp in self._find_targets(links):
            file, before = self._identify(target), known_files.get(target)
            is_own = (
                target not in planned_files and target not in pending_paths and self.tree.stack.find(target) is None
            )
            if is_own and file is not None and file.kind == "file" and file.modified <= timestamp:
                is_known = before is not None and before.is_target and before.is_same(file)
                planned_files[target] = (
                    before if before and is_known else replace(file, made=time.time_ns(), is_target=True)
                )
        return planned_files

    def _find_targets(self, links: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """Yield the targets of links, with the times of the links, as build tools follow links."""
        for path, timestamp in links:
            with suppress(PathRefused):
                yield self.tree.resolve_links(path), timestamp

    def _identify(self, path: str) -> RenewedFile | None:
        """Return the project's entry at a path; None for a directory, or a file that cannot be copied."""
        try:
            with self.tree.workspace.open_parent(path) as (directory, name):
                stats = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except PathRefused:
            return None
        except OSError:
            return RenewedFile(kind="absent", modified=self._find_directory_time(path))
        if stats.st_size > MAX_EDITED_BYTES or not (stat.S_ISREG(stats.st_mode) or stat.S_ISLNK(stats.st_mode)):
            return None
        return RenewedFile(
            kind="symlink" if stat.S_ISLNK(stats.st_mode) else "file",
            inode=stats.st_ino,
            size=stats.st_size,
            modified=stats.st_mtime_ns,
            changed=stats.st_ctime_ns,
        )

    def _find_directory_time(self, path: str) -> int:
        """Return when the nearest existing directory above a path changed (ns since 1970)."""
        for directory in (*reversed(list_parents(path)), "."):
            with suppress(OSError, PathRefused), self.tree.workspace.open_parent(directory) as (above, name):
                return os.stat(name or b".", dir_fd=above, follow_symlinks=False).st_mtime_ns
        return 0

    def copy(self, path: str, file: RenewedFile, target: Path) -> bool:
        """Copy a file of the project, with the current time. Return False if it is no longer that file."""
        with suppress(OSError, PathRefused):
            with self.tree.workspace.open_parent(path) as source, open_parent(os.fsencode(target)) as into:
                copy_file(source, into, sync=False)
            os.utime(target, follow_symlinks=False)
            return (now := self._identify(path)) is not None and now.is_same(file)
        return False

    def find_directories(self, renewed_files: Mapping[str, RenewedFile]) -> set[str]:
        """Return the existing directories of paths that no longer exist."""
        above = {
            parent for path, file in renewed_files.items() if file.kind == "absent" for parent in list_parents(path)
        }
        return {
            parent for parent in above if (node := self.tree.find_node(parent)) is not None and node.kind == "directory"
        }


class PendingRecord(Struct, frozen=True, kw_only=True):
    """The content of the layer `name` ("": it has to be rebuilt): pending files, links and whiteouts (absent), files of
    the project with a new time, and directories with their modes. `seen`: the states of pending paths that commands saw
    last; `times`: modification times of pending files that commands wrote (ns since 1970); `lost`: files of the project
    whose copies with a new time are gone."""

    name: OptionalId = ""
    boot: str = ""
    nodes: dict[str, FileState] = {}
    directories: dict[str, int] = {}
    renewed: dict[str, RenewedFile] = {}
    seen: dict[str, FileState] = {}
    times: dict[str, int] = {}
    lost: tuple[str, ...] = ()

    @property
    def entries(self) -> dict[str, _Node]:
        """All files, links and whiteouts of the layer, by path."""
        return self.nodes | {path: file for path, file in self.renewed.items() if file.kind != "absent"}

    def forget_layer(self) -> PendingRecord:
        """Return the record of the seen states without a layer."""
        return PendingRecord(seen=self.seen, times=self.times, lost=tuple({*self.lost, *self.renewed}))


class PendingLayer:
    """The pending layer of one session."""

    def __init__(self, tree: MergedTree, dates: FileDates) -> None:
        self._tree, self._layers, self._contents, self._dates = tree, tree.layers, tree.contents, dates
        self._held: PendingRecord | None = None
        self._ready: dict[str, tuple[_Node, Path]] = {}
        self._adopted_times: dict[str, int] = {}
        self._renewed_files = RenewedFiles(tree)
        self._due: set[str] = set()
        self._ready_count = 0

    @property
    def name(self) -> str:
        """The name of the current directory in the location of the layers, "" before the first one."""
        return self._held.name if self._held else self._read_record().name

    def sync(self, pending_states: Mapping[str, FileState]) -> Path | None:
        """Update the layer to `pending_states` (visible states by path) and return its directory; None if it would be
        empty. Raises `StateError` if it cannot be written."""
        if self._held is None:
            if not pending_states and not self._layers.exists:
                return None
            self._held = self._read_record()
        record = self._held
        with self._tree.cache_lookups():
            nodes, directories = self._plan_nodes(pending_states)
            renewed_files = self._plan_renewed(record, pending_states, nodes.keys() | directories.keys())
            present = {path for path, file in renewed_files.items() if file.kind != "absent"}
            above = collect_directories(present) | self._renewed_files.find_directories(renewed_files)
            directories |= {
                directory: self._tree.get_directory_mode(directory) for directory in above - directories.keys()
            }
        times = {
            path: timestamp
            for path, timestamp in record.times.items()
            if pending_states.get(path) == record.seen.get(path)
        }
        times = {
            path: timestamp for path, timestamp in times.items() if path in pending_states and path not in self._due
        }
        new_record = PendingRecord(
            nodes=nodes, directories=directories, renewed=renewed_files, seen=dict(pending_states), times=times
        )
        if (
            self._due
            or record != replace(new_record, name=record.name, boot=record.boot)
            or (not record.name and (new_record.entries or directories))
        ):
            self._update(record, new_record)
        return (
            self._layers.location / self._held.name if self._held.name and (new_record.entries or directories) else None
        )

    def _update(self, record: PendingRecord, new_record: PendingRecord) -> None:
        try:
            self._held = self._replace(record, new_record)
            self._due.clear()
        except ContentLost:
            self._held = record.forget_layer()
            raise
        except OSError as error:
            self._held = record.forget_layer()
            raise StateError(
                f"The pending changes can't be prepared in {self._layers.location}: {error.strerror}.",
                hint="Free some space, then try again.",
            ) from error

    def list_replaced(self, pending_states: Mapping[str, FileState]) -> list[tuple[str, FileState]]:
        """Return the files whose pending states differ from those that commands saw, with the latter."""
        if self._held is None and self._layers.exists:
            self._held = self._read_record()
        seen_states = self._held.seen if self._held else {}
        return [(path, state) for path, state in seen_states.items() if pending_states.get(path) != state]

    def record_seen(self, states: Mapping[str, FileState]) -> None:
        """Record the states that a command left, from which it may have built something. Raises `StateError`."""
        record = self._read_record() if self._held is None else self._held
        times = {path: self._adopted_times[path] for path in states if path in self._adopted_times}
        self._adopted_times.clear()
        if times or not states.items() <= record.seen.items():
            older = {path: timestamp for path, timestamp in record.times.items() if path not in states}
            self._held = replace(record, seen=record.seen | dict(states), times=older | times)
            try:
                replace_file(self._layers.location / _RECORD, msgspec.json.encode(self._held), durable=False)
            except OSError as error:
                raise StateError(f"The record {self._layers.location / _RECORD} can't be written: {error}.") from error

    def renew(self, paths: Collection[str]) -> None:
        """Show files to commands with the current time from now on, as something was built from other content of
        them."""
        self._due |= set(paths)

    def adopt(self, path: str, state: FileState, source: Path) -> None:
        """Move a file of a command's layer into the pending layer at `path`, preserving its times."""
        slot = self._reserve_place(path)
        with suppress(OSError):
            remove_path(slot)
            source.rename(slot)
            self._ready[path] = (state, slot)
            self._adopted_times[path] = slot.lstat().st_mtime_ns

    def _reserve_place(self, path: str) -> Path:
        """Return a free path for a prepared file; an earlier one for the same `path` is removed."""
        if (ready_entry := self._ready.pop(path, None)) is not None:
            remove_path(ready_entry[1])
        self._ready_count += 1
        return self._layers.location / f"ready-{self._ready_count}"

    # planning

    def _plan_nodes(self, pending_states: Mapping[str, FileState]) -> tuple[dict[str, FileState], dict[str, int]]:
        live = {path for path, state in pending_states.items() if state.kind != "absent"}
        needed_directories = collect_directories(live)
        is_in_live = AnyAncestor(live.__contains__)
        removed_directories = self._find_removed(needed_directories, live)
        is_in_gone = AnyAncestor(removed_directories.__contains__)
        nodes = {
            path: pending_states[path] for path in live - needed_directories
        }  # except where the user has created the directory again
        for path, state in pending_states.items():
            if state.kind == "absent" and path not in needed_directories and not is_in_live(path):
                hidden_path = path
                while is_in_gone(hidden_path):
                    hidden_path = hidden_path.rpartition("/")[0]
                directory = hidden_path.rpartition("/")[0]  # a path can be hidden only in an existing directory
                node = self._tree.find_below_pending(directory) if directory else None
                is_there = not directory or (node is not None and node.kind == "directory")
                if is_there and not self._tree.is_retained_directory(hidden_path):
                    nodes[hidden_path] = state
        nodes |= {top: FileState(kind="absent", mode=0) for top in removed_directories if not is_in_gone(top)}
        return nodes, {parent: self._tree.get_directory_mode(parent) for parent in collect_directories(nodes)}

    def _plan_renewed(
        self, record: PendingRecord, pending_states: Mapping[str, FileState], taken_paths: Collection[str]
    ) -> dict[str, RenewedFile]:
        """Plan the files of the project with a new time, and copy those that have no copy yet."""
        returned_paths = {*record.seen, *record.lost, *self._due} - pending_states.keys()
        if not returned_paths and not record.renewed:
            return {}
        last = 1 << 63 if self._layers.open_layers or self._due else self._layers.find_last_use()
        renewed_files = self._renewed_files.plan(record.renewed, returned_paths, pending_states.keys(), last)
        for path, file in list(renewed_files.items()):
            is_new = file != record.renewed.get(path) or not record.name
            if path in taken_paths:
                del renewed_files[path]
            elif is_new and file.kind != "absent":
                slot = self._reserve_place(path)
                remove_path(slot)
                if self._renewed_files.copy(path, file, slot):
                    self._ready[path] = (file, slot)
                else:
                    del renewed_files[path]
        return renewed_files

    def _find_removed(self, needed_directories: set[str], live: set[str]) -> set[str]:
        """Return the removed directories that are empty and not replaced."""
        is_in_live = AnyAncestor(live.__contains__)
        removed_directories = set()
        for directory in self._layers.retained.gone:
            if directory in needed_directories or directory in live or is_in_live(directory):
                continue
            below = self._tree.find_below_pending(directory)
            if below is not None and below.kind == "directory" and self._tree.find_node(directory) is None:
                removed_directories.add(directory)
        return removed_directories

    # writing

    def _read_record(self) -> PendingRecord:
        try:
            record = decode_json((self._layers.location / _RECORD).read_bytes(), PendingRecord)
        except (OSError, msgspec.MsgspecError):
            return PendingRecord()
        is_there = record.name and record.boot == _read_boot_id() and (self._layers.location / record.name).is_dir()
        return record if is_there else record.forget_layer()

    def _replace(self, record: PendingRecord, new_record: PendingRecord) -> PendingRecord:
        directory = self._layers.location
        replace_file(directory / _RECORD, msgspec.json.encode(record.forget_layer()), durable=False)
        due = self._due & new_record.nodes.keys()
        old = record
        if record.name and not self._layers.open_layers:
            name = record.name
        else:
            name = f"pending-{os.urandom(6).hex()}"
            (directory / name).mkdir(mode=0o755)
            record = self._link_retained(record, name, new_record, due)
        draft = _LayerDraft(
            directory / name, record, self._contents, self._ready, partial(self._find_replaced, old), self._dates
        )
        draft.write(new_record, due)
        for _, leftover in self._ready.values():
            remove_path(leftover)
        self._ready.clear()
        final_record = replace(new_record, name=name, boot=_read_boot_id())
        replace_file(directory / _RECORD, msgspec.json.encode(final_record), durable=False)
        self._layers.forget_size(name)
        if not self._layers.open_layers:
            for path in directory.glob("pending-*"):
                if path.name != name and path.is_dir():
                    remove_tree(path)
        return final_record

    def _find_replaced(self, record: PendingRecord, path: str) -> os.stat_result | None:
        """Return what commands saw at a path: the layer's file, else the project's."""
        with suppress(OSError, PathRefused):
            if record.name and path in record.entries:
                return get_layer_path(self._layers.location / record.name, path).lstat()
            with self._tree.workspace.open_parent(path) as (above, name):
                return os.stat(name, dir_fd=above, follow_symlinks=False)
        return None

    def _link_retained(
        self, record: PendingRecord, name: str, new_record: PendingRecord, due: Collection[str]
    ) -> PendingRecord:
        """Create a new layer with hard links to the entries of the old one that are still valid."""
        if not record.name:
            return PendingRecord(name=name)
        old, new = self._layers.location / record.name, self._layers.location / name
        entries = new_record.entries
        same = {path for path, node in record.entries.items() if entries.get(path) == node and path not in due}
        directories = collect_directories(same)
        for directory in sorted(directories):
            with open_parent(encode_layer_path(new, directory)) as (above, os_name):
                os.mkdir(os_name, 0o700, dir_fd=above)
        for path in same:
            os.link(get_layer_path(old, path), get_layer_path(new, path), follow_symlinks=False)
        return PendingRecord(
            name=name,
            nodes={path: node for path, node in record.nodes.items() if path in same},
            renewed={path: node for path, node in record.renewed.items() if path in same},
            directories=dict.fromkeys(directories, 0o700),
        )


def copy_layers(source: LayerStore, retained_layers: RetainedLayers, target: LayerStore) -> None:
    """Copy retained layers of one session to another, by hard links where possible, so that gigabytes take no space.
    Raises OSError, `StateError`."""
    if not source.exists or retained_layers == RetainedLayers():
        return
    for name in retained_layers.layers:
        link_tree(source.location / name, target.location / name)
    target.write_record(retained_layers)
    copy_seen(source, target)


def copy_seen(source: LayerStore, target: LayerStore) -> None:
    """Copy the record of what commands saw along with a copy of the retained layers."""
    with suppress(FileNotFoundError):
        (target.location / _RECORD).write_bytes((source.location / _RECORD).read_bytes())
    target.record_use()


class _LayerDraft(Struct, eq=False):
    """A layer's directory while its content is being updated."""

    top: Path
    held: PendingRecord
    contents: Contents
    ready: Mapping[str, tuple[_Node, Path]]
    find_replaced: Callable[[str], os.stat_result | None]
    dates: FileDates

    def write(self, new_record: PendingRecord, due: Collection[str]) -> None:
        """Remove entries, create others, then set the modes; `due`: unchanged entries to create again. Raises
        OSError."""
        entries, nodes, directories = self.held.entries, new_record.entries, new_record.directories
        self._clear(nodes, directories)
        for directory in sorted(set(directories) - set(self.held.directories)):
            with open_parent(encode_layer_path(self.top, directory)) as (above, name):
                os.mkdir(name, dir_fd=above)
        for path, state in nodes.items():
            if entries.get(path) != state or path in due:
                with explain_lost_content(path):
                    self._put(path, state, new_record.times.get(path))
        for directory, mode in directories.items():
            if self.held.directories.get(directory) != mode or mode & 0o700 != 0o700:
                with open_parent(encode_layer_path(self.top, directory)) as (above, name):
                    os.chmod(name, mode, dir_fd=above)

    def _clear(self, nodes: Mapping[str, _Node], directories: Mapping[str, int]) -> None:
        """Remove entries that are not needed or of another kind."""
        for directory in [directory for directory, mode in self.held.directories.items() if mode & 0o700 != 0o700]:
            make_passable(get_layer_path(self.top, directory))
        for path, state in self.held.entries.items():
            if path not in nodes or nodes[path].kind != state.kind:
                get_layer_path(self.top, path).unlink()
        for directory in sorted(set(self.held.directories) - set(directories), reverse=True):
            with open_parent(encode_layer_path(self.top, directory)) as (above, name):
                os.rmdir(name, dir_fd=above)

    def _put(self, path: str, state: _Node, modified_ns: int | None) -> None:
        """Write a file; one that a command left preserves its time, which build tools compare. Others get a time that
        tells them from the file that commands saw there."""
        replaced = self.find_replaced(path) if modified_ns is None else None
        target = get_layer_path(self.top, path)
        temporary = self.top.with_name(f"{self.top.name}.new")
        remove_path(temporary)
        ready = self.ready.get(path)
        if ready and ready[0] == state:
            temporary = ready[1]
        elif isinstance(state, RenewedFile):
            raise FileNotFoundError(errno.ENOENT, "the copy of a project file is missing", path)
        elif state.kind == "absent":
            make_whiteout(temporary)
        elif state.kind == "symlink":
            temporary.symlink_to(os.fsdecode(self.contents.read(state)))
        else:
            temporary.write_bytes(self.contents.read(state))
            temporary.chmod(state.mode)
            if modified_ns is not None:
                os.utime(temporary, ns=(modified_ns, modified_ns))
        if replaced is not None:
            with open_parent(os.fsencode(temporary)) as (above, name):
                self.dates.separate(above, name, replaced)
        temporary.replace(target)


def _read_boot_id() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
