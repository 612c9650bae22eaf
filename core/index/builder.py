"""The builder of an index: it follows the files of a project, in steps, as a process with chunker processes of its own.

Symbols and words come first, likely wanted files before the others; then vectors, and at last the maintenance that
keeps searches fast. Chunkers parse files on more than one core: they are forked from the builder, which has no threads,
and end with their pipe. A chunker that dies of a file (a fault of a grammar) is replaced, and the file is indexed by
its name alone. The builder's process reads requests line by line, writes its status, and ends with its standard input.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from core.clock import monotonic
from core.errors import AgentTuiError
from core.index.builder_command import BuilderRequest
from core.index.database import (
    check_damage_report,
    connect_for_writing,
    is_damaged,
    read_status,
    remove_index,
    write_status,
)
from core.index.file_rows import FileRows, describe_unread, read_rows
from core.index.walk import MAX_FILES, RULE_FILES, ProjectFile, ProjectWalk, sort_by_use
from core.index.writer import IndexWriter, VectorFiller
from core.protocol.events import IndexStatus
from core.records import build_json_decoder, build_msgpack_decoder
from core.workspace import Workspace

_BATCH_SIZE: Final = 32
_MAX_QUEUED: Final = 2
_encode = msgspec.msgpack.Encoder().encode
_decode_files = build_msgpack_decoder(list[ProjectFile]).decode
_decode_rows = build_msgpack_decoder(list[FileRows]).decode
_FEW_FILES: Final = 40
"""Number of files up to which the builder reads them itself: starting a chunker takes longer."""
_FILES_PER_COMMIT: Final = 1_000
_SECONDS_PER_COMMIT: Final = 1.0
_OPTIMISE_AFTER: Final = 500
_MAX_CHUNKERS: Final = 2
ReportStatus = Callable[[IndexStatus], None]
_NICENESS: Final = 10
_READ: Final = 1 << 16


class IndexBuilder:
    """The only writer of an index; `report` is called with the status after every commit. All methods raise
    `sqlite3.Error`, after which `recover` has to be called; the constructor also OSError."""

    def __init__(self, workspace: Workspace, database: Path, report: ReportStatus, *, chunkers: int = 0) -> None:
        self._workspace = workspace
        self._database = database
        self._report = report
        self._top = os.open(workspace.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._pool = ChunkerPool(self._top, chunkers)
        self._waiting: deque[ProjectFile] = deque()
        self._unmerged_count = 0  # files written since the last merge of the words
        self._status = IndexStatus(state="building")
        self._open()

    def _open(self) -> None:
        self._connection, self._note = connect_for_writing(self._database)  # a remark in the status
        self._status = replace(read_status(self._connection), state="building", problem=self._note)
        self._writer = IndexWriter(self._connection)
        self._vectors = VectorFiller(self._connection, self._top)

    @property
    def status(self) -> IndexStatus:
        return self._status

    def sweep(self) -> None:
        """Compare all files with the index; queue changed ones, remove missing ones."""
        check_damage_report(self._database)
        self._finish_batches()
        self._waiting.clear()
        known_files = self._writer.load_known()
        paths = set(known_files)
        for file in ProjectWalk(self._workspace, paths).iterate_files():
            before = known_files.pop(file.path, None)
            if before is None or (before.changed, before.size) != (file.changed, file.size):
                self._waiting.append(file)
            if len(paths) + len(self._waiting) - len(known_files) > MAX_FILES:
                self._note = f"the project has more than {MAX_FILES:,} files: the others are not indexed"
                break
        if len(self._waiting) > _FEW_FILES:
            self._waiting = deque(sort_by_use(self._waiting))
        with self._commit():
            self._writer.remove(known_files)

    def update_paths(self, paths: Iterable[str]) -> None:
        """Update some paths, directories with everything below them."""
        check_damage_report(self._database)
        self._finish_batches()
        paths = list(dict.fromkeys(paths))
        if self._status.state == "failed" or any(path.rpartition("/")[2] in RULE_FILES for path in paths):
            self.sweep()
            return
        walk = ProjectWalk(self._workspace)
        files_by_path = {file.path: file for path in paths for file in walk.find(path)}
        removed_paths = [
            known_path
            for path in paths
            for known_path in self._writer.list_below(path)
            if known_path not in files_by_path
        ]
        remaining_files = [
            file for file in self._waiting if file.path not in files_by_path and not _is_below(file.path, paths)
        ]
        self._waiting = deque(
            remaining_files if len(files_by_path) <= _FEW_FILES else [*files_by_path.values(), *remaining_files]
        )
        with self._commit():
            self._writer.remove(removed_paths)
            if len(files_by_path) <= _FEW_FILES:
                self._write(read_rows(self._top, file) for file in files_by_path.values())

    def finish(self) -> None:
        """Do all remaining work."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do the next step of work; False if nothing is left to do before a change."""
        if self._status.state == "failed":
            return False
        if self._waiting or self._pool.is_busy:
            self._read_waiting()
        elif self._writer.has_many_dead_chunks():
            self._rewrite()
        elif self._vectors.is_behind:
            with self._commit():
                self._vectors.fill_next()
        elif self._unmerged_count >= _OPTIMISE_AFTER:
            self._writer.optimise()
            self._unmerged_count = 0
        else:
            return False
        return True

    def _read_waiting(self) -> None:
        """Read files and write their rows, for about a second."""
        start_time, count = monotonic(), 0
        with self._commit():
            while count < _FILES_PER_COMMIT and monotonic() - start_time < _SECONDS_PER_COMMIT:
                rows = self._read_some()
                if not rows and not self._waiting and not self._pool.is_busy:
                    break
                self._write(rows)
                count += len(rows)
        if not self._waiting and not self._pool.is_busy:
            self._pool.stop()

    def _read_some(self) -> list[FileRows]:
        if self._pool.count and (self._pool.is_busy or len(self._waiting) > _FEW_FILES):
            self._pool.feed(self._waiting)
            return self._pool.collect()
        return [read_rows(self._top, self._waiting.popleft())] if self._waiting else []

    def _finish_batches(self) -> None:
        """Write the rows of running batches first: they must not overwrite later reads."""
        rows: list[FileRows] = []
        while self._pool.is_busy:
            rows += self._pool.collect()
        if rows:
            with self._commit():
                self._write(rows)

    def _rewrite(self) -> None:
        """Write all files again without the words of removed ones; until the commit, readers see the old state."""
        files = deque(ProjectWalk(self._workspace).iterate_files())
        with self._commit():
            self._writer.delete_all()
            while files or self._pool.is_busy:
                if self._pool.count:
                    self._pool.feed(files)
                    self._write(self._pool.collect())
                else:
                    self._write([read_rows(self._top, files.popleft())])
            self._vectors.delete_unused()
        self._pool.stop()

    @contextmanager
    def _commit(self) -> Iterator[None]:
        """Commit the writes of the block, and report the status."""
        with self._writer.commit():
            yield
            self._status = self._measure()
            write_status(self._connection, self._status)
        self._report(self._status)

    def _write(self, rows: Iterable[FileRows]) -> None:
        for row in rows:
            self._writer.write(row)
            self._unmerged_count += 1
        self._vectors.is_behind = True

    def _measure(self) -> IndexStatus:
        """Return the current status."""
        indexed_count, chunks = self._writer.count_files(), self._writer.count_chunks()
        waiting = len(self._waiting) + self._pool.count_files()
        behind = waiting > _FEW_FILES or (waiting > 0 and self._status.state == "building")
        last_chunk = self._vectors.done  # 0 = unknown yet: the last reported number holds
        embedded_count = self._writer.count_chunks(last_chunk) if last_chunk else min(self._status.embedded, chunks)
        return IndexStatus(
            state="building" if behind else "ready",
            files=indexed_count + waiting,
            indexed=indexed_count,
            chunks=chunks,
            embedded=embedded_count,
            problem=self._note,
        )

    def recover(self, error: sqlite3.Error) -> None:
        """Recover from an error: rebuild a damaged index, else report the failure."""
        self._pool.stop()
        self._waiting.clear()
        if is_damaged(error):
            with suppress(sqlite3.Error):
                self._connection.close()
            remove_index(self._database)
            self._open()
            self._note = f"the index was damaged ({error}), and is being rebuilt"
            self.sweep()
            return
        self._status = replace(self._status, state="failed", problem=f"the index can't be written: {error}")
        self._report(self._status)

    def close(self) -> None:
        self._pool.stop()
        with suppress(sqlite3.Error):
            self._connection.close()
        os.close(self._top)


