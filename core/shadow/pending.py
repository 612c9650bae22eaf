"""The pending layer: all pending changes as one overlayfs layer, so that commands see them.

It is derived from the review and never counts for more than that. It is brought up to date by replacing what differs,
never by writing into a file; while a command runs over it, a new one is made beside it, of hard links. A record says
what it holds, and is missing while it is being worked on: then, and after the machine itself was restarted, it is
built anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.errors import ContentLost, StateError
from core.protocol.review import FileState
from core.shadow.contents import Contents, content_of
from core.shadow.disk import Within, directories_of
from core.shadow.layers import Layers
from core.shadow.overlay import make_passable, make_whiteout
from core.shadow.seen import Seen
from core.workspace.beneath import holder
from core.workspace.names import to_os
from core.workspace.removing import remove, remove_tree

_RECORD = "pending.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Held(Struct, frozen=True, kw_only=True):
    """What the layer `name` holds: files, links and whiteouts (absent), and its directories with their modes."""

    name: str = ""
    boot: str = ""
    nodes: dict[str, FileState] = {}
    directories: dict[str, int] = {}


class PendingLayer:
    """`shown` gives, by path, what the agent sees of every pending change."""

    def __init__(self, layers: Layers, contents: Contents, seen: Seen) -> None:
        self._layers = layers
        self._contents = contents
        self._seen = seen
        self._held: Held | None = None
        self._ready: dict[str, tuple[FileState, Path]] = {}

    @property
    def name(self) -> str:
        """The directory in the layers' place that is in use, "" before the first one."""
        return self._held.name if self._held else self._recorded().name

    def sync(self, shown: Mapping[str, FileState]) -> Path | None:
        """The layer's directory, brought up to date; None when nothing is pending. `StateError`: it can't be."""
        with self._seen.still():
            nodes, directories = self._wanted(shown)
        if self._held is None:
            if not nodes:
                return None
            self._held = self._recorded()
        held = self._held
        if (nodes, directories) != (held.nodes, held.directories) or not held.name:
            try:
                self._held = self._replaced(held, nodes, directories)
            except ContentLost:
                self._held = Held()
                raise
            except OSError as error:
                self._held = Held()
                raise StateError(
                    f"The pending changes can't be laid out in {self._layers.place}: {error.strerror}.",
                    hint="Make room, then try again.",
                ) from error
        return self._layers.place / self._held.name if nodes else None

    def adopt(self, path: str, state: FileState, source: Path) -> None:
        """Take a file of a command's layer over as what is pending at `path`: it keeps its times."""
        place = self._layers.place / f"ready-{len(self._ready)}"
        with suppress(OSError):
            remove(place)
            source.rename(place)
            self._ready[path] = (state, place)

    # what it has to hold

    def _wanted(self, shown: Mapping[str, FileState]) -> tuple[dict[str, FileState], dict[str, int]]:
        live = {path for path, state in shown.items() if state.kind != "absent"}
        needed = directories_of(live)
        is_in_live = Within(live.__contains__)
        gone = self._gone(needed, live)
        outermost = self._outermost(gone)
        nodes = {path: shown[path] for path in live}
        for path, state in shown.items():
            if state.kind == "absent" and path not in needed and not is_in_live(path):
                hidden = outermost(path)
                if self._is_directory(hidden) and not self._seen.is_kept_directory(hidden):
                    nodes[hidden] = state
        is_in_gone = Within(gone.__contains__)
        nodes |= {each: FileState(kind="absent", mode=0) for each in gone if not is_in_gone(each)}
        return nodes, {each: self._mode(each) for each in directories_of(nodes)}

    def _outermost(self, gone: set[str]) -> Callable[[str], str]:
        """Of a path, the outermost removed directory that it lies in, or itself."""
        is_in_gone = Within(gone.__contains__)

        def found(path: str) -> str:
            while is_in_gone(path):
                path = path.rpartition("/")[0]
            return path

        return found

    def _is_directory(self, path: str) -> bool:
        """Whether there is a directory for the path to be hidden in."""
        directory = path.rpartition("/")[0]
        node = self._seen.below(directory) if directory else None
        return not directory or (node is not None and node.kind == "directory")

    def _gone(self, needed: set[str], live: set[str]) -> set[str]:
        """The directories that are removed: nothing in them is left, and nothing has taken their place."""
        is_in_live = Within(live.__contains__)
        found = set()
        for each in self._layers.kept.gone:
            if each in needed or each in live or is_in_live(each):
                continue
            below = self._seen.below(each)
            if below is not None and below.kind == "directory" and self._seen.node(each) is None:
                found.add(each)
        return found

    def _mode(self, directory: str) -> int:
        below = self._seen.below(directory)
        return below.mode if below and below.kind == "directory" else self._seen.directory_mode

    # bringing it about

    def _recorded(self) -> Held:
        try:
            held = msgspec.json.decode((self._layers.place / _RECORD).read_bytes(), type=Held)
        except (OSError, msgspec.MsgspecError):
            return Held()
        return held if held.boot == _boot() and (self._layers.place / held.name).is_dir() else Held()

    def _replaced(self, held: Held, nodes: dict[str, FileState], directories: dict[str, int]) -> Held:
        place = self._layers.place
        (place / _RECORD).unlink(missing_ok=True)
        if held.name and not self._layers.open:
            name = held.name
        else:
            name = f"pending-{os.urandom(6).hex()}"
            (place / name).mkdir(mode=0o755)
            held = self._linked(held, name, nodes)
        _Draft(place / name, held, self._contents, self._ready).bring(nodes, directories)
        for _, left in self._ready.values():
            remove(left)
        self._ready.clear()
        found = Held(name=name, boot=_boot(), nodes=nodes, directories=directories)
        temporary = place / f"{_RECORD}.tmp"
        temporary.write_bytes(msgspec.json.encode(found))
        temporary.replace(place / _RECORD)
        self._layers.resized(name)
        if not self._layers.open:
            for each in place.glob("pending-*"):
                if each.name != name and each.is_dir():
                    remove_tree(each)
        return found

    def _linked(self, held: Held, name: str, nodes: Mapping[str, FileState]) -> Held:
        """A new layer with hard links of what the old one holds and is still wanted."""
        if not held.name:
            return Held(name=name)
        old, new = self._layers.place / held.name, self._layers.place / name
        same = {path: state for path, state in held.nodes.items() if nodes.get(path) == state}
        directories = directories_of(same)
        for each in sorted(directories):
            with holder(_at(new, each)) as (above, own):
                os.mkdir(own, 0o700, dir_fd=above)
        for path in same:
            os.link(_at(old, path), _at(new, path), follow_symlinks=False)
        return Held(name=name, nodes=same, directories=dict.fromkeys(directories, 0o700))


