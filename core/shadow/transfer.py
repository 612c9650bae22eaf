"""Carrying what layers hold into the workspace, and back: every step relative to descriptors, files by rename.

What is done is worked out from the layers and the disk each time, and what is in place already is passed over: so a
transfer that was cut off is finished by doing it again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from core.protocol.review import FileState
from core.shadow.disk import above, walked
from core.shadow.overlay import is_whiteout, missing_above, set_opaque
from core.shadow.stack import Layered, Stack
from core.workspace import ABSENT, Workspace
from core.workspace.beneath import holder, open_direct
from core.workspace.names import to_os
from core.workspace.renaming import temporary_name
from core.workspace.tree import PERMISSIONS, Kind, sync_directory

_CHUNK = 1 << 20
_NOTHING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}  # the last: a link is where a directory would be
_SYNCED_ONE_BY_ONE = 256


class Op(Struct, frozen=True, kw_only=True):
    """One step: `remove` whatever is at the path, make a `directory` of this mode there, or `put` a file or link."""

    path: str
    what: Literal["remove", "directory", "put"]
    mode: int = 0
    source: Layered | None = None


class Transfer:
    """Works on one workspace, for the `session` with this directory. `step` is called between any two effects."""

    def __init__(self, workspace: Workspace, step: Callable[[str], None], session: Path) -> None:
        self._workspace = workspace
        self._step = step
        self._session = os.fsencode(session)

    # planning

    def ops(self, stack: Stack, tops: Iterable[str], spared: Callable[[str], bool]) -> list[Op]:
        """What brings the tops of the stack to the disk: removals, then directories, then files. Nothing `spared` is
        removed because a directory was replaced."""
        removals: list[Op] = []
        directories: dict[str, Op] = {}
        puts: list[Op] = []
        for top in tops:
            for each in above(top):
                found = stack.find(each)
                mode = self._workspace.directory_mode
                if isinstance(found, Layered):
                    mode = found.stats.st_mode & PERMISSIONS
                if self.kind(each) is None:
                    directories[each] = Op(path=each, what="directory", mode=mode)
            for path, entry in stack.walk(top):
                if entry is None:
                    removals.append(Op(path=path, what="remove"))
                elif not entry.is_directory:
                    puts.append(Op(path=path, what="put", source=entry, mode=entry.stats.st_mode & PERMISSIONS))
                else:
                    removals += [each for each in self._replaced(stack, path) if not spared(each.path)]
                    directories[path] = Op(path=path, what="directory", mode=entry.stats.st_mode & PERMISSIONS)
        removals = [each for each in removals if self.kind(each.path) is not None]
        return [*removals, *(directories[each] for each in sorted(directories)), *sorted(puts, key=_objects_first)]

    def _replaced(self, stack: Stack, path: str) -> list[Op]:
        """What the disk has in a directory that was removed and made again."""
        listing = stack.listing(path)
        if not listing.closed or self.kind(path) != "directory":
            return []
        names = [each.name for each in self._workspace.list_dir(path)]
        return [Op(path=f"{path}/{name}", what="remove") for name in names if name not in listing.entries]

    def kind(self, path: str) -> Kind | None:
        """ "file", "directory", "symlink", "other" of what the disk has there itself; None: nothing."""
        try:
            with self._workspace.directory(path) as (directory, name):
                return _kind(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        except OSError as error:
            if error.errno not in _NOTHING:
                raise
            return None

    def is_done(self, op: Op) -> bool:
        """Whether the disk has it already."""
        match op.what:
            case "remove":
                return self.kind(op.path) is None
            case "directory":
                return self.kind(op.path) == "directory" and self._mode(op.path) == op.mode
            case "put":
                return op.source is not None and self.state(op.path) == layered_fingerprint(op.source)

    def _mode(self, path: str) -> int:
        with self._workspace.directory(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode & PERMISSIONS

    def state(self, path: str) -> FileState | None:
        """What the disk has there, of any size; None: no file and no link."""
        try:
            with self._workspace.directory(path) as (directory, name):
                return fingerprint(directory, name)
        except OSError as error:
            if error.errno not in _NOTHING:
                raise
            return ABSENT

    def is_older(self, path: str, since: int) -> bool:
        """Whether no file or link at or below the path has changed since that moment. Directories do not count: what is
        accepted in one changes it, too."""
        for each, kind in walked(self._workspace, path) or [(path, "file")]:
            if kind == "directory":
                continue
            with self._workspace.directory(each) as (directory, name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= since:
                    return False
        return True

    # keeping what goes

    def save(self, op: Op, into: Path, *, renames: bool) -> None:
        """Copy what the step replaces into a layer; with `renames`, what it removes as a whole is left for `do`."""
        kind = self.kind(op.path)
        if kind is None or (op.what == "directory" and kind == "directory"):
            return
        if op.what == "remove" and renames and kind == "directory":
            return
        for path, each in walked(self._workspace, op.path) or [(op.path, kind)]:
            target = room_for(into, path, self._mode)
            if each == "directory":
                target.mkdir(exist_ok=True)
                target.chmod(self._mode(path) | 0o700)
            elif each in {"file", "symlink"}:
                self._copy_out(path, target)

    def _copy_out(self, path: str, target: Path) -> None:
        with holder(os.fsencode(target)) as into, self._workspace.directory(path) as source:
            copy(source, into, sync=False)

    # doing

    def do(self, ops: Iterable[Op], saved: Path, *, renames: bool) -> None:
        """Carry the steps out. Raises OSError and `PathRefused`; what was done until then stays."""
        todo = [op for op in ops if not self.is_done(op)]
        one_by_one = len(todo) <= _SYNCED_ONE_BY_ONE
        modes = {}
        for op in todo:
            if op.what == "remove":
                self._remove(op.path, saved if renames else None)
            elif op.what == "directory":
                self._make(op)
                modes[op.path] = op.mode
            else:
                self._put(op, sync=one_by_one)
            self._step(f"{op.what} {op.path}")
        for path in sorted(modes, reverse=True):
            with self._workspace.directory(path) as (directory, name):
                os.chmod(name, modes[path], dir_fd=directory)
        if not one_by_one:
            os.sync()

    def _make(self, op: Op) -> None:
        with self._workspace.directory(op.path) as (directory, name):
            kind = self.kind(op.path)
            if kind not in {None, "directory"}:
                os.unlink(name, dir_fd=directory)
            if kind != "directory":
                os.mkdir(name, 0o700, dir_fd=directory)
            os.chmod(name, op.mode | 0o700, dir_fd=directory)

    def _put(self, op: Op, *, sync: bool) -> None:
        assert op.source is not None
        if self.kind(op.path) == "directory":
            self._remove(op.path, None)
        temporary = self._temporary(op.path)
        with holder(op.source.place) as source, self._workspace.directory(op.path) as (directory, target):
            _unlink(directory, temporary)
            try:
                copy(source, (directory, temporary), sync=sync)
                os.rename(temporary, target, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                _unlink(directory, temporary)
                raise
            if sync:
                sync_directory(directory)

    def _temporary(self, path: str) -> bytes:
        """The name that a file has until it is whole: no other session's, and the same after a crash."""
        return temporary_name(hashlib.sha256(self._session + b"\0" + to_os(path)).digest()[:8])

    def clear(self, ops: Iterable[Op]) -> None:
        """Remove what a crash in one of these steps left half written."""
        for op in ops:
            with suppress(OSError), self._workspace.directory(op.path) as (directory, _):
                _unlink(directory, self._temporary(op.path))

    def _remove(self, path: str, saved: Path | None) -> None:
        with self._workspace.directory(path) as (directory, name):
            if self.kind(path) != "directory":
                os.unlink(name, dir_fd=directory)
                return
            if saved is not None:
                target = room_for(saved, path, self._mode)
                os.rename(name, os.fsencode(target), src_dir_fd=directory)
                return
        for each, kind in reversed(walked(self._workspace, path) or []):
            with self._workspace.directory(each) as (directory, name):
                if kind == "directory":
                    os.rmdir(name, dir_fd=directory)
                else:
                    os.unlink(name, dir_fd=directory)

    def remove_empty(self, directories: Iterable[str]) -> None:
        """Remove directories that hold nothing, innermost first."""
        self._workspace.remove_directories(sorted(directories))


