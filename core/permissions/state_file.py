"""A record in a JSON file in the state directory: read whole, changed under a lock, replaced whole.

The file is private to the user (0600), and links are not followed, so that no other user and no project can plant one.
An unreadable file is an error: silently lost permissions would be asked for again, and lost refusals would not hold.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import msgspec

from core.errors import StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.open_files import read_open_file
from core.filesystem.private_files import make_private_directory
from core.records import decode_json
from core.user_dirs import get_state_dir

Record = TypeVar("Record", bound=msgspec.Struct)
MAX_BYTES = 4 << 20
_COARSEST_TIME = 2_000_000_000  # nanoseconds within which two changes may have the same time (FAT)


class StateFile(Generic[Record]):
    """The file `name` in the state directory, with a record of `kind`; no file = the record's defaults.

    With `is_persistent` False a change is not written, and lasts as long as this object.
    """

    def __init__(self, name: str, kind: type[Record], *, is_persistent: bool = True) -> None:
        self._kind = kind
        self._keeps = is_persistent
        self._in_memory: Record | None = None
        self._last_read: tuple[tuple[int, ...], Record] | None = None
        self.path = get_state_dir() / name

    def read(self) -> Record:
        """Read the record, from the cache if the file is unchanged. Raises `StateError`."""
        if self._in_memory is not None:
            return self._in_memory
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return self._kind()
        except OSError as problem:
            raise self._build_error(problem.strerror or "unreadable") from problem
        stats = os.fstat(descriptor)
        signature = (stats.st_dev, stats.st_ino, stats.st_mode, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns)
        if self._last_read is not None and self._last_read[0] == signature:
            os.close(descriptor)
            return self._last_read[1]
        try:
            data = read_open_file(descriptor, MAX_BYTES)
        except OSError as problem:
            raise self._build_error(problem.strerror or "unreadable") from problem
        try:
            record = decode_json(data, self._kind)
        except msgspec.MsgspecError as problem:
            raise self._build_error(str(problem)) from None
        is_settled = time.time_ns() - stats.st_ctime_ns > _COARSEST_TIME
        self._last_read = (signature, record) if is_settled else None
        return record

    def update(self, change: Callable[[Record], Record]) -> Record:
        """Read, change and replace the record under the lock. Returns the new one. Raises `StateError`."""
        if not self._keeps:
            self._in_memory = change(self.read())
            return self._in_memory
        try:
            with self._lock():
                self._last_read = None  # another process's change must not be lost
                before = self.read()
                after = change(before)
                if after != before:
                    data = msgspec.json.format(msgspec.json.encode(after), indent=1) + b"\n"
                    if len(data) > MAX_BYTES:  # a longer file could not be read again
                        raise self._build_error(f"would be longer than {MAX_BYTES >> 20} MB")
                    replace_file(self.path, data)
                return after
        except OSError as problem:
            raise self._build_error(problem.strerror or "can't be written") from problem

    @contextmanager
    def _lock(self) -> Iterator[None]:
        make_private_directory(self.path.parent)
        lock = self.path.with_name(f".{self.path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _build_error(self, reason: str) -> StateError:
        return StateError(f"{self.path} can't be used: {reason}.", hint="Fix it, or move it away.")
