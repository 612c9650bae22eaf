"""The pending layer: all pending changes as one overlayfs layer, so that commands see them.

It is derived from the review and never counts for more than that. It is brought up to date by replacing what differs,
never by writing into a file; while a command runs over it, a new one is made beside it, of hard links. A record says
what it holds, and is missing while it is being worked on: then, and after the machine itself was restarted, it is built
anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.errors import ContentLost, StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.open_beneath import open_parent
from core.filesystem.removal import remove_path, remove_tree
from core.ids import OptionalId
from core.protocol.review import FileState
from core.records import decode_json
from core.shadow.content.contents import Contents, explain_lost_content
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import encode_place, get_place, make_passable, make_whiteout
from core.shadow.paths import AnyAncestor, collect_directories

_RECORD = "pending.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class PendingRecord(Struct, frozen=True, kw_only=True):
    """The content of the layer `name`: files, links and whiteouts (absent), and its directories with their modes."""

    name: OptionalId = ""
    boot: str = ""
    nodes: dict[str, FileState] = {}
    directories: dict[str, int] = {}


class PendingLayer:
    """The pending layer of one session."""

    def __init__(self, tree: MergedTree) -> None:
        self._tree, self._layers, self._contents = tree, tree.layers, tree.contents
        self._held: PendingRecord | None = None
        self._ready: dict[str, tuple[FileState, Path]] = {}

    @property
    def name(self) -> str:
        """The directory in the layers' place that is in use, "" before the first one."""
        return self._held.name if self._held else self._read_record().name

    def sync(self, shown: Mapping[str, FileState]) -> Path | None:
        """Return the layer's directory, brought up to date with `shown` (visible states by path); None if nothing is
        pending. Raises `StateError` if it can't be written."""
        with self._tree.cache_lookups():
            nodes, directories = self._plan_nodes(shown)
        if self._held is None:
            if not nodes:
                return None
            self._held = self._read_record()
        held = self._held
        if (nodes, directories) != (held.nodes, held.directories) or not held.name:
            try:
                self._held = self._replace(held, nodes, directories)
            except ContentLost:
                self._held = PendingRecord()
                raise
            except OSError as error:
                self._held = PendingRecord()
                raise StateError(
                    f"The pending changes can't be laid out in {self._layers.place}: {error.strerror}.",
                    hint="Make room, then try again.",
                ) from error
        return self._layers.place / self._held.name if nodes else None

    def adopt(self, path: str, state: FileState, source: Path) -> None:
        """Take a file of a command's layer over as the pending one at `path`: it keeps its times."""
        place = self._layers.place / f"ready-{len(self._ready)}"
        with suppress(OSError):
            remove_path(place)
            source.rename(place)
            self._ready[path] = (state, place)

    # what it has to hold

    def _plan_nodes(self, shown: Mapping[str, FileState]) -> tuple[dict[str, FileState], dict[str, int]]:
        live = {path for path, state in shown.items() if state.kind != "absent"}
        needed = collect_directories(live)
        is_in_live = AnyAncestor(live.__contains__)
        gone = self._find_removed(needed, live)
        is_in_gone = AnyAncestor(gone.__contains__)
        nodes = {path: shown[path] for path in live}
        for path, state in shown.items():
            if state.kind == "absent" and path not in needed and not is_in_live(path):
                hidden = path
                while is_in_gone(hidden):
                    hidden = hidden.rpartition("/")[0]
                directory = hidden.rpartition("/")[0]  # there has to be one for the path to be hidden in
                node = self._tree.find_below_pending(directory) if directory else None
                is_there = not directory or (node is not None and node.kind == "directory")
                if is_there and not self._tree.is_kept_directory(hidden):
                    nodes[hidden] = state
        nodes |= {each: FileState(kind="absent", mode=0) for each in gone if not is_in_gone(each)}
        return nodes, {each: self._tree.get_directory_mode(each) for each in collect_directories(nodes)}

    def _find_removed(self, needed: set[str], live: set[str]) -> set[str]:
        """Return the removed directories: nothing in them is left, and nothing has taken their place."""
        is_in_live = AnyAncestor(live.__contains__)
        found = set()
        for each in self._layers.kept.gone:
            if each in needed or each in live or is_in_live(each):
                continue
            below = self._tree.find_below_pending(each)
            if below is not None and below.kind == "directory" and self._tree.find_node(each) is None:
                found.add(each)
        return found

    # bringing it about

    def _read_record(self) -> PendingRecord:
        try:
            held = decode_json((self._layers.place / _RECORD).read_bytes(), PendingRecord)
        except (OSError, msgspec.MsgspecError):
            return PendingRecord()
        return held if held.boot == _read_boot_id() and (self._layers.place / held.name).is_dir() else PendingRecord()

    def _replace(self, held: PendingRecord, nodes: dict[str, FileState], directories: dict[str, int]) -> PendingRecord:
        place = self._layers.place
        (place / _RECORD).unlink(missing_ok=True)
        if held.name and not self._layers.open_layers:
            name = held.name
        else:
            name = f"pending-{os.urandom(6).hex()}"
            (place / name).mkdir(mode=0o755)
            held = self._link_kept(held, name, nodes)
        _LayerDraft(place / name, held, self._contents, self._ready).write(nodes, directories)
        for _, left in self._ready.values():
            remove_path(left)
        self._ready.clear()
        found = PendingRecord(name=name, boot=_read_boot_id(), nodes=nodes, directories=directories)
        replace_file(place / _RECORD, msgspec.json.encode(found), durable=False)
        self._layers.forget_size(name)
        if not self._layers.open_layers:
            for each in place.glob("pending-*"):
                if each.name != name and each.is_dir():
                    remove_tree(each)
        return found

    def _link_kept(self, held: PendingRecord, name: str, nodes: Mapping[str, FileState]) -> PendingRecord:
        """Make a new layer with hard links of what the old one holds and is still wanted."""
        if not held.name:
            return PendingRecord(name=name)
        old, new = self._layers.place / held.name, self._layers.place / name
        same = {path: state for path, state in held.nodes.items() if nodes.get(path) == state}
        directories = collect_directories(same)
        for each in sorted(directories):
            with open_parent(encode_place(new, each)) as (above, own):
                os.mkdir(own, 0o700, dir_fd=above)
        for path in same:
            os.link(get_place(old, path), get_place(new, path), follow_symlinks=False)
        return PendingRecord(name=name, nodes=same, directories=dict.fromkeys(directories, 0o700))


