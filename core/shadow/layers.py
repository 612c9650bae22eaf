"""The layers of a session: the one that each command writes, and those that are kept beside the review.

`<place>/<id>/{upper,work,lock}` for a layer. A lock (flock) says that its command may still run; a directory without
one that the record does not name was left by a crash. The record of the kept layers is replaced whole, and is what
counts: the event log follows it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.errors import StateError
from core.ids import new_id
from core.protocol.review import FileState, Origin
from core.shadow.frozen import Frozen, link_tree
from core.shadow.overlay import merge_down
from core.shadow.places import place_for
from core.shadow.scan import scan
from core.workspace.removing import remove, remove_tree

QUOTA = 5 << 30  # bytes of all layers of a session
FLOOR = 64 << 20  # bytes that stay free on the disk
UNDO = 1 << 30  # bytes that are kept to undo verdicts on bulks; that of the latest is kept in any case
_RECORD = "kept.json"


class LayerDirs(Struct, frozen=True, kw_only=True):
    """A fresh layer for one command. `seen`: what was pending when it was opened, by path; `room`: the bytes that the
    command may write, by the quota of the session and by what its disk has."""

    id: str
    upper: Path
    work: Path
    seen: Mapping[str, FileState]
    room: int = QUOTA


class Top(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the kept layers that is decided as one with all below it; `root` names the bulk it belongs to.

    `since`: nothing that the workspace has there may have changed after that moment (ns since 1970).
    """

    root: str
    kind: str = "generated"
    since: int = 0
    origin: Origin | None = None


class Kept(Struct, frozen=True, kw_only=True):
    """The record of the kept layers: their ids, lowest first; the tops in them by path; the states that the workspace
    had where they replace something; and the directories, with their modes, that commands removed."""

    layers: tuple[str, ...] = ()
    tops: dict[str, Top] = {}
    bases: dict[str, FileState] = {}
    gone: dict[str, int] = {}


