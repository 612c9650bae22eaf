"""The builder keeps the index of a project in step with its files, a piece at a time, and hears of changes between.

Names and words come first, files that are likely asked for before the others; vectors follow, and when there is nothing
else to do, what makes searching slow is tidied up.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from core.clock import monotonic
from core.index.chunkers import ChunkerPool
from core.index.database import (
    check_reported,
    connect_for_writing,
    is_damaged,
    read_status,
    remove_index,
    write_status,
)
from core.index.file_rows import FileRows, read_rows
from core.index.vector_fill import VectorFill
from core.index.walk import MOST_FILES, RULE_FILES, FoundFile, ProjectWalk, sort_by_use
from core.index.writer import IndexWriter
from core.protocol.queries.search import IndexStatus
from core.workspace import Workspace

_FEW: Final = 40
"""Files that are read at once and here: starting a chunker takes longer."""

_FILES_PER_COMMIT: Final = 1_000
_SECONDS_PER_COMMIT: Final = 1.0
_OPTIMISED_AFTER: Final = 500
_MOST_CHUNKERS: Final = 2

Tell = Callable[[IndexStatus], None]


class IndexBuilder:
    """The only writer of an index; `tell` is called with each commit. All methods raise `sqlite3.Error`, after which
    `recover` has to be called; the constructor OSError, too."""

    def __init__(self, workspace: Workspace, database: Path, tell: Tell, *, chunkers: int = 0) -> None:
        self._workspace = workspace
        self._database = database
        self._tell = tell
        self._top = os.open(workspace.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._pool = ChunkerPool(self._top, chunkers)
        self._waiting: deque[FoundFile] = deque()
        self._written = 0  # files since the words were merged
        self._status = IndexStatus(state="building")
        self._open()

    def _open(self) -> None:
        self._connection, self._note = connect_for_writing(self._database)  # what the status says beside its numbers
        self._status = replace(read_status(self._connection), state="building", problem=self._note)
        self._writer = IndexWriter(self._connection)
        self._vectors = VectorFill(self._connection, self._top)

    @property
    def status(self) -> IndexStatus:
        return self._status

    def sweep(self) -> None:
        """Compare all files with the index; what differs waits to be read, what is gone is removed."""
        check_reported(self._database)
        self._finish_batches()
        self._waiting.clear()
        known_files = self._writer.load_known()
        paths = set(known_files)
        for file in ProjectWalk(self._workspace, paths).iterate_files():
            before = known_files.pop(file.path, None)
            if before is None or (before.changed, before.size) != (file.changed, file.size):
                self._waiting.append(file)
            if len(paths) + len(self._waiting) - len(known_files) > MOST_FILES:
                self._note = f"the project has more than {MOST_FILES:,} files: the others are not in it"
                break
        if len(self._waiting) > _FEW:
            self._waiting = deque(sort_by_use(self._waiting))
        with self._commit():
            self._writer.remove(known_files)

    def note_changed(self, paths: Iterable[str]) -> None:
        """Bring some paths up to date, directories with all below them."""
        check_reported(self._database)
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
            file for file in self._waiting if file.path not in files_by_path and not _lies_below(file.path, paths)
        ]
        self._waiting = deque(
            remaining_files if len(files_by_path) <= _FEW else [*files_by_path.values(), *remaining_files]
        )
        with self._commit():
            self._writer.remove(removed_paths)
            if len(files_by_path) <= _FEW:
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
        elif self._writer.has_many_dead():
            self._rewrite()
        elif self._vectors.is_behind:
            with self._commit():
                self._vectors.fill_some()
        elif self._written >= _OPTIMISED_AFTER:
            self._writer.optimise()
            self._written = 0
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
        if self._pool.count and (self._pool.is_busy or len(self._waiting) > _FEW):
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
            self._writer.forget_all()
            while files or self._pool.is_busy:
                if self._pool.count:
                    self._pool.feed(files)
                    self._write(self._pool.collect())
                else:
                    self._write([read_rows(self._top, files.popleft())])
            self._vectors.forget_unused()
        self._pool.stop()

    @contextmanager
    def _commit(self) -> Iterator[None]:
        """Commit what is written in the block, and tell how far it is then."""
        with self._writer.commit():
            yield
            self._status = self._measure()
            write_status(self._connection, self._status)
        self._tell(self._status)

    def _write(self, rows: Iterable[FileRows]) -> None:
        for row in rows:
            self._writer.write(row)
            self._written += 1
        self._vectors.is_behind = True

    def _measure(self) -> IndexStatus:
        """Return how far it is."""
        indexed_count, chunks = self._writer.count_files(), self._writer.count_chunks()
        waiting = len(self._waiting) + self._pool.count_files()
        behind = waiting > _FEW or (waiting > 0 and self._status.state == "building")
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
        self._tell(self._status)

    def close(self) -> None:
        self._pool.stop()
        with suppress(sqlite3.Error):
            self._connection.close()
        os.close(self._top)


def open_builder(root: Path, database: Path, tell: Tell) -> IndexBuilder:
    """Open the builder of a workspace, with as many processes as help. Raises what opening a workspace and an index
    raise: `AgentTuiError`, OSError, `sqlite3.Error`."""
    chunkers = min(_MOST_CHUNKERS, os.cpu_count() or 1)
    return IndexBuilder(Workspace(root), database, tell, chunkers=chunkers)


def _lies_below(path: str, others: Iterable[str]) -> bool:
    return any(path == other or path.startswith(f"{other}/") for other in others)
