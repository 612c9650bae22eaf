"""A snapshot of the fold beside the log, so that opening a session costs what has happened since, not all of it.

The log stays the only truth. A snapshot says which bytes of it it stands for; one that does not fit them, that is
damaged, or that other code has made, is as good as none. It is a pickle, because the moments that a state remembers
(checkpoints) share nearly all that they hold; what may be in it are this program's own records, and nothing else.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zlib
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.ids import new_id
from core.sessions.fold import SessionState
from core.sessions.log import Extent, SessionLog, Take
from core.sessions.rewind import nothing_to_recall

FILE: Final = "fold.snapshot"
WORTH: Final = 1 << 20  # bytes of log: fewer are read as quickly as a snapshot
_RECORDS: Final = ("core.protocol.", "core.sessions.", "core.shadow.")
_STATES: Final = {"core.shadow.review.ReviewState", "core.sessions.fold.NoReview"}
_PLAIN: Final = {
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("msgspec._utils", "rebuild"),
    ("core.sessions.rewind", "nothing_to_recall"),
}
_CODE: Final = ("protocol", "sessions", "shadow")
_CHUNK: Final = 1 << 20
Make = Callable[[], SessionState]


class Head(Struct, frozen=True, kw_only=True):
    """What a snapshot stands for: `records` in the first `size` bytes of the log, whose sum is `crc`; when it was made
    the log was last written at `written` (ns). `code` made it; `body` is the sum of all that follows, of which the
    first `state` bytes are the pickle."""

    code: str
    records: int
    size: int
    crc: int
    written: int
    state: int
    body: int


def open_session(directory: Path, make: Make) -> tuple[SessionLog, SessionState, str]:
    """The log of a session and the state that it folds to, and what was mended in it ("" = nothing). `make` gives the
    state of nothing. Raises `StateError`."""
    path = directory / "log.jsonl"
    states = list[SessionState]()
    kept = _kept(directory / FILE, path)

    def begin(log: SessionLog) -> Take:
        state = kept[0] if kept is not None and not states else make()
        state.recall = log.records
        states.append(state)
        return state.apply

    log, mended = SessionLog.load(path, begin, kept[1] if kept is not None else None)
    return log, states[-1], mended


def keep(directory: Path, log: SessionLog, state: SessionState, *, least: int = WORTH) -> bool:
    """Write a snapshot of all that the log holds, if that is `least` bytes more than at the last one. False: it was not
    worth it, or could not be done; that costs nothing but time."""
    extent, path = log.extent, directory / FILE
    if log.deferred or extent.size - _size_of(path) < least:
        return False
    recall, state.recall = state.recall, nothing_to_recall
    try:
        made = pickle.dumps(state, protocol=5)
    finally:
        state.recall = recall
    body = b"".join((made, extent.starts.tobytes(), bytes(extent.long)))
    head = Head(
        code=_code(),
        records=len(extent.starts),
        size=extent.size,
        crc=extent.crc,
        written=log.path.stat().st_mtime_ns,
        state=len(made),
        body=zlib.crc32(body),
    )
    temporary = path.with_name(f"{FILE}.{new_id('t')}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:  # noqa: PTH123
            file.writelines((msgspec.json.encode(head), b"\n", body))
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        return False
    return True


def _size_of(path: Path) -> int:
    """How many bytes of the log the snapshot at hand stands for."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.readline(1000), type=Head).size
    except (OSError, ValueError, msgspec.MsgspecError):
        return 0


def _kept(path: Path, log: Path) -> tuple[SessionState, Extent] | None:
    try:
        with path.open("rb") as file:
            head = msgspec.json.decode(file.readline(1000), type=Head)
            body = file.read()
        if head.code != _code() or zlib.crc32(body) != head.body or not _fits(head, log):
            return None
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    try:
        state = _Records(io.BytesIO(body[: head.state])).load()
    except Exception:  # whatever a pickle that nobody made by this code brings about; the log is read instead
        return None
    starts = array("Q", body[head.state : head.state + 8 * head.records])
    long = bytearray(body[head.state + 8 * head.records :])
    return state, Extent(starts=starts, long=long, size=head.size, crc=head.crc)


def _fits(head: Head, log: Path) -> bool:
    """Whether the log begins with the bytes that the snapshot stands for: they are read if it was written since."""
    with log.open("rb") as file:
        found = os.fstat(file.fileno())
        if (found.st_size, found.st_mtime_ns) == (head.size, head.written):
            return True
        left, crc = head.size, 0
        while left and (data := file.read(min(left, _CHUNK))):
            left, crc = left - len(data), zlib.crc32(data, crc)
    return not left and crc == head.crc


class _Records(pickle.Unpickler):
    """Nothing is called but what makes the program's own records."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module.startswith(_RECORDS) or (module, name) in _PLAIN else None
        if (module, name) in _PLAIN or _is_record(found):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record")


def _is_record(found: object) -> bool:
    if not isinstance(found, type) or not found.__module__.startswith(_RECORDS):
        return False
    return issubclass(found, Struct) or is_dataclass(found) or f"{found.__module__}.{found.__name__}" in _STATES


@cache
def _code() -> str:
    """Which code folds: its files, as they are now."""
    root = Path(__file__).parent.parent
    found = sorted(each for part in _CODE for each in (root / part).rglob("*.py"))
    stated = [(each, each.stat()) for each in found]
    told = [(str(each.relative_to(root)), there.st_size, there.st_mtime_ns) for each, there in stated]
    return hashlib.sha256(repr(told).encode()).hexdigest()
