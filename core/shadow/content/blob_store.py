"""A content-addressed store of bytes (sha256) that holds the past and present states of every change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from core.errors import ContentLost, StateError
from core.filesystem.atomic_write import replace_file, sync_file
from core.filesystem.private_files import make_private_directory

_MAX_SERIAL = 16
_MAX_THREADS = 16
T = TypeVar("T")


def run_concurrently(items: Sequence[T], do: Callable[[T], None]) -> None:
    """Call `do` for every item, in threads if there are many, and raise the first item's error when all are done.

    The file system combines the journal entries of concurrent syncs, so many small syncs take little more time than
    one.
    """
    if len(items) <= _MAX_SERIAL:
        for item in items:
            do(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_MAX_THREADS, "disk") as pool:
        waiting = [pool.submit(do, item) for item in items]
    for future in waiting:
        future.result()


class BlobStore:
    """Files `<directory>/<2 hex>/<62 hex>`, mode 0600, written atomically.

    A blob is in the file system's cache when `put` returns, so it survives this process. `sync` makes it survive a
    power failure, and is called before anything in the user's project depends on it. `is_read_only`: the store belongs
    to another program, so even damaged blobs stay as they are.
    """

    def __init__(self, directory: Path, *, is_read_only: bool = False) -> None:
        self.directory = directory
        self._is_read_only = is_read_only
        self._present: set[str] = set()
        self._synced: set[str] = set()

    def put(self, data: bytes) -> str:
        """Store `data` and return its sha256 in hex. Raises `StateError` if the state directory cannot be written."""
        sha = hashlib.sha256(data).hexdigest()
        if sha in self._present:
            return sha
        path = self._get_path(sha)
        try:
            if not path.exists():
                make_private_directory(path.parent)
                replace_file(path, data, durable=False)
        except OSError as error:
            raise StateError(
                f"The session can't store a file's content in {self.directory}: {error.strerror}.",
                hint="Free some space or make the directory writable, then try again.",
            ) from error
        self._present.add(sha)
        return sha

    def get(self, sha: str) -> bytes:
        """Return the bytes of a blob. Raises `ContentLost` if it is missing or damaged.

        A damaged blob is renamed (`.<62 hex>.damaged`), so that the same content can be stored again.
        """
        path = self._get_path(sha)
        try:
            data = path.read_bytes()
        except OSError as error:
            self._present.discard(sha)
            raise ContentLost(f"Stored content {sha[:12]} can't be read: {error.strerror}.") from error
        if hashlib.sha256(data).hexdigest() != sha:
            self._present.discard(sha)
            self._synced.discard(sha)
            if not self._is_read_only:
                with suppress(OSError):
                    path.replace(path.with_name(f".{path.name}.damaged"))
            raise ContentLost(f"Stored content {sha[:12]} is damaged.")
        return data

    def require(self, shas: Iterable[str]) -> None:
        """Raise `ContentLost` if one of the blobs is missing."""
        for sha in shas:
            if not self._get_path(sha).exists():
                raise ContentLost(f"Stored content {sha[:12]} is missing.")

    def sync(self, shas: Iterable[str]) -> None:
        """Make blobs durable. Raises OSError."""
        new = [sha for sha in shas if sha not in self._synced]
        run_concurrently([self._get_path(sha) for sha in new], partial(_sync, sync=os.fsync))
        # Only the directories, which come last, are worth a flush of the drive: it takes the files along.
        run_concurrently(sorted({self._get_path(sha).parent for sha in new}), partial(_sync, sync=sync_file))
        self._synced.update(new)

    def _get_path(self, sha: str) -> Path:
        return self.directory / get_blob_path(sha)


def get_blob_path(sha: str) -> str:
    """Return the path of a blob relative to the directory of its store."""
    return f"{sha[:2]}/{sha[2:]}"


def _sync(path: Path, sync: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
