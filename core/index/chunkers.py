"""Processes that turn files into rows, so that the parsing of a whole tree uses more than one core.

They are forked from the builder, which has no threads, and end with it: their pipe closes. One that dies of a file
(a grammar's fault) is replaced, and the file is known by its name alone.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final

import msgspec

from core.index.file_rows import FileRows, describe_unread, read_rows
from core.index.walk import FoundFile
from core.records import build_msgpack_decoder

_BATCH: Final = 32
_AHEAD: Final = 2

_encode = msgspec.msgpack.Encoder().encode
_decode_files = build_msgpack_decoder(list[FoundFile]).decode
_decode_rows = build_msgpack_decoder(list[FileRows]).decode


class _Chunker:
    """One process, with the files that it was given: some to read, and some for when those are done."""

    def __init__(self, top: int, others: Iterable[Connection]) -> None:
        self.pipe, child_pipe = Pipe()
        self.batches: deque[list[FoundFile]] = deque()
        self.pid = os.fork()
        if self.pid == 0:
            for connection in (self.pipe, *others):
                connection.close()
            _serve(top, child_pipe)
        child_pipe.close()

    def give(self, files: list[FoundFile]) -> None:
        self.batches.append(files)
        with suppress(OSError):  # it has died: seen when it is read from
            self.pipe.send_bytes(_encode(files))

    def take(self) -> list[FileRows]:
        """Return the rows of the files that were given first. Raises OSError, `EOFError` if the process is gone."""
        rows = _decode_rows(self.pipe.recv_bytes())
        self.batches.popleft()
        return rows

    def end(self) -> None:
        self.pipe.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve(top: int, pipe: Connection) -> None:
    """Be a chunker until the builder is gone; never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.disable()  # rows and nodes are many and never form cycles: looking for some takes a fifth of the time
        while True:
            pipe.send_bytes(_encode([read_rows(top, file) for file in _decode_files(pipe.recv_bytes())]))
    except (OSError, EOFError):
        os._exit(0)
    finally:
        os._exit(1)


class ChunkerPool:
    """Up to `count` chunkers below the directory descriptor `top`, while they have something to do."""

    def __init__(self, top: int, count: int) -> None:
        self._top = top
        self.count = count
        self._chunkers: list[_Chunker] = []
        self._alone: deque[FoundFile] = deque()  # one of them has ended a chunker

    @property
    def is_busy(self) -> bool:
        """True if files were taken whose rows are not collected yet."""
        return bool(self._alone) or any(chunker.batches for chunker in self._chunkers)

    def count_files(self) -> int:
        """Count the files that were taken whose rows are not collected yet."""
        return len(self._alone) + sum(len(batch) for chunker in self._chunkers for batch in chunker.batches)

    def feed(self, waiting: deque[FoundFile]) -> None:
        """Give the first of the files to chunkers that have little to do."""
        self._start()
        for chunker in self._chunkers:
            while len(chunker.batches) < _AHEAD and (batch := _take(self._alone, 1) or _take(waiting, _BATCH)):
                chunker.give(batch)

    def collect(self) -> list[FileRows]:
        """Wait for the next files to be done; none if there are none."""
        self.feed(deque())
        busy = {candidate.pipe.fileno(): candidate for candidate in self._chunkers if candidate.batches}
        if not busy:
            return []
        ready = wait(list(busy))
        chunker = busy[next(descriptor for descriptor in busy if descriptor in ready)]
        try:
            return chunker.take()
        except (OSError, EOFError):
            return self._replace(chunker)

    def stop(self) -> None:
        """End all chunkers; what they were given is lost. Safe to call twice."""
        while self._chunkers:
            self._chunkers.pop().end()

    def _start(self) -> None:
        while len(self._chunkers) < self.count:
            self._chunkers.append(_Chunker(self._top, [chunker.pipe for chunker in self._chunkers]))

    def _replace(self, chunker: _Chunker) -> list[FileRows]:
        """Let go of a chunker that died; its files are read one by one, and one that it died of alone is not."""
        self._chunkers.remove(chunker)
        chunker.end()
        current, *others = chunker.batches
        for batch in (current if len(current) > 1 else (), *others):
            self._alone.extend(batch)
        return [describe_unread(current[0])] if len(current) == 1 else []


def _take(files: deque[FoundFile], size: int) -> list[FoundFile]:
    return [files.popleft() for _ in range(min(size, len(files)))]
