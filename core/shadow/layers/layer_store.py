"""The layers of a session: one for every command, and the retained layers, whose content is not reviewed as changes.

They lie in the session's own directory if its file system supports overlayfs uppers, else in memory:
`<location>/<id>/{upper,work,lock}` for a layer. A lock (flock) marks a layer whose command may still run; a directory
without a lock that the record does not name was left by a crash. The record of the retained layers is replaced as a
whole and is authoritative: the event log follows it.

A checkpoint has a copy of that record. A record is never written in place, so the copy is a hard link. A layer that a
checkpoint names does not change any more: `LayerStore.unshare` copies it first, by hard links to its files.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from core.errors import StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.overlay_support import SHARED_MEMORY, can_hold_upper, find_file_system_type
from core.filesystem.removal import remove_path, remove_tree
from core.ids import Id, new_id
from core.protocol.review import FileState, Origin
from core.records import decode_json
from core.shadow.content.paths import AnyAncestor
from core.shadow.layers.layer_files import link_entry, link_tree
from core.shadow.layers.overlayfs import merge_down, scan_layer

_ORDER = 12  # digits
QUOTA = 5 << 30  # bytes of all layers of a session
MIN_FREE_BYTES = 64 << 20  # bytes that stay free on the disk
MAX_UNDO_BYTES = 1 << 30  # bytes for undoing verdicts on bulks; the latest verdict can be undone whatever its size
_RECORD = "kept.json"
_REFERENCE = "place"  # names the directory in memory
_USED = "used"  # its modification time is that of the last command


class _NamedLayers(Struct):
    layers: tuple[Id, ...] = ()


class CheckpointRecords:
    """The records of one session's checkpoints, `<directory>/<order>-<checkpoint>.json`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @cached_property
    def layers_by_record(self) -> dict[str, tuple[str, ...]]:
        """The layers of the records, oldest first, by file name."""
        layers_by_name, layers_by_inode = dict[str, tuple[str, ...]](), dict[int, tuple[str, ...]]()
        for path in sorted(self._directory.glob("*.json")):
            node = path.stat().st_ino
            with suppress(OSError, msgspec.MsgspecError):
                if node not in layers_by_inode:
                    layers_by_inode[node] = decode_json(path.read_bytes(), _NamedLayers).layers
                layers_by_name[path.name] = layers_by_inode[node]
        return layers_by_name

    @property
    def layers(self) -> frozenset[str]:
        """The layers that must not be changed."""
        return frozenset(layer for layers in self.layers_by_record.values() for layer in layers)

    def add(self, checkpoint: str, order: int, record: Path, layers: tuple[str, ...]) -> None:
        """Store a record for a checkpoint. Raises OSError."""
        layers_by_record = self.layers_by_record
        self._directory.mkdir(mode=0o700, exist_ok=True)
        name = f"{order:0{_ORDER}d}-{checkpoint}.json"
        link_entry(record, self._directory / name)
        layers_by_record[name] = layers

    def find_path(self, checkpoint: str) -> Path | None:
        """Return the path of a checkpoint's record; None if it has none."""
        names = (name for name in self.layers_by_record if name[_ORDER + 1 :] == f"{checkpoint}.json")
        return next((self._directory / name for name in names), None)

    def drop_file(self, name: str) -> None:
        """Remove a record by its file name."""
        (self._directory / name).unlink(missing_ok=True)
        self.layers_by_record.pop(name, None)


class CommandLayer(Struct, frozen=True, kw_only=True):
    """A fresh layer for one command. `pending_states`: the pending states when it was opened, by path; `lowers`: the
    layers between it and the workspace, topmost first; `capacity`: the bytes that it may take, by the quota of the
    session and the free space of its disk."""

    id: str
    upper: Path
    work: Path
    pending_states: Mapping[str, FileState]
    lowers: tuple[Path, ...] = ()
    capacity: int = QUOTA