class Layers:
    """The layers of one session, made in `directory` or where that says. Nothing is made before it is needed. `quota`
    in bytes: what all of them may take."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._place: Path | None = None
        self.quota = QUOTA
        self.kept = self._read()
        self.frozen = Frozen(directory.with_name("checkpoints"))

    @property
    def place(self) -> Path:
        if self._place is None:
            self._place = place_for(self._directory)
        return self._place

    @property
    def exists(self) -> bool:
        """Whether the session ever had a layer."""
        return self._directory.is_dir()

    @property
    def open(self) -> tuple[str, ...]:
        """The layers whose commands have not been done with."""
        return tuple(self._locks)

    def upper(self, layer: str) -> Path:
        return self.place / layer / "upper"

    def stack(self) -> tuple[Path, ...]:
        """The kept layers, topmost first."""
        return tuple(self.upper(each) for each in reversed(self.kept.layers))

    # the life of a layer

    def create(self, seen: Mapping[str, FileState]) -> LayerDirs:
        """A fresh, locked layer. `StateError`: over the quota, or the disk is full."""
        room = self._room()
        name = new_id("layer")
        home = self.place / name
        try:
            home.mkdir(mode=0o700)
            for each in ("upper", "work"):
                (home / each).mkdir(mode=0o755 if each == "upper" else 0o700)
            self._locks[name] = _lock(home / "lock")
        except OSError as error:
            with suppress(OSError):
                remove_tree(home)
            raise StateError(f"A layer can't be made in {self.place}: {error.strerror}.") from error
        return LayerDirs(id=name, upper=home / "upper", work=home / "work", seen=seen, room=room)

    def hold(self, name: str) -> Path:
        """A directory of this name beside the layers, while it is filled: no layer is moved until it is closed. Raises
        OSError."""
        home = self.place / name
        home.mkdir(mode=0o700)
        self._locks[name] = _lock(home / "lock")
        return home

    def close(self, layer: str, *, keep: bool) -> None:
        """The command of a layer is done with: its directory stays if it is kept or a checkpoint names it, else it
        goes."""
        if (descriptor := self._locks.pop(layer, None)) is not None:
            os.close(descriptor)
        self._sizes.pop(layer, None)
        home = self.place / layer
        with suppress(OSError):  # what can't be removed now is swept at the next start
            if keep:
                remove_tree(home / "work")
                (home / "lock").unlink(missing_ok=True)
            elif layer not in self.frozen.layers:
                remove_tree(home)

    def is_open(self, layer: str) -> bool:
        return layer in self._locks

    # the record

    def record(self, kept: Kept) -> None:
        """Replace the record, durably. Raises `StateError` and leaves the old one."""
        path = self._directory / _RECORD
        temporary = path.with_suffix(".tmp")
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(kept))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise StateError(f"The record of kept layers {path} can't be written: {error.strerror}.") from error
        self.kept = kept

    def _read(self) -> Kept:
        path = self._directory / _RECORD
        try:
            return msgspec.json.decode(path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return Kept()
        except (OSError, msgspec.MsgspecError) as error:
            raise StateError(
                f"The record of kept layers {path} can't be read: {error}.",
                hint="Move it away to go on without what commands left behind; reviewed changes are not in it.",
            ) from error

    # checkpoints

    def freeze(self, checkpoint: str, order: int) -> bool:
        """Keep what the kept layers hold now, for a checkpoint. Whether there is anything to keep, and it is kept."""
        if self.kept == Kept():
            return False
        try:
            self.frozen.add(checkpoint, order, self._directory / _RECORD, self.kept.layers)
        except OSError:
            return True  # without its record, the checkpoint can say that there was something
        return True

    def unfreeze(self, checkpoint: str) -> None:
        """Let go of what `freeze` kept; for one that was made for a while only."""
        path = self.frozen.path(checkpoint)
        names = self.frozen.named[path.name] if path else ()
        self.frozen.drop(checkpoint)
        for each in set(names) - set(self.kept.layers):
            self.close(each, keep=False)

    def thawed(self, checkpoint: str) -> Kept | None:
        """The record that a checkpoint keeps; None: it, or a layer that it names, is not there any more."""
        path = self.frozen.path(checkpoint)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=Kept) if path else None
        except (OSError, msgspec.MsgspecError):
            return None
        return kept if kept and all(self.upper(each).is_dir() for each in kept.layers) else None

    def own(self) -> None:
        """Before anything in the kept layers is changed: none of them is one that a checkpoint names. `StateError`."""
        shared = self.frozen.layers.intersection(self.kept.layers)
        if not shared:
            return
        names = {each: new_id("layer") if each in shared else each for each in self.kept.layers}
        try:
            for each in shared:
                (self.place / names[each]).mkdir(mode=0o700)
                link_tree(self.upper(each), self.upper(names[each]))
        except OSError as error:
            raise StateError(f"Kept layers can't be copied in {self.place}: {error.strerror}.") from error
        self.record(msgspec.structs.replace(self.kept, layers=tuple(names.values())))
        self._sizes.clear()

    def switch(self, kept: Kept) -> None:
        """Let another record count; what only the old one named goes."""
        old = self.kept.layers
        self.record(kept)
        for each in set(old) - set(kept.layers):
            self.close(each, keep=False)

    def squash(self) -> bool:
        """Move all kept layers into the lowest one; False while a command runs over them, or there is nothing to do.

        An interruption at any point leaves layers that show the same.
        """
        names = self.kept.layers
        if len(names) < 2 or self._locks:
            return False
        self.own()
        names = self.kept.layers
        try:
            for name in names[1:]:
                merge_down(self.upper(name), self.upper(names[0]))
        except OSError as error:
            raise StateError(f"Kept layers can't be joined in {self.place}: {error.strerror}.") from error
        self.record(msgspec.structs.replace(self.kept, layers=names[:1]))
        self._sizes.clear()
        for name in names[1:]:
            self.close(name, keep=False)
        return True

    def sweep(self, keep: Iterable[str]) -> int:
        """Remove the directories of layers that nobody names and no process has locked. Returns how many went."""
        if not self._directory.is_dir():
            return 0
        kept = {*self.kept.layers, *self.frozen.layers, *keep}
        gone = 0
        for home in self.place.iterdir():
            if home.name.startswith("ready-"):
                remove(home)
            if home.name in kept or not home.is_dir() or not _is_left(home / "lock"):
                continue
            with suppress(OSError):
                remove_tree(home)
                gone += 1
        return gone

    def missing(self) -> tuple[str, ...]:
        """Kept layers that are not there any more: memory does not outlast the machine."""
        return tuple(each for each in self.kept.layers if not self.upper(each).is_dir())

    # room

    def size(self) -> int:
        """The bytes on disk of all layers that no command runs in."""
        for home in self.place.iterdir():
            if home.is_dir() and home.name not in self._locks:
                self._measured(home.name)
        return sum(size for name, size in self._sizes.items() if (self.place / name).is_dir())

    def resized(self, name: str) -> None:
        """A directory of the place has changed: it is measured again when it matters."""
        self._sizes.pop(name, None)

    def prune(self, most: int | None = None, *, spare: int = 1) -> None:
        """Let go of what it takes to undo verdicts on bulks, the oldest first, until it is at most `most` bytes (None:
        UNDO); that of the `spare` latest is kept. Raises OSError."""
        sizes = {name: self._measured(name) for name in self._needed_to_undo()}
        for name in list(sizes)[: len(sizes) - spare]:
            if sum(sizes.values()) <= (UNDO if most is None else most):
                return
            with suppress(OSError):
                remove_tree(self.place / name)
                del sizes[name]

    def _needed_to_undo(self) -> list[str]:
        """The directories that verdicts on bulks have of their own, the latest last; see `Notes` and `Again`."""
        homes = [each for kind in ("verdict_*", "again-verdict_*") for each in self.place.glob(kind)]
        return [each.name for each in sorted(homes, key=lambda home: home.stat().st_mtime_ns)]

    def _measured(self, name: str) -> int:
        if name not in self._sizes:
            self._sizes[name] = sum(each.blocks for each in scan(self.place / name).entries)
        return self._sizes[name]

    def _room(self) -> int:
        """The bytes that one more layer may take. `StateError`: none."""
        try:
            free = free_bytes(self.place)
            used = self.size()
        except OSError as error:
            raise StateError(f"The layers in {self.place} can't be measured: {error.strerror}.") from error
        if free < FLOOR:
            raise StateError(
                f"No command can run: only {free >> 20} MB are free where its changes would go ({self.place}).",
                hint=f"Make room; {FLOOR >> 20} MB are always left free.",
                code="disk_full",
            )
        if used > self.quota and (used := self._spared()) > self.quota:
            raise StateError(
                f"No command can run: the session's commands have left {used / (1 << 30):.1f} GiB behind, "
                f"{self.quota / (1 << 30):.3g} GiB is the limit.",
                hint="Accept or reject the generated files in the review.",
                code="layers_full",
            )
        return min(free - FLOOR, self.quota - used)

    def _spared(self) -> int:
        """The size of all layers after the oldest checkpoints have let go of theirs, as many as it takes, and then what
        only undoing needs."""
        for name, layers in list(self.frozen.named.items()):
            if set(layers) <= set(self.kept.layers):
                continue
            self.frozen.drop_file(name)
            for each in set(layers) - set(self.kept.layers) - self._locks.keys():
                self.close(each, keep=False)
            self._sizes.clear()
            if self.size() <= self.quota:
                break
        if (over := self.size() - self.quota) > 0:
            undo = sum(self._measured(name) for name in self._needed_to_undo())
            self.prune(max(0, undo - over), spare=0)
        return self.size()


def free_bytes(directory: Path) -> int:
    """What an ordinary user may still write on the disk that a directory is on. Raises OSError."""
    room = os.statvfs(directory)
    return room.f_bavail * room.f_frsize


def bytes_below(directory: Path) -> int:
    """What is on the disk below a directory that is being written to; what can't be looked at does not count."""
    found, waiting = 0, [os.fspath(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for each in entries:
                stats = each.stat(follow_symlinks=False)
                found += stats.st_blocks * 512
                waiting += [each.path] if stat.S_ISDIR(stats.st_mode) else []
    return found


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_left(path: Path) -> bool:
    """Whether no process holds the lock."""
    try:
        os.close(_lock(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