class _LayerDraft(Struct, eq=False):
    """A layer's directory while it is changed from one content to another."""

    top: Path
    held: PendingRecord
    contents: Contents
    ready: Mapping[str, tuple[FileState, Path]]

    def write(self, nodes: Mapping[str, FileState], directories: Mapping[str, int]) -> None:
        """Remove, then make, then set the modes. Raises OSError."""
        self._clear(nodes, directories)
        for each in sorted(set(directories) - set(self.held.directories)):
            with open_parent(encode_place(self.top, each)) as (above, name):
                os.mkdir(name, dir_fd=above)
        for path, state in nodes.items():
            if self.held.nodes.get(path) != state:
                with explain_lost_content(path):
                    self._put(path, state)
        for each, mode in directories.items():
            if self.held.directories.get(each) != mode or mode & 0o700 != 0o700:
                with open_parent(encode_place(self.top, each)) as (above, name):
                    os.chmod(name, mode, dir_fd=above)

    def _clear(self, nodes: Mapping[str, FileState], directories: Mapping[str, int]) -> None:
        """Remove what is not wanted, or is of another kind."""
        for each in [each for each, mode in self.held.directories.items() if mode & 0o700 != 0o700]:
            make_passable(get_place(self.top, each))
        for path, state in self.held.nodes.items():
            if path not in nodes or nodes[path].kind != state.kind:
                get_place(self.top, path).unlink()
        for each in sorted(set(self.held.directories) - set(directories), reverse=True):
            with open_parent(encode_place(self.top, each)) as (above, name):
                os.rmdir(name, dir_fd=above)

    def _put(self, path: str, state: FileState) -> None:
        target = get_place(self.top, path)
        temporary = self.top.with_name(f"{self.top.name}.new")
        remove_path(temporary)
        ready = self.ready.get(path)
        if state.kind == "absent":
            make_whiteout(temporary)
        elif ready and ready[0] == state:
            temporary = ready[1]
        elif state.kind == "symlink":
            temporary.symlink_to(os.fsdecode(self.contents.read(state)))
        else:
            temporary.write_bytes(self.contents.read(state))
            temporary.chmod(state.mode)
        temporary.replace(target)


def _read_boot_id() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
