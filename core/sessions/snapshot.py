"""A snapshot of the folded state next to the log, so that opening a session only reads the events since.

The log remains the only source of truth. A snapshot names the bytes of the log that it covers; one that does not match
them, is damaged, or was made by other code is ignored. It is a pickle, because the checkpoints of a state share nearly
all of their content; only this program's own records may be in it.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zlib
from array import array
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.filesystem.atomic_write import replace_file
from core.records import decode_json
from core.sessions.log import LogExtent, SessionLog, TakeEnvelope
from core.state.fold import apply_event
from core.state.session import SessionState, refuse_recall

FILE_NAME: Final = "fold.snapshot"
MIN_GROWTH: Final = 1 << 20  # bytes of log: fewer are read as fast as a snapshot
_RECORD_PACKAGES: Final = ("core.protocol.", "core.state.")
_PLAIN_GLOBALS: Final = {
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("msgspec._utils", "rebuild"),
    ("core.state.session", "refuse_recall"),
}
_CODE_PACKAGES: Final = ("protocol", "sessions", "state")
_CHUNK_BYTES: Final = 1 << 20
MakeState = Callable[[], SessionState]


class SnapshotHead(Struct, frozen=True, kw_only=True):
    """The head of a snapshot, which covers `records` in the first `size` bytes of the log, whose sum is `crc`.

    `written`: modification time of the log in ns. `code`: digest of the code that made the snapshot. `body`: sum of all
    bytes after the head, of which the first `state` are the pickle.
    """

    code: str
    records: int
    size: int
    crc: int
    written: int
    state: int
    body: int


def open_session(directory: Path, make: MakeState) -> tuple[SessionLog, SessionState, str]:
    """Open the log of a session and fold its state. Returns a note about a repair, too ("" = none). `make` returns an
    empty state. Raises `StateError`."""
    path = directory / "log.jsonl"
    states = list[SessionState]()
    snapshot = _load_snapshot(directory / FILE_NAME, path)

    def begin(log: SessionLog) -> TakeEnvelope:
        state = snapshot[0] if snapshot is not None and not states else make()
        state.recall = log.read_records
        states.append(state)
        return partial(apply_event, state)

    log, repair_note = SessionLog.load(path, begin, snapshot[1] if snapshot is not None else None)
    return log, states[-1], repair_note


def save_snapshot(directory: Path, log: SessionLog, state: SessionState, *, min_growth: int = MIN_GROWTH) -> bool:
    """Write a snapshot of the whole log, if it has grown by `min_growth` bytes since the last one. Returns False if it
    was skipped or failed; then the next opening only takes longer."""
    extent, path = log.extent, directory / FILE_NAME
    if log.deferred_count or extent.size - _read_covered_size(path) < min_growth:
        return False
    recall, state.recall = state.recall, refuse_recall
    try:
        state_bytes = pickle.dumps(state, protocol=5)
    finally:
        state.recall = recall
    body = b"".join((state_bytes, extent.starts.tobytes(), bytes(extent.skippable)))
    head = SnapshotHead(
        code=_hash_code(),
        records=len(extent.starts),
        size=extent.size,
        crc=extent.crc,
        written=log.path.stat().st_mtime_ns,
        state=len(state_bytes),
        body=zlib.crc32(body),
    )
    try:
        replace_file(path, b"".join((msgspec.json.encode(head), b"\n", body)), durable=False)
    except OSError:
        return False
    return True


def _read_covered_size(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return decode_json(file.readline(1000), SnapshotHead).size
    except (OSError, ValueError, msgspec.MsgspecError):
        return 0


def _load_snapshot(path: Path, log: Path) -> tuple[SessionState, LogExtent] | None:
    try:
        with path.open("rb") as file:
            head = decode_json(file.readline(1000), SnapshotHead)
            body = file.read()
        if head.code != _hash_code() or zlib.crc32(body) != head.body or not _is_prefix_of_log(head, log):
            return None
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    try:
        state = _RecordUnpickler(io.BytesIO(body[: head.state])).load()
    except Exception:  # a foreign pickle may raise anything; the log is read instead
        return None
    starts = array("Q", body[head.state : head.state + 8 * head.records])
    long = bytearray(body[head.state + 8 * head.records :])
    return state, LogExtent(starts=starts, skippable=long, size=head.size, crc=head.crc)


def _is_prefix_of_log(head: SnapshotHead, log: Path) -> bool:
    """True if the log begins with the bytes that the snapshot covers; they are read if the log was written since."""
    with log.open("rb") as file:
        stats = os.fstat(file.fileno())
        if (stats.st_size, stats.st_mtime_ns) == (head.size, head.written):
            return True
        remaining, crc = head.size, 0
        while remaining and (data := file.read(min(remaining, _CHUNK_BYTES))):
            remaining, crc = remaining - len(data), zlib.crc32(data, crc)
    return not remaining and crc == head.crc


class _RecordUnpickler(pickle.Unpickler):
    """An unpickler that only calls the constructors of the program's own records."""

    def find_class(self, module: str, name: str) -> Any:
        is_plain = (module, name) in _PLAIN_GLOBALS
        if is_plain or module.startswith(_RECORD_PACKAGES):
            candidate = super().find_class(module, name)
            if is_plain or (isinstance(candidate, type) and _is_record(candidate)):
                return candidate
        raise pickle.UnpicklingError(f"{module}.{name} is not a record")


def _is_record(record_type: type) -> bool:
    return record_type.__module__.startswith(_RECORD_PACKAGES) and (
        issubclass(record_type, Struct) or is_dataclass(record_type)
    )


@cache
def _hash_code() -> str:
    """Hash the files of the code that folds, by path, size and time."""
    root = Path(__file__).parent.parent
    paths = sorted(path for part in _CODE_PACKAGES for path in (root / part).rglob("*.py"))
    path_stats = [(path, path.stat()) for path in paths]
    fingerprint = [(str(path.relative_to(root)), stats.st_size, stats.st_mtime_ns) for path, stats in path_stats]
    return hashlib.sha256(repr(fingerprint).encode()).hexdigest()
