"""The views of a running background command and of the project: what it sees, and what others see of its files.

Changes of the project after its start are sent to it as edits, which land in its layer as if another program had made
them there. They are no work of the command: they are taken out of the layer before it is absorbed, unless the command
has changed them. What the command itself has written can be read by tools and commands, and absorbed, while it runs.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, ToolFailed
from core.filesystem.overlay_support import is_opaque, is_whiteout, set_opaque
from core.filesystem.removal import remove_path
from core.protocol.events import EffectsRecorded
from core.protocol.paths import list_parents
from core.protocol.review import FileState, Origin
from core.sandbox.box import EditSink, LiveEdit
from core.shadow.layers.layer_delta import LiveLayer
from core.shadow.layers.layer_stack import HIDDEN, LayeredEntry, LayerStack, StackListing
from core.shadow.layers.layer_store import CommandLayer
from core.shadow.layers.overlayfs import get_layer_path, scan_layer
from core.shadow.shadow import Shadow
from core.tasks import finish_in_thread
from core.workspace.path_status import classify_mode

MAX_EDITS: Final = 5_000  # paths that are sent at once; more are a build or an installation, for which it is restarted


class _Trace(Struct, frozen=True):
    """The identity of an entry in the command's layer."""

    inode: int = 0
    size: int = 0
    changed_ns: int = 0


_WHITEOUT: Final = _Trace()