class _Draft:
    """A layer's directory on its way from what it holds to what it has to hold."""

    def __init__(self, top: Path, held: Held, contents: Contents, ready: Mapping[str, tuple[FileState, Path]]) -> None:
        self._top = top
        self._held = held
        self._contents = contents
        self._ready = ready

    def bring(self, nodes: Mapping[str, FileState], directories: Mapping[str, int]) -> None:
        """Remove, then make, then set the modes. Raises OSError."""
        self._clear(nodes, directories)
        for each in sorted(set(directories) - set(self._held.directories)):
            with holder(_at(self._top, each)) as (above, name):
                os.mkdir(name, dir_fd=above)
        for path, state in nodes.items():
            if self._held.nodes.get(path) != state:
                with content_of(path):
                    self._put(path, state)
        for each, mode in directories.items():
            if self._held.directories.get(each) != mode or mode & 0o700 != 0o700:
                with holder(_at(self._top, each)) as (above, name):
                    os.chmod(name, mode, dir_fd=above)

    def _clear(self, nodes: Mapping[str, FileState], directories: Mapping[str, int]) -> None:
        """Make room for what is wanted: what is of another kind goes."""
        for each in [each for each, mode in self._held.directories.items() if mode & 0o700 != 0o700]:
            make_passable(self._path(each))
        for path, state in self._held.nodes.items():
            if path not in nodes or nodes[path].kind != state.kind:
                self._path(path).unlink()
        for each in sorted(set(self._held.directories) - set(directories), reverse=True):
            with holder(_at(self._top, each)) as (above, name):
                os.rmdir(name, dir_fd=above)

    def _path(self, path: str) -> Path:
        return Path(os.fsdecode(_at(self._top, path)))

    def _put(self, path: str, state: FileState) -> None:
        target = self._path(path)
        temporary = self._top.with_name(f"{self._top.name}.new")
        remove(temporary)
        ready = self._ready.get(path)
        if state.kind == "absent":
            make_whiteout(temporary)
        elif ready and ready[0] == state:
            temporary = ready[1]
        elif state.kind == "symlink":
            temporary.symlink_to(os.fsdecode(self._contents.data(state)))
        else:
            temporary.write_bytes(self._contents.data(state))
            temporary.chmod(state.mode)
        temporary.replace(target)


def _at(layer: Path, path: str) -> bytes:
    return os.fsencode(layer) + b"/" + to_os(path)


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