def _unlink(directory: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _objects_first(op: Op) -> tuple[int, str]:
    """Git's objects before the references to them, its index last."""
    inside = f"/{op.path}"
    if "/.git/" not in inside:
        return 0, op.path
    return (0 if "/objects/" in inside else 2 if inside.endswith("/index") else 1), op.path


def room_for(layer: Path, path: str, mode: Callable[[str], int]) -> Path:
    """Where a path goes in a layer, the directories to it made with the modes that they have elsewhere."""
    for each in missing_above(layer, path):
        with holder(os.fsencode(layer) + b"/" + to_os(each)) as (directory, name):
            os.mkdir(name, 0o700, dir_fd=directory)
            os.chmod(name, mode(each) | 0o700, dir_fd=directory)
    return layer / os.fsdecode(to_os(path))


def lay_in(workspace: Workspace, rel: str, layer: Path) -> None:
    """Copy a file or link of the workspace into a layer that hides its place. Raises OSError."""
    for each in above(rel):
        place = layer / os.fsdecode(to_os(each))
        is_hidden = os.path.lexists(place) and is_whiteout(place.lstat())
        if is_hidden:
            place.unlink()
        if not os.path.lexists(place):
            with workspace.directory(each) as (directory, name):
                mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode & PERMISSIONS
            place.mkdir()
            place.chmod(mode)
            set_opaque(place, is_hidden)
    target = layer / os.fsdecode(to_os(rel))
    with holder(os.fsencode(target)) as into, workspace.directory(rel) as source:
        copy(source, into, sync=False)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def layered_fingerprint(entry: Layered) -> FileState | None:
    """The state of a layer's file or link."""
    with holder(entry.place) as (directory, name):
        return fingerprint(directory, name)


def fingerprint(directory: int, name: bytes) -> FileState | None:
    """The state of a file of any size, or of a link; None: it is neither. Raises OSError."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return FileState(kind="symlink", blob=hashlib.sha256(target).hexdigest(), mode=PERMISSIONS, size=len(target))
    if not stat.S_ISREG(found.st_mode):
        return None
    digest = hashlib.sha256()
    descriptor = open_direct(directory, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while data := os.read(descriptor, _CHUNK):
            digest.update(data)
    finally:
        os.close(descriptor)
    return FileState(kind="file", blob=digest.hexdigest(), mode=found.st_mode & PERMISSIONS, size=found.st_size)


def copy(source: tuple[int, bytes], target: tuple[int, bytes], *, sync: bool) -> None:
    """Copy a file (content, permissions, modification time) or a link to a name that is free. Raises OSError."""
    (from_directory, from_name), (to_directory, to_name) = source, target
    found = os.stat(from_name, dir_fd=from_directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(from_name, dir_fd=from_directory), to_name, dir_fd=to_directory)
        return
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no regular file", from_name)
    reading = open_direct(from_directory, from_name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        writing = os.open(to_name, flags, 0o600, dir_fd=to_directory)
        try:
            while data := os.read(reading, _CHUNK):
                view = memoryview(data)
                while view:
                    view = view[os.write(writing, view) :]
            os.fchmod(writing, found.st_mode & PERMISSIONS)
            os.utime(writing, ns=(found.st_atime_ns, found.st_mtime_ns))
            if sync:
                os.fsync(writing)
        except OSError:
            os.unlink(to_name, dir_fd=to_directory)
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)
