"""Transfer of layers into the workspace, and back: every step relative to descriptors, files by rename.

The steps are planned from the layers and the disk each time, and what is in place already is skipped: so an interrupted
transfer is finished by running it again.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from core.filesystem.atomic_write import make_temporary_name, sync_directory
from core.filesystem.open_beneath import open_parent
from core.protocol.review import FileState
from core.shadow.layers.layer_files import copy_file, fingerprint_entry, fingerprint_file, make_room
from core.shadow.layers.layer_stack import LayeredEntry, LayerStack
from core.shadow.paths import list_parents, walk_directory
from core.workspace import ABSENT, Workspace
from core.workspace.file_names import to_os_name
from core.workspace.path_status import PERMISSION_BITS, PathKind, classify_mode

_ABSENT_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}  # the last: a link is where a directory would be
_MAX_SINGLE_SYNCS = 256


class TransferStep(Struct, frozen=True, kw_only=True):
    """One step: `remove` whatever is at the path, make a `directory` of this mode there, or `put` a file or link."""

    path: str
    what: Literal["remove", "directory", "put"]
    mode: int = 0
    source: LayeredEntry | None = None


class LayerTransfer(Struct, eq=False):
    """Transfers for one workspace and the `session` with this directory. `step` is called between any two effects."""

    workspace: Workspace
    step: Callable[[str], None]
    session: Path

    # planning

    def plan(self, stack: LayerStack, tops: Iterable[str], is_spared: Callable[[str], bool]) -> list[TransferStep]:
        """Plan the steps that bring the tops of the stack to the disk: removals, then directories, then files. Nothing
        `is_spared` is removed because a directory was replaced."""
        removals: list[TransferStep] = []
        directories: dict[str, TransferStep] = {}
        puts: list[TransferStep] = []
        for top in tops:
            for parent in list_parents(top):
                parent_entry = stack.find(parent)
                mode = self.workspace.directory_mode
                if isinstance(parent_entry, LayeredEntry):
                    mode = parent_entry.stats.st_mode & PERMISSION_BITS
                if self.get_kind(parent) is None:
                    directories[parent] = TransferStep(path=parent, what="directory", mode=mode)
            for path, entry in stack.walk(top):
                if entry is None:
                    removals.append(TransferStep(path=path, what="remove"))
                    continue
                mode = entry.stats.st_mode & PERMISSION_BITS
                if entry.is_directory:
                    removals += [removal for removal in self._list_replaced(stack, path) if not is_spared(removal.path)]
                    directories[path] = TransferStep(path=path, what="directory", mode=mode)
                else:
                    puts.append(TransferStep(path=path, what="put", source=entry, mode=mode))
        removals = [removal for removal in removals if self.get_kind(removal.path) is not None]
        return [
            *removals,
            *(directories[directory] for directory in sorted(directories)),
            *sorted(puts, key=_rank_step),
        ]

    def _list_replaced(self, stack: LayerStack, path: str) -> list[TransferStep]:
        """List the removals of what the disk has in a directory that was removed and made again."""
        listing = stack.list_directory(path)
        if not listing.closed or self.get_kind(path) != "directory":
            return []
        names = [entry.name for entry in self.workspace.list_dir(path)]
        return [TransferStep(path=f"{path}/{name}", what="remove") for name in names if name not in listing.entries]

    def get_kind(self, path: str) -> PathKind | None:
        """Return the kind of what the disk has there itself; None: nothing."""
        try:
            with self.workspace.open_parent(path) as (directory, name):
                return classify_mode(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        except OSError as error:
            if error.errno not in _ABSENT_ERRORS:
                raise
            return None

    def is_done(self, op: TransferStep) -> bool:
        """True if the disk has the step's result already."""
        match op.what:
            case "remove":
                return self.get_kind(op.path) is None
            case "directory":
                return self.get_kind(op.path) == "directory" and self._read_mode(op.path) == op.mode
            case "put":
                return op.source is not None and self.read_state(op.path) == fingerprint_entry(op.source)

    def _read_mode(self, path: str) -> int:
        with self.workspace.open_parent(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode & PERMISSION_BITS

    def read_state(self, path: str) -> FileState | None:
        """Return the disk's state there, of any size; None: no file and no link."""
        try:
            with self.workspace.open_parent(path) as (directory, name):
                return fingerprint_file(directory, name)
        except OSError as error:
            if error.errno not in _ABSENT_ERRORS:
                raise
            return ABSENT

    def is_older(self, path: str, timestamp: int) -> bool:
        """True if no file or link at or below the path has changed since that time (ns since 1970). Directories do not
        count: what is accepted in one changes it, too."""
        for child, kind in walk_directory(self.workspace, path) or [(path, "file")]:
            if kind == "directory":
                continue
            with self.workspace.open_parent(child) as (directory, name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= timestamp:
                    return False
        return True

    # keeping what goes

    def save(self, op: TransferStep, into: Path, *, renames: bool) -> None:
        """Copy what the step replaces into a layer; with `renames`, what it removes as a whole is left for `run`."""
        kind = self.get_kind(op.path)
        if kind is None or (op.what == "directory" and kind == "directory"):
            return
        if op.what == "remove" and renames and kind == "directory":
            return
        for path, child_kind in walk_directory(self.workspace, op.path) or [(op.path, kind)]:
            target = make_room(into, path, self._read_mode)
            if child_kind == "directory":
                target.mkdir(exist_ok=True)
                target.chmod(self._read_mode(path) | 0o700)
            elif child_kind in {"file", "symlink"}:
                with open_parent(os.fsencode(target)) as parent, self.workspace.open_parent(path) as source:
                    copy_file(source, parent, sync=False)

    # doing

    def run(self, ops: Iterable[TransferStep], saved_layer: Path, *, renames: bool) -> None:
        """Carry the steps out. Raises OSError and `PathRefused`; what was done until then stays."""
        todo = [op for op in ops if not self.is_done(op)]
        one_by_one = len(todo) <= _MAX_SINGLE_SYNCS
        modes = {}
        for op in todo:
            if op.what == "remove":
                self._remove(op.path, saved_layer if renames else None)
            elif op.what == "directory":
                self._make_directory(op)
                modes[op.path] = op.mode
            else:
                self._put(op, sync=one_by_one)
            self.step(f"{op.what} {op.path}")
        for path in sorted(modes, reverse=True):
            with self.workspace.open_parent(path) as (directory, name):
                os.chmod(name, modes[path], dir_fd=directory)
        if not one_by_one:
            os.sync()

    def _make_directory(self, op: TransferStep) -> None:
        with self.workspace.open_parent(op.path) as (directory, name):
            kind = self.get_kind(op.path)
            if kind not in {None, "directory"}:
                os.unlink(name, dir_fd=directory)
            if kind != "directory":
                os.mkdir(name, 0o700, dir_fd=directory)
            os.chmod(name, op.mode | 0o700, dir_fd=directory)

    def _put(self, op: TransferStep, *, sync: bool) -> None:
        assert op.source is not None
        if self.get_kind(op.path) == "directory":
            self._remove(op.path, None)
        temporary = self._name_temporary(op.path)
        with open_parent(op.source.place) as source, self.workspace.open_parent(op.path) as (directory, target):
            _unlink(directory, temporary)
            try:
                copy_file(source, (directory, temporary), sync=sync)
                os.rename(temporary, target, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                _unlink(directory, temporary)
                raise
            if sync:
                sync_directory(directory)

    def _name_temporary(self, path: str) -> bytes:
        """Return the name of a file until it is whole: unique to the session, and the same after a crash."""
        return make_temporary_name(hashlib.sha256(os.fsencode(self.session) + b"\0" + to_os_name(path)).digest()[:8])

    def clear_temporaries(self, ops: Iterable[TransferStep]) -> None:
        """Remove what a crash in one of these steps left half written."""
        for op in ops:
            with suppress(OSError), self.workspace.open_parent(op.path) as (directory, _):
                _unlink(directory, self._name_temporary(op.path))

    def _remove(self, path: str, saved_layer: Path | None) -> None:
        with self.workspace.open_parent(path) as (directory, name):
            if self.get_kind(path) != "directory":
                os.unlink(name, dir_fd=directory)
                return
            if saved_layer is not None:
                target = make_room(saved_layer, path, self._read_mode)
                os.rename(name, os.fsencode(target), src_dir_fd=directory)
                return
        for child, kind in reversed(walk_directory(self.workspace, path) or []):
            with self.workspace.open_parent(child) as (directory, name):
                if kind == "directory":
                    os.rmdir(name, dir_fd=directory)
                else:
                    os.unlink(name, dir_fd=directory)

    def remove_empty(self, directories: Iterable[str]) -> None:
        """Remove directories that hold nothing, innermost first."""
        self.workspace.remove_directories(sorted(directories))


def _unlink(directory: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _rank_step(op: TransferStep) -> tuple[int, str]:
    """Rank a step: git's objects before the references to them, its index last."""
    inside = f"/{op.path}"
    if "/.git/" not in inside:
        return 0, op.path
    return (0 if "/objects/" in inside else 2 if inside.endswith("/index") else 1), op.path
