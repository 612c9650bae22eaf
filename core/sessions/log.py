"""The append-only log of one session: records are never changed, unreadable bytes are never discarded.

Every record is one `write`, so a killed process loses no appended record; `sync` is for the edges of a turn and for
promotions, which must survive a power cut, too. While the disk refuses records, `defer` holds the few that end a turn
in memory; the next append writes them first.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, groupby, islice
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.errors import StateError
from core.filesystem.atomic_write import stream_replacement, sync_file
from core.filesystem.open_files import explain_displaced
from core.protocol import events as ev
from core.protocol.events import Envelope
from core.sessions import record_format as records

# Most of a log consists of these, and the state of a session does not need those of old turns.
SKIPPED_WHEN_BRIEF: Final = (
    ev.MessageAppended,
    ev.DocumentStarted,
    ev.DocumentFinished,
    ev.StepStarted,
    ev.ToolRequested,
    ev.ToolFinished,
)
NEVER_SKIPPED: Final = 5_000  # latest records, which a brief reading never omits
STATE_LOST: Final = "state_lost"
TakeEnvelope = Callable[[Envelope], object]
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class LogExtent(Struct):
    """The layout of a log: the offsets of its whole records, and the damaged spans [start, end) in bytes.

    `size` bytes were read, whose CRC-32 is `crc`; `skippable` has a 1 for every record that a brief reading omits;
    `gaps` counts missing records.
    """

    starts: array[int] = field(default_factory=lambda: array("Q"))
    skippable: bytearray = field(default_factory=bytearray)
    damaged: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    crc: int = 0
    gaps: int = 0

    @property
    def is_whole(self) -> bool:
        """True if no byte is damaged and no record is missing."""
        return not self.damaged and not self.gaps

    def add(self, data: bytes, record: Envelope | None = None) -> None:
        """Count the bytes of the next record; `record` None: of damaged ones."""
        if record is not None:
            self.starts.append(self.size)
            self.skippable.append(isinstance(record.event, SKIPPED_WHEN_BRIEF))
        elif self.damaged and self.damaged[-1][1] == self.size:
            self.damaged[-1] = (self.damaged[-1][0], self.size + len(data))
        else:
            self.damaged.append((self.size, self.size + len(data)))
        self.size += len(data)
        self.crc = zlib.crc32(data, self.crc)


def read_log(path: Path, take: TakeEnvelope, known_extent: LogExtent | None = None) -> LogExtent:
    """Read a log without changing it, from the end of `known_extent` (which grows), and pass every record to `take`.

    Raises `StateError` if the log can't be read or was written by a newer program.
    """
    extent, last = known_extent or LogExtent(), len(known_extent.starts) if known_extent else 0
    try:
        with path.open("rb") as file:
            file.seek(extent.size)
            for line in file:
                envelope = records.decode_record(line[:-1]) if line.endswith(b"\n") else None
                if envelope is None or envelope.seq <= last:
                    extent.add(line)
                    continue
                extent.gaps += envelope.seq != last + 1
                last = envelope.seq
                extent.add(line, envelope)
                take(envelope)
    except FileNotFoundError:
        raise _build_missing_error(path) from None
    except OSError as problem:
        raise StateError(f"the session log {path} can't be read: {problem.strerror}.") from problem
    return extent


def read_envelopes(path: Path, after: int = 0) -> list[Envelope]:
    """Return the records with `seq > after` of a log that no process writes. Raises `StateError`."""
    envelopes = list[Envelope]()
    read_log(path, lambda envelope: envelopes.append(envelope) if envelope.seq > after else None)
    return envelopes


def _build_missing_error(path: Path) -> StateError:
    return StateError(f"there is no session log at {path}.", hint="`agent-tui sessions` lists the existing ones.")


def repair_log(path: Path, extent: LogExtent) -> str:
    """Move damaged bytes into a side file and leave a log of whole records, numbered densely.

    Returns one sentence for the user. The log is replaced at once (write, sync, rename) or not at all.
    """
    side = _save_damaged_spans(path, extent.damaged) if extent.damaged else None
    numbers = count(1)
    try:
        with stream_replacement(path) as file:
            read_log(path, lambda envelope: file.write(records.encode_record(replace(envelope, seq=next(numbers)))))
    except OSError as problem:
        raise StateError(f"the damaged session log {path} can't be repaired: {problem.strerror}.") from problem
    record_count = len(extent.starts)
    if side is None:
        return f"Records were missing in the session log; the remaining {record_count} were loaded."
    lost_bytes = sum(end - start for start, end in extent.damaged)
    loaded = f"{record_count} records were loaded, {lost_bytes} other bytes were saved in {side.name}."
    return f"The session log was damaged: {loaded}"


def _save_damaged_spans(path: Path, spans: Sequence[tuple[int, int]]) -> Path:
    number = 1
    while True:
        side = path.with_name(f"{path.stem}.damaged-{number}")
        try:
            descriptor = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            break
        except FileExistsError:
            number += 1
        except OSError as problem:
            raise StateError(f"the damaged part of {path} can't be moved away: {problem.strerror}.") from problem
    with open(descriptor, "wb") as side_file, path.open("rb") as log:  # noqa: PTH123
        for start, end in spans:
            log.seek(start)
            side_file.write(log.read(end - start))
    return side


class SessionLog:
    """An open log with a single writer. `check_lock` raises `StateError` if other processes may write, too."""

    def __init__(self, path: Path, extent: LogExtent | None = None) -> None:
        self.path = path
        self.extent = extent or LogExtent()
        self._deferred: list[Envelope] = []
        self.check_lock: Callable[[], None] = lambda: None
        try:
            self._fd = os.open(path, _FLAGS, 0o600)
        except OSError as problem:
            raise StateError(
                f"the session log {path} can't be opened for writing: {problem.strerror}.",
                hint="Check the permissions of the state directory, or set AGENT_TUI_STATE_DIR to another one.",
            ) from problem

    @classmethod
    def load(
        cls, path: Path, begin: Callable[[SessionLog], TakeEnvelope], extent: LogExtent | None = None
    ) -> tuple[SessionLog, str]:
        """Open an existing log from the end of `extent`, and repair it if necessary.

        `begin` returns the consumer of the records; it is called again after a repair, which replays all records.
        Returns the log and a note about the repair ("" = none).
        """
        repair_note = ""
        while True:
            if not path.exists():
                raise _build_missing_error(path)
            log = cls(path, extent)
            try:
                read_log(path, begin(log), log.extent)
            except BaseException:
                log.close()
                raise
            if log.extent.is_whole:
                return log, repair_note
            log.close()
            repair_note, extent = repair_log(path, log.extent), None

    @property
    def deferred_count(self) -> int:
        """The number of records that wait in memory for the disk."""
        return len(self._deferred)

    def append(self, envelope: Envelope) -> None:
        """Write one record, whose seq must follow the last one's. On `StateError` the log is unchanged."""
        self._deferred.append(envelope)
        try:
            self.flush()
        except BaseException:
            self._deferred.pop()
            raise

    def defer(self, envelope: Envelope) -> None:
        """Hold a record in memory until the disk accepts it."""
        self._deferred.append(envelope)

    def flush(self) -> None:
        """Write the deferred records. Raises `StateError` while the disk refuses them."""
        while self._deferred:
            envelope, last = self._deferred[0], len(self.extent.starts)
            if envelope.seq != last + 1:
                raise ValueError(f"record {envelope.seq} can't follow record {last} (waiting: {len(self._deferred)})")
            data = records.encode_record(envelope)
            try:
                offset = os.write(self._fd, data)
                while offset < len(data):
                    offset += os.write(self._fd, data[offset:])
            except OSError as problem:
                with suppress(OSError):  # a torn tail is truncated, if possible
                    os.ftruncate(self._fd, self.extent.size)
                raise StateError(
                    f"the session log can't be written: {problem.strerror}.",
                    hint=(
                        f"Free some space on the disk that holds {self.path.parent}; the conversation so far is saved."
                    ),
                    code="state_unwritable",
                ) from problem
            self.extent.add(data, envelope)
            del self._deferred[0]

    def read(self, *, after: int, limit: int = 512, brief: bool = False) -> list[Envelope]:
        """Return at most `limit` records with `seq > after`, in order; none once the log is closed. `brief`: without
        the types in `SKIPPED_WHEN_BRIEF`, except among the last `NEVER_SKIPPED` records."""
        if self._fd < 0:
            return []
        record_count, long = len(self.extent.starts), self.extent.skippable
        sequence_numbers = (
            seq
            for seq in range(after + 1, record_count + 1)
            if not brief or seq > record_count - NEVER_SKIPPED or not long[seq - 1]
        )
        envelopes: list[Envelope] = []
        for _, run in groupby(
            enumerate(islice(sequence_numbers, limit)), lambda pair: pair[1] - pair[0]
        ):  # contiguous records
            numbers = [seq for _, seq in run]
            envelopes += self._read_span(numbers[0] - 1, numbers[-1])
        start = max(after - record_count, 0)
        return envelopes + self._deferred[start : start + limit - len(envelopes)]

    def read_records(self, numbers: Iterable[int]) -> Iterator[Envelope]:
        """Iterate over the records with these numbers, in this order; during loading, over those read so far."""
        for seq in numbers:
            yield from self._read_span(seq - 1, seq)

    def _read_span(self, first: int, stop: int) -> Iterator[Envelope]:
        starts = self.extent.starts
        begin = starts[first]
        end = starts[stop] if stop < len(starts) else self.extent.size
        for line in os.pread(self._fd, end - begin, begin).splitlines():
            envelope = records.decode_record(line)
            if envelope is None:
                raise StateError(
                    f"the session log {self.path} was changed by another program.",
                    hint="Close and resume the session: its intact part will be loaded.",
                )
            yield envelope

    def check_file(self) -> None:
        """Raise `StateError` (code `state_lost`) if the open file is no longer the session's log: it was moved or
        removed, or another process writes to it."""
        reason = explain_displaced(self._fd, self.path)
        if not reason and (size := os.fstat(self._fd).st_size) != self.extent.size:
            reason = f"was {'cut short' if size < self.extent.size else 'written to'} by another program"
        if reason:
            raise StateError(
                f"this session is no longer saved: {self.path} {reason}.",
                hint="It continues in memory, and nothing more is written to your project. Save the "
                "conversation with /export FILE, then start a new session.",
                code=STATE_LOST,
            )
        self.check_lock()

    def find_loss(self) -> StateError | None:
        """Return the error by which the session is no longer saved; None = it is saved."""
        try:
            self.check_file()
        except StateError as problem:
            return problem
        return None

    def sync(self) -> None:
        """Flush to the disk, so that a power cut loses nothing up to here. Raises `StateError`, also if the file is no
        longer where the next start looks for it."""
        self.check_file()
        try:
            sync_file(self._fd)
        except OSError as problem:
            raise StateError(
                f"the session log can't be written: {problem.strerror}.", code="state_unwritable"
            ) from problem

    def read_all(self, take: TakeEnvelope) -> None:
        """Pass every record to `take`, also of a log whose file has been unlinked."""
        position = 0
        while envelopes := self.read(after=position):
            for envelope in envelopes:
                take(envelope)
            position += len(envelopes)

    def close(self) -> None:
        """Write deferred records if possible, and close. Safe to call twice."""
        if self._fd < 0:
            return
        try:
            self.flush()
        except StateError:
            self._deferred.clear()
        os.close(self._fd)
        self._fd = -1