class LiveView:
    """The view of one command over `layer`, which gets edits through `sink` (None: it can't). `withheld`: paths that it
    may not read."""

    def __init__(
        self, shadow: Shadow, layer: CommandLayer, sink: EditSink | None, withheld: Collection[str] = ()
    ) -> None:
        self._shadow, self._layer, self._sink, self._withheld = shadow, layer, sink, withheld
        self._states: dict[str, FileState] = dict(layer.pending_states)
        self._retained = shadow.layers.retained
        self._sent: dict[str, _Trace | None] = {}
        self._made: dict[str, int] = {}  # directories that were made for edits, with their inodes
        self._changed_on_disk: set[str] = set()
        self._disk_directories: set[str] = set()
        self._count_vanished(self._states)
        self._copies: LiveLayer | None = None
        self._updating = asyncio.Lock()
        self.missed_count = 0  # paths whose changes it does not see

    # what the command sees

    def note_disk_changes(self, paths: Collection[str]) -> None:
        """Note that the user's own files have changed (none: too many to name); the next update sends them."""
        self._changed_on_disk |= set(paths)
        self.missed_count += not paths

    async def update(self) -> None:
        """Send what has changed in the project since the last call. A change that can't be sent is counted as
        missed."""
        async with self._updating:
            states, retained = self._shadow.list_visible_states(), self._shadow.layers.retained
            disk_paths = self._changed_on_disk - states.keys() - self._states.keys()
            self._changed_on_disk = set()
            if states == self._states and retained.layers == self._retained.layers and not disk_paths:
                return
            paths = sorted(self._list_changed(states) | {path for path in disk_paths if not self._is_withheld(path)})
            lowers = self._shadow.prepare_lowers() if paths else ()
            self._states, self._retained = states, retained
            if self._sink is None or len(paths) > MAX_EDITS:
                self.missed_count += len(paths)
                return
            self.missed_count += self._count_vanished(paths)
            stack = LayerStack(lowers)
            for path in sorted({*paths, *self._find_uncovered(paths, stack)}):
                try:
                    # What was never sent is in the layer below, where the command has it already, but was not told.
                    await self._send(self._sink, path, stack, is_forced=path in disk_paths and path not in self._sent)
                except (OSError, TimeoutError):
                    self.missed_count += 1

    def skip_changes(self, states: Mapping[str, FileState], layers: Collection[str]) -> None:
        """Take what has changed since the pending `states` and the retained `layers` as if the command saw it."""
        new_states, retained = self._shadow.list_visible_states(), self._shadow.layers.retained
        for path in states.keys() | new_states.keys():
            if states.get(path) != (state := new_states.get(path)):
                self._states.pop(path, None)
                self._states |= {path: state} if state is not None else {}
        added = tuple(name for name in retained.layers if name not in layers)
        self._retained = replace(self._retained, layers=(*added, *self._retained.layers))

    def _list_changed(self, states: dict[str, FileState]) -> set[str]:
        """Return the paths that look different now: pending ones, and what commands have left since."""
        paths = {path for path in self._states.keys() | states.keys() if self._states.get(path) != states.get(path)}
        for name in self._shadow.layers.retained.layers:
            if name not in self._retained.layers:
                entries = scan_layer(self._shadow.layers.get_upper(name)).entries
                paths |= {entry.path for entry in entries if entry.kind != "special"}
        return {path for path in paths if not self._is_withheld(path)}

    def _count_vanished(self, paths: Iterable[str]) -> int:
        """Return the number of directories at and above these paths that the project had at an earlier call and has no
        more. The kernel leaves open what a mounted overlay shows of them, so the command may miss what is in them."""
        directories = {directory for path in paths for directory in (*list_parents(path), path)}
        present = {directory for directory in directories if _is_directory(self._shadow.workspace.root / directory)}
        vanished = (directories & self._disk_directories) - present
        self._disk_directories = (self._disk_directories | present) - vanished
        return len(vanished)

    def _find_uncovered(self, paths: Iterable[str], stack: LayerStack) -> set[str]:
        """Return the files and links whose place a directory with one of these paths had: it is gone, and they show
        again."""
        directories = {directory for path in paths for directory in list_parents(path)}
        edits = {directory: self._build_edit(directory, stack) for directory in directories}
        return {path for path, edit in edits.items() if edit is not None and edit.kind in {"file", "symlink"}}

    def _is_withheld(self, path: str) -> bool:
        return any(part in self._withheld for part in (path, *list_parents(path)))

    async def _send(self, sink: EditSink, path: str, stack: LayerStack, *, is_forced: bool) -> None:
        edit = self._build_edit(path, stack)
        if edit is None:
            return
        directories = (*list_parents(path), path) if edit.kind == "directory" else list_parents(path)
        missing = [] if edit.kind == "absent" else [above for above in directories if not self._exists(above)]
        if path in missing and stack.find(path) is None:  # a new directory would hide what the project has in it
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        await sink.send(replace(edit, is_forced=is_forced))
        for directory in missing:
            with suppress(OSError):
                self._made[directory] = get_layer_path(self._layer.upper, directory).lstat().st_ino
        if edit.kind != "directory":
            self._sent[path] = self._trace(path)

    def _build_edit(self, path: str, stack: LayerStack) -> LiveEdit | None:
        """Build the edit that makes a path look as a new command would see it; None: it is no file, link or
        directory."""
        entry = stack.find(path)
        if entry == HIDDEN:
            return LiveEdit(path=path, kind="absent")
        source = Path(os.fsdecode(entry.location)) if entry is not None else self._shadow.workspace.root / path
        try:
            kind = classify_mode(source.lstat().st_mode)
            target = str(source.readlink()) if kind == "symlink" else ""
        except OSError:
            return LiveEdit(path=path, kind="absent")
        if kind == "other":
            return None
        return LiveEdit(path=path, kind=kind, source=source, target=target)

    def _exists(self, directory: str) -> bool:
        """True if the command has a directory there."""
        entry = LayerStack((self._layer.upper, *self._layer.lowers)).find(directory)
        if entry is not None:
            return isinstance(entry, LayeredEntry) and entry.is_directory
        return (self._shadow.workspace.root / directory).is_dir()

    def _trace(self, path: str) -> _Trace | None:
        try:
            stats = get_layer_path(self._layer.upper, path).lstat()
        except OSError:
            return None
        if is_whiteout(stats):  # all whiteouts of a layer may be one inode, which changes with each of them
            return _WHITEOUT
        return _Trace(stats.st_ino, stats.st_size, stats.st_ctime_ns)

    # what others see

    def find(self, path: str) -> LayeredEntry | Literal["hidden"] | None:
        """Return what the command itself has left at a path; HIDDEN: it has removed it; None: nothing, or the project
        has something newer there."""
        if self._shadow.get_visible_state(path) != self._states.get(path):
            return None
        entry = LayerStack((self._layer.upper,)).find(path)
        return None if entry is None or self._is_sent(path) else entry

    def list_directory(self, path: str) -> StackListing:
        """Return what the command has in a directory."""
        return LayerStack((self._layer.upper,)).list_directory(path)

    @property
    def upper(self) -> Path:
        return self._layer.upper

    def _is_sent(self, path: str) -> bool:
        """True if a path is as the edit left it."""
        return path in self._sent and self._trace(path) == self._sent[path]

    def _list_sent(self) -> list[str]:
        """Return the paths of the layer's entries that are as edits left them."""
        return [path for path, trace in self._sent.items() if trace is not None and self._trace(path) == trace]

    # absorbing

    async def absorb_new_changes(self, origin: Origin, started_ns: int) -> EffectsRecorded | None:
        """Absorb what the command has written since the last call, as a copy; None: nothing. Raises `ToolFailed`."""
        await self.update()
        async with self._updating:
            copies = self._copies = self._copies or LiveLayer(self._layer.upper)
            return await self._absorb_copy(copies, origin, started_ns)

    async def _absorb_copy(self, copies: LiveLayer, origin: Origin, started_ns: int) -> EffectsRecorded | None:
        layer = self._shadow.open_layer()
        try:
            sent_paths = self._list_sent()
            has_changes = await finish_in_thread(copies.copy_changes, layer.upper)
            self._remove_sent(layer.upper, sent_paths)
            if not has_changes or not any(os.scandir(layer.upper)):
                self._shadow.drop_layer(layer)
                return None
            effects = self._shadow.absorb(
                replace(layer, pending_states=self._states), origin=origin, started_ns=started_ns
            )
        except (AgentTuiError, OSError) as problem:
            self._shadow.drop_layer(layer)
            raise ToolFailed(f"What it has written could not be read: {problem}.") from None
        except BaseException:
            self._shadow.drop_layer(layer)
            raise
        self._states, self._retained = self._shadow.list_visible_states(), self._shadow.layers.retained
        return effects

    def settle(self) -> CommandLayer:
        """Return a layer with the command's own changes that are not absorbed yet, after the command has ended. Raises
        OSError, `StateError`."""
        sent_paths = self._list_sent()
        if self._copies is None:
            self._remove_sent(self._layer.upper, sent_paths)
            return replace(self._layer, pending_states=self._states)
        layer = self._shadow.open_layer()
        try:
            self._copies.copy_changes(layer.upper)
            self._remove_sent(layer.upper, sent_paths)
        except BaseException:
            self._shadow.drop_layer(layer)
            raise
        self._shadow.drop_layer(self._layer)
        return replace(layer, pending_states=self._states)

    def _remove_sent(self, upper: Path, paths: Collection[str]) -> None:
        """Take edits out of a layer, with the directories that were made for them and are empty now."""
        for path in paths:
            remove_path(get_layer_path(upper, path))
        for directory in sorted(self._made, reverse=True):
            place = get_layer_path(upper, directory)
            if not place.is_dir() or place.is_symlink():
                continue
            if self._is_made(directory) and is_opaque(place):
                set_opaque(place, False)  # it was new to the command, and hides nothing
            with suppress(OSError):
                place.rmdir()

    def _is_made(self, directory: str) -> bool:
        """True if a directory is still the one that was made for an edit."""
        with suppress(OSError):
            return get_layer_path(self._layer.upper, directory).lstat().st_ino == self._made[directory]
        return False

    def list_written(self) -> Iterator[str]:
        """Yield the paths that the command itself has written or removed so far."""
        for entry in scan_layer(self._layer.upper).entries:
            if entry.kind in {"file", "symlink", "whiteout"} and not self._is_sent(entry.path):
                yield entry.path


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
