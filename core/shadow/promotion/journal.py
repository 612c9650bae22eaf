"""The promotion journal: the intended writes of the user's files, on disk before the first of them happens.

It has one JSON record a line. A transaction is an intent, then a commit or an abort, then done (its events are logged).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.errors import StateError
from core.filesystem.atomic_write import sync_file
from core.ids import DraftName, Id
from core.protocol.events import AnyEvent
from core.protocol.review import FileState
from core.records import decode_json

_END_BYTES: Final = 200  # more than the last record of a transaction has


class PathWrite(Struct, frozen=True, kw_only=True):
    """One path to be changed from `before` to `after`; `temporary` is a name in the same directory.

    `pending`: the pending state of the path at the verdict (None: nothing). `directories`, outermost first, are created
    for a new file (with their `modes`, where known), and removed with a deleted file if they are empty. `aside`:
    another directory for the temporary name, if the path's own one is created or removed in this transaction.
    `emptied`: directories with their modes, the path itself first, that the file replaces.
    """

    path: str
    before: FileState
    after: FileState
    temporary: DraftName
    pending: FileState | None = None
    directories: tuple[str, ...] = ()
    modes: dict[str, int] = {}
    aside: str | None = None
    emptied: tuple[tuple[str, int], ...] = ()

    @property
    def temporary_path(self) -> str:
        above = self.path.rpartition("/")[0] if self.aside is None else self.aside
        return f"{above}/{self.temporary}" if above else self.temporary


class IntentRecord(Struct, frozen=True, kw_only=True, tag="intent"):
    """The start of a transaction; `events` are logged once all of `writes` are done."""

    id: Id
    writes: tuple[PathWrite, ...]
    events: tuple[AnyEvent, ...]


class CommitRecord(Struct, frozen=True, kw_only=True, tag="commit"):
    id: Id


class AbortRecord(Struct, frozen=True, kw_only=True, tag="abort"):
    id: Id


class DoneRecord(Struct, frozen=True, kw_only=True, tag="done"):
    id: Id


JournalRecord = IntentRecord | CommitRecord | AbortRecord | DoneRecord


class Transaction(Struct, frozen=True):
    """An intent whose transaction has not ended."""

    intent: IntentRecord
    is_committed: bool


class Journal(Struct, eq=False):
    """The file `journal.jsonl` of a session, mode 0600."""

    path: Path

    def append(self, record: JournalRecord, *, durable: bool) -> None:
        """Append one record, atomically. Raises OSError."""
        line = msgspec.json.encode(record) + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(28, "No space left on device", str(self.path))
                if durable:
                    sync_file(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def list_unfinished(self) -> list[Transaction]:
        """List the transactions that have not ended, oldest first. A torn record had no effect and does not count."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StateError(f"The promotion journal {self.path} can't be read: {error.strerror}.") from error
        transactions: dict[str, Transaction] = {}
        for line in lines:
            match _decode_record(line):
                case IntentRecord() as intent:
                    transactions[intent.id] = Transaction(intent, is_committed=False)
                case CommitRecord(id=name) if name in transactions:
                    transactions[name] = Transaction(transactions[name].intent, is_committed=True)
                case AbortRecord(id=name) | DoneRecord(id=name):
                    transactions.pop(name, None)
        return list(transactions.values())

    @property
    def has_ended(self) -> bool:
        """True if the last transaction has ended, judged by the last line alone."""
        try:
            with self.path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - _END_BYTES, 0))
                lines = file.read().rstrip(b"\n").split(b"\n")
        except OSError:
            return True
        return lines == [b""] or isinstance(_decode_record(lines[-1]), AbortRecord | DoneRecord)

    def clear(self) -> None:
        """Empty the journal once all transactions have ended. Raises OSError."""
        if self.path.exists():
            os.truncate(self.path, 0)


def _decode_record(line: bytes) -> JournalRecord | None:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        record: JournalRecord = decode_json(line, JournalRecord)
        return record
    return None
