"""The audit log of approvals, runs, writes and connections: JSON lines in a hash chain.

A line holds the SHA-256 of the previous line and its own, so that `find_log_fault` detects changed, missing or inserted
lines. A truncated end is visible in the session's own log. Texts pass `redact`, so that no key is stored.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.clock import now_ms
from core.errors import StateError
from core.records import decode_json
from core.secrets import redact

FILE_NAME = "audit.jsonl"
MAX_TEXT_CHARS = 20_000
_FIRST_SEAL = "0" * 64


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One entry. `before` and `seal` are hex SHA-256; the seal covers all other fields."""

    number: int
    at: int
    kind: str
    data: dict[str, object]
    before: str
    seal: str = ""

    def compute_seal(self) -> str:
        return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(self, seal=""), order="sorted")).hexdigest()


class AuditLog:
    """The writer of one session's log; opened at the first entry."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._descriptor = -1
        self._number = 0
        self._last = _FIRST_SEAL

    def record(self, kind: str, data: dict[str, object]) -> None:
        """Append an entry. Raises `StateError` if it can't be written: then the described action must not happen."""
        try:
            if self._descriptor < 0:
                self._open()
            clean = {
                name: redact(value)[:MAX_TEXT_CHARS] if isinstance(value, str) else value
                for name, value in data.items()
            }
            line = AuditEntry(number=self._number + 1, at=now_ms(), kind=kind, data=clean, before=self._last)
            line = msgspec.structs.replace(line, seal=line.compute_seal())
            os.write(self._descriptor, msgspec.json.encode(line) + b"\n")
        except OSError as problem:
            raise StateError(
                f"{self._path} can't be written: {problem.strerror}.", hint="Make room, or check its permissions."
            ) from problem
        self._number, self._last = line.number, line.seal

    def _open(self) -> None:
        entries = read_entries(self._path)
        if entries:
            self._number, self._last = entries[-1].number, entries[-1].seal
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        if entries and not self._path.read_bytes().endswith(b"\n"):
            os.write(self._descriptor, b"\n")

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def read_entries(path: Path) -> list[AuditEntry]:
    """Return the valid entries, none without a log. Raises OSError for other errors."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    entries = []
    for raw in data.splitlines():
        with suppress(msgspec.MsgspecError):
            entries.append(decode_json(raw, AuditEntry))
    return entries


def find_log_fault(path: Path) -> str | None:
    """Return the first fault of a log; None: all lines are intact."""
    before, number = _FIRST_SEAL, 0
    for line_number, raw in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = decode_json(raw, AuditEntry)
        except msgspec.MsgspecError:
            return f"line {line_number} can't be read"
        if (line.before, line.number) != (before, number + 1):
            return f"line {line_number} does not follow the one before it"
        if line.seal != line.compute_seal():
            return f"line {line_number} was changed"
        before, number = line.seal, line.number
    return None