def open_builder(root: Path, database: Path, report: ReportStatus) -> IndexBuilder:
    """Open the builder of a workspace with a suitable number of chunkers. Raises the errors of opening a workspace and
    an index: `AgentTuiError`, OSError, `sqlite3.Error`."""
    chunkers = min(_MAX_CHUNKERS, os.cpu_count() or 1)
    return IndexBuilder(Workspace(root), database, report, chunkers=chunkers)


def _is_below(path: str, others: Iterable[str]) -> bool:
    return any(path == other or path.startswith(f"{other}/") for other in others)


def main() -> None:
    """Build the index of the workspace on the command line until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        try:
            builder = open_builder(Path(sys.argv[2]), Path(sys.argv[3]), _write_status)
        except (AgentTuiError, OSError, sqlite3.Error) as problem:
            _write_status(IndexStatus(state="failed", problem=f"the index can't be created: {problem}"))
            return
        try:
            BuilderService(builder, _RequestLines(sys.stdin.fileno())).run()
        finally:
            builder.close()


def _write_status(status: IndexStatus) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(status) + b"\n")
    sys.stdout.buffer.flush()


class BuilderService:
    """A loop that handles requests between two steps of work, and waits when nothing is left."""

    def __init__(self, builder: IndexBuilder, requests: _RequestLines) -> None:
        self._builder = builder
        self._requests = requests

    def run(self) -> None:
        """Serve requests until the standard input ends."""
        busy = self._guard(self._builder.sweep)
        while (requests := self._requests.read(wait=not busy)) is not None:
            busy = self._guard(partial(self._do_next, requests))

    def _do_next(self, requests: list[BuilderRequest]) -> bool:
        if any(not request.changed for request in requests):
            self._builder.sweep()
        elif requests:
            self._builder.update_paths(path for request in requests for path in request.changed)
        return self._builder.step()

    def _guard(self, work: Callable[[], bool | None]) -> bool:
        """Do some work; True if there is more, False if it is done or impossible."""
        try:
            return work() is not False
        except sqlite3.Error as problem:
            with suppress(sqlite3.Error, OSError):
                self._builder.recover(problem)
            return self._builder.status.state != "failed"


class _RequestLines:
    """The requests that arrive on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._decode = build_json_decoder(BuilderRequest).decode

    def read(self, *, wait: bool) -> list[BuilderRequest] | None:
        """Return the requests that have arrived; with `wait`, at least one. None: the input has ended."""
        lines: list[bytes] = []
        while select.select([self._descriptor], [], [], None if wait and not lines else 0)[0]:
            data = os.read(self._descriptor, _READ)
            if not data:
                return None
            *complete, self._rest = (self._rest + data).split(b"\n")
            lines += complete
        return [self._decode(line) for line in lines if line.strip()]