class RetainedTop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path in the retained layers that is decided together with everything below it; `root` names its bulk.

    `since`: nothing in the workspace there may have changed after that time (ns since 1970). `stale`: why it may no
    longer fit the project, "" = it does. `insisted`: it was set aside, and the user restored it.
    """

    root: str
    kind: str = "generated"
    since: int = 0
    origin: Origin | None = None
    stale: str = ""
    insisted: bool = False


class RetainedLayers(Struct, frozen=True, kw_only=True):
    """The record of the retained layers: their ids, lowest first; their tops by path; the workspace's states that they
    replace; and the directories that commands removed, with their modes."""

    layers: tuple[Id, ...] = ()
    tops: dict[str, RetainedTop] = {}
    bases: dict[str, FileState] = {}
    gone: dict[str, int] = {}


def drop_covered(tops: Mapping[str, RetainedTop]) -> dict[str, RetainedTop]:
    """Return the tops that are not inside of another one."""
    is_below = AnyAncestor(tops.__contains__)
    return {path: top for path, top in tops.items() if not is_below(path)}


def select_bases(tops: Mapping[str, RetainedTop], bases: Mapping[str, FileState]) -> dict[str, FileState]:
    """Return the bases at and below the tops."""
    is_below = AnyAncestor(tops.__contains__)
    return {path: base for path, base in bases.items() if path in tops or is_below(path)}


class LayerStore:
    """The layers of one session, located in `directory` or in the location that it names. Nothing is created before it
    is needed. `quota`: the bytes that all layers together may take."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.quota = QUOTA
        self.retained = self._read_record()
        self.checkpoint_records = CheckpointRecords(directory.with_name("checkpoints"))

    @cached_property
    def location(self) -> Path:
        return find_location(self._directory)

    @property
    def exists(self) -> bool:
        """True if the session ever had a layer."""
        return self._directory.is_dir()

    @property
    def open_layers(self) -> tuple[str, ...]:
        """The layers whose commands are not finished."""
        return tuple(self._locks)

    def get_upper(self, layer: str) -> Path:
        return self.location / layer / "upper"

    def list_uppers(self) -> tuple[Path, ...]:
        """Return the directories of the retained layers, topmost first."""
        return tuple(self.get_upper(layer) for layer in reversed(self.retained.layers))

    # life cycle of a layer

    def create(self, pending_states: Mapping[str, FileState], lowers: tuple[Path, ...] = ()) -> CommandLayer:
        """Create a fresh, locked layer. Raises `StateError` if the session is over its quota or the disk is full."""
        capacity = self._compute_capacity()
        name = new_id("layer")
        try:
            directory = self.reserve(name)
            (directory / "upper").mkdir(mode=0o755)
            (directory / "work").mkdir(mode=0o700)
        except OSError as error:
            self.close(name, keep=False)
            raise StateError(f"A layer can't be created in {self.location}: {error.strerror}.") from error
        upper, work = directory / "upper", directory / "work"
        return CommandLayer(
            id=name, upper=upper, work=work, pending_states=pending_states, lowers=lowers, capacity=capacity
        )

    def reserve(self, name: str) -> Path:
        """Create and lock a directory among the layers: no layer is moved until it is closed. Raises OSError."""
        directory = self.location / name
        directory.mkdir(mode=0o700)
        self._locks[name] = _lock(directory / "lock")
        return directory

    def record_use(self) -> None:
        """Record that a command begins or ends now. Raises OSError."""
        (self.location / _USED).touch()

    def find_last_use(self) -> int:
        """Return when a command last began or ended (ns since 1970), by the clock of the file system; 0 = never."""
        with suppress(OSError):
            return (self.location / _USED).stat().st_mtime_ns
        return 0

    def close(self, layer: str, *, keep: bool) -> None:
        """Finish a layer: its directory stays with `keep` or if a checkpoint names it, else it is removed."""
        if (descriptor := self._locks.pop(layer, None)) is not None:
            os.close(descriptor)
            with suppress(OSError):
                self.record_use()
        self._sizes.pop(layer, None)
        directory = self.location / layer
        with suppress(OSError):  # the next start sweeps the rest
            if keep:
                remove_tree(directory / "work")
                (directory / "lock").unlink(missing_ok=True)
            elif layer not in self.checkpoint_records.layers:
                remove_tree(directory)

    # record

    def write_record(self, retained_layers: RetainedLayers) -> None:
        """Replace the record, durably. Raises `StateError`, and the old record stays."""
        path = self._directory / _RECORD
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            replace_file(path, msgspec.json.encode(retained_layers))
        except OSError as error:
            raise StateError(f"The record of stored layers {path} can't be written: {error.strerror}.") from error
        self.retained = retained_layers

    def _read_record(self) -> RetainedLayers:
        path = self._directory / _RECORD
        try:
            return decode_json(path.read_bytes(), RetainedLayers)
        except FileNotFoundError:
            return RetainedLayers()
        except (OSError, msgspec.MsgspecError) as error:
            raise StateError(
                f"The record of stored layers {path} can't be read: {error}.",
                hint="Move it away to continue without what commands left; reviewed changes are not in it.",
            ) from error

    # checkpoints

    def freeze(self, checkpoint: str, order: int) -> bool:
        """Preserve the retained layers for a checkpoint. Return True if they have any content."""
        if self.retained == RetainedLayers():
            return False
        with suppress(OSError):  # without its record, the checkpoint can still report that there were layers
            self.checkpoint_records.add(checkpoint, order, self._directory / _RECORD, self.retained.layers)
        return True

    def unfreeze(self, checkpoint: str) -> None:
        """Release the layers that `freeze` preserved for a temporary checkpoint."""
        if path := self.checkpoint_records.find_path(checkpoint):
            names = self.checkpoint_records.layers_by_record[path.name]
            self.checkpoint_records.drop_file(path.name)
            for name in set(names) - set(self.retained.layers):
                self.close(name, keep=False)

    def read_frozen(self, checkpoint: str) -> RetainedLayers | None:
        """Return the record of a checkpoint; None if it, or a layer that it names, no longer exists."""
        path = self.checkpoint_records.find_path(checkpoint)
        try:
            retained_layers = decode_json(path.read_bytes(), RetainedLayers) if path else None
        except (OSError, msgspec.MsgspecError):
            return None
        return (
            retained_layers
            if retained_layers and all(self.get_upper(layer).is_dir() for layer in retained_layers.layers)
            else None
        )

    def unshare(self) -> None:
        """Copy the retained layers that a checkpoint names, before anything in them is changed. Raises `StateError`."""
        shared_layers = self.checkpoint_records.layers.intersection(self.retained.layers)
        if not shared_layers:
            return
        names = {layer: new_id("layer") if layer in shared_layers else layer for layer in self.retained.layers}
        try:
            for layer in shared_layers:
                (self.location / names[layer]).mkdir(mode=0o700)
                link_tree(self.get_upper(layer), self.get_upper(names[layer]))
        except OSError as error:
            raise StateError(f"Stored layers can't be copied in {self.location}: {error.strerror}.") from error
        self.write_record(msgspec.structs.replace(self.retained, layers=tuple(names.values())))
        self._sizes.clear()

    def switch_to(self, retained_layers: RetainedLayers) -> None:
        """Activate another record, and remove the layers that only the old one named."""
        old = self.retained.layers
        self.write_record(retained_layers)
        for layer in set(old) - set(retained_layers.layers):
            self.close(layer, keep=False)

    def squash(self) -> bool:
        """Move all retained layers into the lowest one. False: a command runs over them, or there is nothing to do.

        An interruption at any point leaves layers that show the same.
        """
        names = self.retained.layers
        if len(names) < 2 or self._locks:
            return False
        self.unshare()
        names = self.retained.layers
        try:
            for name in names[1:]:
                merge_down(self.get_upper(name), self.get_upper(names[0]))
        except OSError as error:
            raise StateError(f"Stored layers can't be joined in {self.location}: {error.strerror}.") from error
        self.write_record(msgspec.structs.replace(self.retained, layers=names[:1]))
        self._sizes.clear()
        for name in names[1:]:
            self.close(name, keep=False)
        return True

    def sweep(self, keep: Iterable[str]) -> None:
        """Remove the directories of layers that no record names and no process has locked."""
        if not self._directory.is_dir():
            return
        known_names = {*self.retained.layers, *self.checkpoint_records.layers, *keep}
        for directory in self.location.iterdir():
            if directory.name.startswith("ready-"):
                remove_path(directory)
            if directory.name in known_names or not directory.is_dir() or not _is_unlocked(directory / "lock"):
                continue
            with suppress(OSError):
                remove_tree(directory)

    def find_missing(self) -> tuple[str, ...]:
        """Return the retained layers that no longer exist: memory does not survive a reboot."""
        return tuple(layer for layer in self.retained.layers if not self.get_upper(layer).is_dir())

    # space

    def measure(self) -> int:
        """Return the bytes on disk of all layers without a running command."""
        for directory in self.location.iterdir():
            if directory.is_dir() and directory.name not in self._locks:
                self._measure_directory(directory.name)
        return sum(size for name, size in self._sizes.items() if (self.location / name).is_dir())

    def forget_size(self, name: str) -> None:
        """Forget the measured size of a directory that has changed."""
        self._sizes.pop(name, None)

    def prune_undo(self, limit: int | None = None, *, spare: int = 1) -> None:
        """Remove undo data of verdicts on bulks, oldest first, until at most `limit` bytes remain (None:
        `MAX_UNDO_BYTES`); the `spare` latest stay in any case. Raises OSError."""
        sizes = {name: self._measure_directory(name) for name in self._list_undo_directories()}
        for name in list(sizes)[: len(sizes) - spare]:
            if sum(sizes.values()) <= (MAX_UNDO_BYTES if limit is None else limit):
                return
            with suppress(OSError):
                remove_tree(self.location / name)
                del sizes[name]

    def _list_undo_directories(self) -> list[str]:
        """List the directories of verdicts on bulks, the latest last; see `BulkRecords`, `BulkRedo`."""
        directories = [path for kind in ("verdict_*", "again-verdict_*") for path in self.location.glob(kind)]
        return [path.name for path in sorted(directories, key=lambda directory: directory.stat().st_mtime_ns)]

    def _measure_directory(self, name: str) -> int:
        if name not in self._sizes:
            self._sizes[name] = sum(entry.blocks for entry in scan_layer(self.location / name).entries)
        return self._sizes[name]

    def _compute_capacity(self) -> int:
        """Return the bytes available to one more layer. Raises `StateError` if there are none."""
        try:
            free = get_free_bytes(self.location)
            used_bytes = self.measure()
        except OSError as error:
            raise StateError(f"The layers in {self.location} can't be measured: {error.strerror}.") from error
        if free < MIN_FREE_BYTES:
            raise StateError(
                f"No command can run: only {free >> 20} MB are free for its changes ({self.location}).",
                hint=f"Free some space; {MIN_FREE_BYTES >> 20} MB are always left free.",
                code="disk_full",
            )
        if used_bytes > self.quota and (used_bytes := self._free_space()) > self.quota:
            raise StateError(
                f"No command can run: the session's commands have left {used_bytes / (1 << 30):.1f} "
                f"GiB, the limit is {self.quota / (1 << 30):.3g} GiB.",
                hint="Accept or reject the generated files in the review.",
                code="layers_full",
            )
        return min(free - MIN_FREE_BYTES, self.quota - used_bytes)

    def _free_space(self) -> int:
        """Free space: remove the layers of as many old checkpoints as necessary, then undo data. Return the remaining
        size in bytes."""
        for name, layers in list(self.checkpoint_records.layers_by_record.items()):
            if set(layers) <= set(self.retained.layers):
                continue
            self.checkpoint_records.drop_file(name)
            for layer in set(layers) - set(self.retained.layers) - self._locks.keys():
                self.close(layer, keep=False)
            self._sizes.clear()
            if self.measure() <= self.quota:
                break
        if (over := self.measure() - self.quota) > 0:
            undo = sum(self._measure_directory(name) for name in self._list_undo_directories())
            self.prune_undo(max(0, undo - over), spare=0)
        return self.measure()


