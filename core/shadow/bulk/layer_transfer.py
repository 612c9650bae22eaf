"""Transfers layers into the workspace and back, after a check that this overwrites no later change of the user.

The steps are planned from the layers and the disk every time, relative to descriptors, and files move by rename. A step
that is already done is skipped, so running an interrupted transfer again finishes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from core.errors import AgentTuiError, PathRefused, ReviewConflict
from core.filesystem.atomic_write import make_temporary_name, sync_directory
from core.filesystem.open_beneath import open_parent
from core.filesystem.overlay_support import is_opaque
from core.git.index import is_same_index
from core.protocol.paths import list_parents
from core.protocol.review import FileState
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.paths import collect_directories, format_paths, walk_directory
from core.shadow.layers.layer_files import copy_file, fingerprint_entry, fingerprint_file, make_parent_directories
from core.shadow.layers.layer_stack import LayeredEntry, LayerStack
from core.shadow.layers.layer_store import RetainedTop
from core.workspace import ABSENT, Workspace
from core.workspace.file_names import to_os_name
from core.workspace.path_status import PERMISSION_BITS, PathKind, classify_mode

_ABSENT_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}  # ELOOP: a link is in the place of a directory
_MAX_SINGLE_SYNCS = 256
MAX_NAMED = 3  # paths in a message
MAX_CHECKED = 20_000
GIT_BUSY = "git_busy"
Tops = Mapping[str, RetainedTop]
Bases = Mapping[str, FileState]


class TransferStep(Struct, frozen=True, kw_only=True):
    """One step: `remove` the path, make a `directory` with this mode, or `put` a file or link."""

    path: str
    what: Literal["remove", "directory", "put"]
    mode: int = 0
    source: LayeredEntry | None = None


class LayerTransfer(Struct, eq=False):
    """Transfers of one workspace and one `session` directory. `step` is called between any two effects."""

    workspace: Workspace
    step: Callable[[str], None]
    session: Path

    # planning

    def plan(self, stack: LayerStack, tops: Iterable[str], is_spared: Callable[[str], bool]) -> list[TransferStep]:
        """Plan the steps that write the tops of the stack to the disk: removals, then directories, then files. Paths
        for which `is_spared` is true survive the replacement of a directory."""
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
        """List the removals for a directory that was removed and created again."""
        listing = stack.list_directory(path)
        if not listing.closed or self.get_kind(path) != "directory":
            return []
        names = [entry.name for entry in self.workspace.list_dir(path)]
        return [TransferStep(path=f"{path}/{name}", what="remove") for name in names if name not in listing.entries]

    def get_kind(self, path: str) -> PathKind | None:
        """Return the kind of the disk's entry; None if there is none."""
        try:
            with self.workspace.open_parent(path) as (directory, name):
                return classify_mode(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        except OSError as error:
            if error.errno not in _ABSENT_ERRORS:
                raise
            return None

    def is_done(self, op: TransferStep) -> bool:
        """True if the disk already has the step's result."""
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
        """Return the disk's state at a path, of any size; None if there is no file or link."""
        try:
            with self.workspace.open_parent(path) as (directory, name):
                return fingerprint_file(directory, name)
        except OSError as error:
            if error.errno not in _ABSENT_ERRORS:
                raise
            return ABSENT

    def is_older(self, path: str, timestamp: int) -> bool:
        """True if no file or link at or below the path has changed since `timestamp` (ns since 1970). Directories do
        not count, as accepted files change them."""
        for child, kind in walk_directory(self.workspace, path) or [(path, "file")]:
            if kind == "directory":
                continue
            with self.workspace.open_parent(child) as (directory, name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= timestamp:
                    return False
        return True

    # saving

    def save(self, op: TransferStep, into: Path, *, renames: bool) -> None:
        """Copy what the step replaces into a layer; with `renames`, `run` moves whole removed entries there instead."""
        kind = self.get_kind(op.path)
        if kind is None or (op.what == "directory" and kind == "directory"):
            return
        if op.what == "remove" and renames and kind == "directory":
            return
        for path, child_kind in walk_directory(self.workspace, op.path) or [(op.path, kind)]:
            target = make_parent_directories(into, path, self._read_mode)
            if child_kind == "directory":
                target.mkdir(exist_ok=True)
                target.chmod(self._read_mode(path) | 0o700)
            elif child_kind in {"file", "symlink"}:
                with open_parent(os.fsencode(target)) as parent, self.workspace.open_parent(path) as source:
                    copy_file(source, parent, sync=False)

    # execution

    def run(self, ops: Iterable[TransferStep], saved_layer: Path, *, renames: bool) -> None:
        """Carry out the steps. Raises OSError and `PathRefused`; completed steps are not rolled back."""
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
        with open_parent(op.source.location) as source, self.workspace.open_parent(op.path) as (directory, target):
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
        """Return the temporary name of an incomplete file: unique to the session, and the same after a crash."""
        return make_temporary_name(hashlib.sha256(os.fsencode(self.session) + b"\0" + to_os_name(path)).digest()[:8])

    def clear_temporaries(self, ops: Iterable[TransferStep]) -> None:
        """Remove the incomplete files that a crash during these steps left."""
        for op in ops:
            with suppress(OSError), self.workspace.open_parent(op.path) as (directory, _):
                _unlink(directory, self._name_temporary(op.path))

    def _remove(self, path: str, saved_layer: Path | None) -> None:
        with self.workspace.open_parent(path) as (directory, name):
            if self.get_kind(path) != "directory":
                os.unlink(name, dir_fd=directory)
                return
            if saved_layer is not None:
                target = make_parent_directories(saved_layer, path, self._read_mode)
                os.rename(name, os.fsencode(target), src_dir_fd=directory)
                return
        for child, kind in reversed(walk_directory(self.workspace, path) or []):
            with self.workspace.open_parent(child) as (directory, name):
                if kind == "directory":
                    os.rmdir(name, dir_fd=directory)
                else:
                    os.unlink(name, dir_fd=directory)

    def remove_empty(self, directories: Iterable[str]) -> None:
        """Remove empty directories, innermost first."""
        self.workspace.remove_directories(sorted(directories))


def _unlink(directory: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _rank_step(op: TransferStep) -> tuple[int, str]:
    """Return the sort key of a step: git's objects before the references to them, its index last."""
    inside = f"/{op.path}"
    if "/.git/" not in inside:
        return 0, op.path
    return (0 if "/objects/" in inside else 2 if inside.endswith("/index") else 1), op.path


class BulkGuard(Struct, eq=False):
    """Compare the project with the state that commands saw."""

    workspace: Workspace
    transfer: LayerTransfer
    blobs: BlobStore

    def refuse_conflicts(self, tops: Tops, bases: Bases, ops: list[TransferStep]) -> None:
        """Raise `ReviewConflict` unless the project is in the state that the command saw."""
        if any(top.kind == "git" and self.transfer.get_kind(f"{path}/index.lock") for path, top in tops.items()):
            raise ReviewConflict(
                "Git is running in the project.", hint="Wait for it, or remove a stale index.lock.", code=GIT_BUSY
            )
        parents = collect_directories(tops)
        parents |= {path for path, top in tops.items() if top.kind == "directory"}
        in_the_way = {path for path in parents if self.transfer.get_kind(path) not in {None, "directory"}}
        if in_the_way:
            raise ReviewConflict(
                f"{', '.join(sorted(in_the_way))} is a file in the project.", hint="Accept its deletion first."
            )
        if changed := [op.path for op in ops if not self._is_expected(op, tops, bases)]:
            raise ReviewConflict(
                f"{format_paths(changed, MAX_NAMED)} changed in the project since the command; nothing was written.",
                hint="Reject these files, or have the command run again on the current files.",
            )

    def _is_expected(self, op: TransferStep, tops: Tops, bases: Bases) -> bool:
        kind = self.transfer.get_kind(op.path)
        base = bases.get(op.path)
        if op.what == "directory" and kind == "directory":
            return True
        if op.what != "directory" and self.transfer.is_done(op):
            return True
        if kind is None:
            return base is None
        if base is not None and kind != "directory":
            return self.transfer.read_state(op.path) == base or self.is_refreshed_index(op.path, base)
        is_known = op.what != "put" or kind == "directory"
        return is_known and self.transfer.is_older(op.path, _get_since(tops, op.path))

    def is_refreshed_index(self, path: str, base: FileState) -> bool:
        """True if git only refreshed its index, as even `git status` does."""
        with suppress(AgentTuiError):
            return path.endswith(".git/index") and self.has_same_index(path, self.blobs.get(base.blob))
        return False

    def has_same_index(self, path: str, data: bytes) -> bool:
        """True if git's index in the project has the same entries as `data`."""
        with suppress(PathRefused):
            return is_same_index(data, self.workspace.read_bytes(path))
        return False


def _get_since(tops: Tops, path: str) -> int:
    while path and path not in tops:
        path = path.rpartition("/")[0]
    return tops[path].since


def may_have_changed(workspace: Workspace, stack: LayerStack, tops: Tops, bases: Bases) -> bool:
    """True if the project may differ from the state that commands saw, judged by times alone.

    Directories that only lead to a command's files do not count; those that it replaced do. Changes deep in a removed
    directory, or beyond `MAX_CHECKED` entries, are detected only when the bulk is accepted.
    """
    root = os.fsencode(workspace.root)
    for top, retained_top in tops.items():
        for path, entry in islice(stack.walk(top), MAX_CHECKED):
            if entry is not None and entry.is_directory and not is_opaque(entry.location):
                continue
            try:
                is_changed = os.lstat(root + b"/" + to_os_name(path)).st_ctime_ns >= retained_top.since
            except OSError:
                is_changed = path in bases
            if is_changed:
                return True
    return False