class ChunkerPool:
    """Up to `count` chunkers below the directory descriptor `top`, started on demand."""

    def __init__(self, top: int, count: int) -> None:
        self._top = top
        self.count = count
        self._chunkers: list[_Chunker] = []
        # Files of a lost batch, read one by one: one of them has killed a chunker.
        self._retries: deque[ProjectFile] = deque()

    @property
    def is_busy(self) -> bool:
        """True if rows of accepted files are not collected yet."""
        return bool(self._retries) or any(chunker.batches for chunker in self._chunkers)

    def count_files(self) -> int:
        """Count the accepted files whose rows are not collected yet."""
        return len(self._retries) + sum(len(batch) for chunker in self._chunkers for batch in chunker.batches)

    def feed(self, waiting: deque[ProjectFile]) -> None:
        """Move the first files of the queue to chunkers with short queues."""
        self._start()
        for chunker in self._chunkers:
            while len(chunker.batches) < _MAX_QUEUED and (
                batch := _pop_files(self._retries, 1) or _pop_files(waiting, _BATCH_SIZE)
            ):
                chunker.send_batch(batch)

    def collect(self) -> list[FileRows]:
        """Wait for the next finished batch; [] if none is pending."""
        self.feed(deque())
        busy = {candidate.pipe.fileno(): candidate for candidate in self._chunkers if candidate.batches}
        if not busy:
            return []
        ready = wait(list(busy))
        chunker = busy[next(descriptor for descriptor in busy if descriptor in ready)]
        try:
            return chunker.receive_rows()
        except (OSError, EOFError):
            return self._replace(chunker)

    def stop(self) -> None:
        """Kill all chunkers; their batches are lost. Idempotent."""
        while self._chunkers:
            self._chunkers.pop().kill()

    def _start(self) -> None:
        while len(self._chunkers) < self.count:
            self._chunkers.append(_Chunker(self._top, [chunker.pipe for chunker in self._chunkers]))

    def _replace(self, chunker: _Chunker) -> list[FileRows]:
        """Remove a dead chunker. Its files are read one by one, except a single file that killed it."""
        self._chunkers.remove(chunker)
        chunker.kill()
        current, *others = chunker.batches
        for batch in (current if len(current) > 1 else (), *others):
            self._retries.extend(batch)
        return [describe_unread(current[0])] if len(current) == 1 else []


def _pop_files(files: deque[ProjectFile], size: int) -> list[ProjectFile]:
    return [files.popleft() for _ in range(min(size, len(files)))]


class _Chunker:
    """One process, with its current batch of files and the next ones."""

    def __init__(self, top: int, others: Iterable[Connection]) -> None:
        self.pipe, child_pipe = Pipe()
        self.batches: deque[list[ProjectFile]] = deque()
        self.pid = os.fork()
        if self.pid == 0:
            for connection in (self.pipe, *others):
                connection.close()
            _serve(top, child_pipe)
        child_pipe.close()

    def send_batch(self, files: list[ProjectFile]) -> None:
        self.batches.append(files)
        with suppress(OSError):  # it has died, which `receive_rows` detects
            self.pipe.send_bytes(_encode(files))

    def receive_rows(self) -> list[FileRows]:
        """Return the rows of the first batch. Raises OSError, `EOFError` if the process is gone."""
        rows = _decode_rows(self.pipe.recv_bytes())
        self.batches.popleft()
        return rows

    def kill(self) -> None:
        self.pipe.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve(top: int, pipe: Connection) -> None:
    """Process batches until the builder is gone; never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.disable()  # many rows and nodes, but no cycles: collection takes a fifth of the time
        while True:
            pipe.send_bytes(_encode([read_rows(top, file) for file in _decode_files(pipe.recv_bytes())]))
    except (OSError, EOFError):
        os._exit(0)
    finally:
        os._exit(1)
