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
from core.index.walk import MAX_FILES, RULE_FILES, FoundFile, ProjectWalk, sort_by_use
from core.index.writer import IndexWriter, VectorFiller
from core.protocol.queries.search import IndexStatus
from core.records import build_json_decoder, build_msgpack_decoder
from core.workspace import Workspace

_BATCH_SIZE: Final = 32
_MAX_QUEUED: Final = 2
_encode = msgspec.msgpack.Encoder().encode
_decode_files = build_msgpack_decoder(list[FoundFile]).decode
_decode_rows = build_msgpack_decoder(list[FileRows]).decode
_FEW_FILES: Final = 40
"""Files that are read at once and here: starting a chunker takes longer."""
_FILES_PER_COMMIT: Final = 1_000
_SECONDS_PER_COMMIT: Final = 1.0
_OPTIMISE_AFTER: Final = 500
_MAX_CHUNKERS: Final = 2
ReportStatus = Callable[[IndexStatus], None]
_NICENESS: Final = 10
_READ: Final = 1 << 16


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

    def send_batch(self, files: list[FoundFile]) -> None:
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
        self._retries: deque[FoundFile] = deque()  # one of them has ended a chunker

    @property
    def is_busy(self) -> bool:
        """True if files were taken whose rows are not collected yet."""
        return bool(self._retries) or any(chunker.batches for chunker in self._chunkers)

    def count_files(self) -> int:
        """Count the files that were taken whose rows are not collected yet."""
        return len(self._retries) + sum(len(batch) for chunker in self._chunkers for batch in chunker.batches)

    def feed(self, waiting: deque[FoundFile]) -> None:
        """Give the first of the files to chunkers that have little to do."""
        self._start()
        for chunker in self._chunkers:
            while len(chunker.batches) < _MAX_QUEUED and (
                batch := _take_first(self._retries, 1) or _take_first(waiting, _BATCH_SIZE)
            ):
                chunker.send_batch(batch)

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
            self._retries.extend(batch)
        return [describe_unread(current[0])] if len(current) == 1 else []


def _take_first(files: deque[FoundFile], size: int) -> list[FoundFile]:
    return [files.popleft() for _ in range(min(size, len(files)))]


class IndexBuilder:
    """The only writer of an index; `report` is called with each commit. All methods raise `sqlite3.Error`, after which
    `recover` has to be called; the constructor OSError, too."""

    def __init__(self, workspace: Workspace, database: Path, report: ReportStatus, *, chunkers: int = 0) -> None:
        self._workspace = workspace
        self._database = database
        self._report = report
        self._top = os.open(workspace.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._pool = ChunkerPool(self._top, chunkers)
        self._waiting: deque[FoundFile] = deque()
        self._unmerged_count = 0  # files since the words were merged
        self._status = IndexStatus(state="building")
        self._open()

    def _open(self) -> None:
        self._connection, self._note = connect_for_writing(self._database)  # what the status says beside its numbers
        self._status = replace(read_status(self._connection), state="building", problem=self._note)
        self._writer = IndexWriter(self._connection)
        self._vectors = VectorFiller(self._connection, self._top)

    @property
    def status(self) -> IndexStatus:
        return self._status

    def sweep(self) -> None:
        """Compare all files with the index; what differs waits to be read, what is gone is removed."""
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
                self._note = f"the project has more than {MAX_FILES:,} files: the others are not in it"
                break
        if len(self._waiting) > _FEW_FILES:
            self._waiting = deque(sort_by_use(self._waiting))
        with self._commit():
            self._writer.remove(known_files)

    def note_changed(self, paths: Iterable[str]) -> None:
        """Bring some paths up to date, directories with all below them."""
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
        """Do all work that is left."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do the next piece of work; False if nothing is left, or it stands still until something changes."""
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
        """Read files and write them, for about a second."""
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
        """Write what is being read: it may not come after what is read from now on."""
        rows: list[FileRows] = []
        while self._pool.is_busy:
            rows += self._pool.collect()
        if rows:
            with self._commit():
                self._write(rows)

    def _rewrite(self) -> None:
        """Write all files anew without the words of those that are gone; until it is done, readers see what was."""
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
        """Commit what is written in the block, and tell how far it is then."""
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
        """Return how far it is."""
        indexed_count, chunks = self._writer.count_files(), self._writer.count_chunks()
        waiting = len(self._waiting) + self._pool.count_files()
        behind = waiting > _FEW_FILES or (waiting > 0 and self._status.state == "building")
        last_chunk = self._vectors.done  # 0 = not looked yet: what was told last holds
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
        """Go on after an error: a damaged index is made anew, else it says why it stands still."""
        self._pool.stop()
        self._waiting.clear()
        if is_damaged(error):
            with suppress(sqlite3.Error):
                self._connection.close()
            remove_index(self._database)
            self._open()
            self._note = f"the index was damaged ({error}), and is made anew"
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
    """Open the builder of a workspace, with as many processes as help. Raises what opening a workspace and an index
    raise: `AgentTuiError`, OSError, `sqlite3.Error`."""
    chunkers = min(_MAX_CHUNKERS, os.cpu_count() or 1)
    return IndexBuilder(Workspace(root), database, report, chunkers=chunkers)


def _is_below(path: str, others: Iterable[str]) -> bool:
    return any(path == other or path.startswith(f"{other}/") for other in others)


def main() -> None:
    """Build the index of the workspace named on the command line until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        try:
            builder = open_builder(Path(sys.argv[2]), Path(sys.argv[3]), _write_status)
        except (AgentTuiError, OSError, sqlite3.Error) as problem:
            _write_status(IndexStatus(state="failed", problem=f"the index can't be made: {problem}"))
            return
        try:
            BuilderService(builder, _RequestLines(sys.stdin.fileno())).run()
        finally:
            builder.close()


def _write_status(status: IndexStatus) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(status) + b"\n")
    sys.stdout.buffer.flush()


class BuilderService:
    """Does what is asked, between two pieces of work; waits without any work when nothing is left."""

    def __init__(self, builder: IndexBuilder, requests: _RequestLines) -> None:
        self._builder = builder
        self._requests = requests

    def run(self) -> None:
        """Return when nobody can ask any more."""
        busy = self._guard(self._builder.sweep)
        while (requests := self._requests.read(wait=not busy)) is not None:
            busy = self._guard(partial(self._do_next, requests))

    def _do_next(self, requests: list[BuilderRequest]) -> bool:
        if any(not request.changed for request in requests):
            self._builder.sweep()
        elif requests:
            self._builder.note_changed(path for request in requests for path in request.changed)
        return self._builder.step()

    def _guard(self, work: Callable[[], bool | None]) -> bool:
        """Do some work; True if there is more, False if it is done or can't be."""
        try:
            return work() is not False
        except sqlite3.Error as problem:
            with suppress(sqlite3.Error, OSError):
                self._builder.recover(problem)
            return self._builder.status.state != "failed"


class _RequestLines:
    """The requests that come in on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._decode = build_json_decoder(BuilderRequest).decode

    def read(self, *, wait: bool) -> list[BuilderRequest] | None:
        """Return what was asked meanwhile; `wait`: at least one. None: nobody asks any more."""
        lines: list[bytes] = []
        while select.select([self._descriptor], [], [], None if wait and not lines else 0)[0]:
            data = os.read(self._descriptor, _READ)
            if not data:
                return None
            *complete, self._rest = (self._rest + data).split(b"\n")
            lines += complete
        return [self._decode(line) for line in lines if line.strip()]
