"""The append-only log of one session: what was written is never changed, what can't be read is never thrown away.

One `write` per record, so a killed process loses nothing that was appended; `sync` is for the edges of a turn and for
promotions, where a power cut must not lose it either. While the disk refuses records, `defer` keeps the few that end
a turn in memory; the next append writes them first.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from core.errors import StateError
from core.protocol.events import Envelope
from core.sessions import records

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Scan(Struct, frozen=True):
    """What a log holds: its whole records, and the spans [start, end) in bytes that are no record."""

    envelopes: list[Envelope]
    starts: array[int]
    damaged: list[tuple[int, int]]
    size: int
    gaps: int = 0

    @property
    def whole(self) -> bool:
        return not self.damaged and not self.gaps


def scan(path: Path) -> Scan:
    """Read a log without changing it. Raises `StateError` if it can't be read or a newer program has written it."""
    found = Scan([], array("Q"), [], 0)
    last, position, gaps = 0, 0, 0
    try:
        with path.open("rb") as file:
            for line in file:
                start, position = position, position + len(line)
                envelope = records.decode(line[:-1]) if line.endswith(b"\n") else None
                if envelope is None or envelope.seq <= last:
                    _note_damage(found.damaged, start, position)
                    continue
                gaps += envelope.seq != last + 1
                last = envelope.seq
                found.envelopes.append(envelope)
                found.starts.append(start)
    except FileNotFoundError:
        raise StateError(
            f"there is no session log at {path}.", hint="`agent-tui sessions` lists those there are."
        ) from None
    except OSError as problem:
        raise StateError(f"the session log {path} can't be read: {problem.strerror}.") from problem
    return Scan(found.envelopes, found.starts, found.damaged, position, gaps)


def _note_damage(spans: list[tuple[int, int]], start: int, end: int) -> None:
    if spans and spans[-1][1] == start:
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))


def repair(path: Path, found: Scan) -> str:
    """Put what is no record into a side file and leave a log of whole records, numbered densely.

    Returns one sentence for the user. The log is replaced at once (write, sync, rename) or not at all.
    """
    side = _set_aside(path, found.damaged) if found.damaged else None
    fresh = path.with_name(path.name + ".repaired")
    try:
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:  # noqa: PTH123
            for number, envelope in enumerate(found.envelopes, 1):
                file.write(records.encode(renumbered(envelope, number)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as problem:
        raise StateError(f"the damaged session log {path} can't be repaired: {problem.strerror}.") from problem
    count = len(found.envelopes)
    if side is None:
        return f"The session log missed records; the {count} that are left were loaded."
    lost = sum(end - start for start, end in found.damaged)
    return f"The session log was damaged: {count} records were loaded, {lost} other bytes were kept in {side.name}."


def renumbered(envelope: Envelope, seq: int) -> Envelope:
    """The same event at another place of the log."""
    if envelope.seq == seq:
        return envelope
    return Envelope(
        seq=seq, session=envelope.session, at=envelope.at, event=envelope.event, turn=envelope.turn, v=envelope.v
    )


def _set_aside(path: Path, spans: Sequence[tuple[int, int]]) -> Path:
    """Copy the damaged spans of a log to the first free `<log>.damaged-N`."""
    number = 1
    while True:
        side = path.with_name(f"{path.stem}.damaged-{number}")
        try:
            descriptor = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            break
        except FileExistsError:
            number += 1
        except OSError as problem:
            raise StateError(f"the damaged part of {path} can't be set aside: {problem.strerror}.") from problem
    with open(descriptor, "wb") as kept, path.open("rb") as log:  # noqa: PTH123
        for start, end in spans:
            log.seek(start)
            kept.write(log.read(end - start))
    return side


class SessionLog:
    """An open log. `last` is the seq of its last record, deferred ones included."""

    def __init__(self, path: Path, *, starts: array[int] | None = None, size: int = 0) -> None:
        self.path = path
        self._starts: array[int] = starts if starts is not None else array("Q")
        self._size = size
        self._deferred: list[Envelope] = []
        try:
            self._fd = os.open(path, _FLAGS, 0o600)
        except OSError as problem:
            raise StateError(
                f"the session log {path} can't be opened for writing: {problem.strerror}.",
                hint="Check the permissions of the state directory, or set AGENT_TUI_STATE_DIR to another one.",
            ) from problem

    @classmethod
    def load(cls, path: Path) -> tuple[SessionLog, list[Envelope], str]:
        """Open a log that exists, repaired if need be: the log, its records, and what was mended ("" = nothing)."""
        found, mended = scan(path), ""
        if not found.whole:
            mended = repair(path, found)
            found = scan(path)
        return cls(path, starts=found.starts, size=found.size), found.envelopes, mended

    @property
    def last(self) -> int:
        return len(self._starts) + len(self._deferred)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self._size

    @property
    def deferred(self) -> int:
        """How many records wait in memory for the disk to take them."""
        return len(self._deferred)

    def append(self, envelope: Envelope) -> None:
        """Write one record; its seq must be `last + 1`. On `StateError` the log is as it was before."""
        self.flush()
        self._write(envelope)

    def defer(self, envelope: Envelope) -> None:
        """Keep a record in memory until the disk takes it."""
        self._deferred.append(envelope)

    def flush(self) -> None:
        """Write what was deferred. Raises `StateError` while the disk still refuses."""
        while self._deferred:
            self._write(self._deferred[0], ahead=len(self._deferred) - 1)
            del self._deferred[0]

    def _write(self, envelope: Envelope, *, ahead: int = 0) -> None:
        if envelope.seq != len(self._starts) + 1:
            raise ValueError(f"record {envelope.seq} can't follow record {len(self._starts)} (deferred: {ahead})")
        data = records.encode(envelope)
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as problem:
            self._take_back()
            raise StateError(
                f"the session log can't be written: {problem.strerror}.",
                hint=f"Make room on the disk that holds {self.path.parent}; the conversation up to here is kept.",
                code="state_unwritable",
            ) from problem
        self._starts.append(self._size)
        self._size += len(data)

    def _take_back(self) -> None:
        """Cut off the part of a record that a failed write left behind (a torn tail, should that fail as well)."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            return

    def read(self, *, after: int, limit: int = 512) -> list[Envelope]:
        """At most `limit` records with `seq > after`, in order; none once the log is closed."""
        if self._fd < 0:
            return []
        stop = min(after + limit, len(self._starts))
        found = list(self._read_span(after, stop)) if after < stop else []
        waiting = after + len(found) - len(self._starts)
        return found + self._deferred[max(waiting, 0) : max(waiting, 0) + limit - len(found)] if waiting >= 0 else found

    def _read_span(self, first: int, stop: int) -> Iterator[Envelope]:
        begin = self._starts[first]
        end = self._starts[stop] if stop < len(self._starts) else self._size
        for line in os.pread(self._fd, end - begin, begin).splitlines():
            envelope = records.decode(line)
            if envelope is None:
                raise StateError(
                    f"the session log {self.path} was changed by someone else.",
                    hint="Close and resume the session: what is whole of it will be loaded.",
                )
            yield envelope

    def sync(self) -> None:
        """Until here, a power cut loses nothing."""
        try:
            os.fsync(self._fd)
        except OSError as problem:
            raise StateError(
                f"the session log can't be written: {problem.strerror}.", code="state_unwritable"
            ) from problem

    def close(self) -> None:
        """Write what can still be written. Safe to call twice."""
        if self._fd < 0:
            return
        try:
            self.flush()
        except StateError:
            self._deferred.clear()
        os.close(self._fd)
        self._fd = -1