def find_location(layers: Path) -> Path:
    """Return the directory for the layers of a session, preferably `layers` itself (created if missing).

    If that does not support uppers, a file in it names the directory in memory. Raises `StateError` if there is none.
    """
    try:
        layers.mkdir(mode=0o700, exist_ok=True)
        if location := _read_reference(layers):
            return location
        if can_hold_upper(layers):
            return layers
        return _make_in_memory(layers)
    except OSError as error:
        raise StateError(
            f"Layers for commands can't be created in {layers}: {error.strerror}.",
            hint="Free some space or set AGENT_TUI_STATE_DIR to a directory of your own on a local disk.",
        ) from error


def _read_reference(layers: Path) -> Path | None:
    """Return the directory in memory of an earlier start, if it still exists and belongs to us."""
    try:
        path = Path(os.fsdecode((layers / _REFERENCE).read_bytes()))
        stats = path.lstat()
    except OSError:
        return None
    is_own_directory = (
        stat.S_ISDIR(stats.st_mode) and stats.st_uid == os.geteuid() and stat.S_IMODE(stats.st_mode) == 0o700
    )
    return path if is_own_directory and path.parent == SHARED_MEMORY else None


def _make_in_memory(layers: Path) -> Path:
    if not SHARED_MEMORY.is_dir():
        raise StateError(
            f"No file system here can hold the layers of commands: {layers} is on "
            f"{find_file_system_type(layers) or 'one'} that can't, and there is no {SHARED_MEMORY}.",
            hint="Set AGENT_TUI_STATE_DIR to a directory on a local disk or a volume.",
        )
    path = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=SHARED_MEMORY))
    (layers / _REFERENCE).write_bytes(os.fsencode(path))
    return path


def remove_location(layers: Path) -> None:
    """Remove the layers of a session in memory, when the session itself is removed."""
    if location := _read_reference(layers):
        remove_tree(location)


def get_free_bytes(directory: Path) -> int:
    """Return the bytes that an unprivileged user may still write on the disk of a directory. Raises OSError."""
    stats = os.statvfs(directory)
    return stats.f_bavail * stats.f_frsize


def measure_tree(directory: Path) -> int:
    """Return the bytes on disk below a directory that may be changing; unreadable entries do not count."""
    total, waiting = 0, [os.fspath(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                stats = entry.stat(follow_symlinks=False)
                total += stats.st_blocks * 512
                waiting += [entry.path] if stat.S_ISDIR(stats.st_mode) else []
    return total


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_unlocked(path: Path) -> bool:
    """True if no process holds the lock."""
    try:
        os.close(_lock(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
