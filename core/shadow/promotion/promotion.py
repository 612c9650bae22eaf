"""Promotion: writes accepted content into the user's files, all of a transaction or none of it, even after a crash.

intent (synced) -> temporary files next to their targets (synced) -> for every file: verify the base on disk, then
exchange the names (`file_swap`) -> sync the directories -> verify that nobody wrote to the replaced files -> commit
(synced) -> events -> done. Replaced and removed files stay under their temporary names until the commit, so that they
can be rolled back. `recover` finishes or rolls back what a crash interrupted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused
from core.filesystem.atomic_write import make_temporary_name, sync_directory
from core.filesystem.file_dates import FileDates
from core.ids import new_id
from core.protocol.events import AnyEvent, Notice
from core.protocol.paths import list_parents
from core.protocol.review import FileState
from core.shadow.content.blob_store import BlobStore, run_concurrently
from core.shadow.content.contents import explain_lost_content
from core.shadow.content.paths import walk_directory
from core.shadow.layers.layer_store import LayerStore
from core.shadow.promotion.file_swap import FileSwaps, build_outdated_error
from core.shadow.promotion.journal import (
    AbortRecord,
    CommitRecord,
    DoneRecord,
    IntentRecord,
    Journal,
    PathWrite,
    Transaction,
)
from core.workspace import Workspace

IsUnlogged = Callable[[IntentRecord, AnyEvent], bool]
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class PromotionFailed(AgentTuiError):
    """A file could not be written; the files before it have been restored."""

    code = "promotion_failed"


def ignore_step(_: str) -> None:
    """The default `step` of a promotion, which does nothing."""


class Promotion:
    """Transactions on the workspace. `step` is called between any two effects (tests interrupt there)."""

    def __init__(
        self,
        workspace: Workspace,
        blobs: BlobStore,
        journal: Journal,
        emit: Callable[[AnyEvent], None],
        layers: LayerStore,
        step: Callable[[str], None],
    ) -> None:
        self.workspace, self.blobs, self.journal, self.layers = workspace, blobs, journal, layers
        self.emit, self.step = emit, step
        self.dates = FileDates()
        self._swaps = FileSwaps(self.workspace, self.blobs, self.step, self.dates)
        self._notices: list[Notice] = []

    def plan_write(self, path: str, before: FileState, after: FileState, pending: FileState | None) -> PathWrite:
        """Plan a write of a transaction, with the directories that it creates, removes or replaces."""
        removed_directories, directories = self.layers.retained.gone, list[str]()
        if after.kind == "absent":
            directories = [parent for parent in list_parents(path) if parent in removed_directories]
        elif before.kind == "absent":
            directories = self.workspace.list_missing_directories(path)
        return PathWrite(
            path=path,
            before=before,
            after=after,
            temporary=make_temporary_name().decode(),
            pending=pending,
            directories=tuple(directories),
            modes={
                directory: removed_directories[directory]
                for directory in directories
                if directory in removed_directories
            },
            emptied=self._list_emptied(path) if before.kind == "absent" != after.kind else (),
        )

    def _list_emptied(self, path: str) -> tuple[tuple[str, int], ...]:
        path_stat = self.workspace.stat(path) if not self.workspace.is_absent(path) else None
        if path_stat is None or path_stat.kind != "directory":
            return ()
        below = [directory for directory, kind in walk_directory(self.workspace, path) or () if kind == "directory"]
        return tuple((directory, stats.mode) for directory in below if (stats := self.workspace.stat(directory)))

    def run(self, writes: Sequence[PathWrite], events: Iterable[AnyEvent]) -> None:
        """Do all writes, then emit the events; without writes, only emit the events.

        Raises `ReviewConflict` (the disk has changed), `PathRefused` or `PromotionFailed`; every file is as before
        then.
        """
        if not writes:
            for event in events:
                self.emit(event)
            return
        writes = arrange_writes(writes)
        intent = IntentRecord(id=new_id("txn"), writes=tuple(writes), events=tuple(events))
        for write in writes:
            if not self._is_before(write):
                raise build_outdated_error(write)
        try:
            for write in writes:
                with explain_lost_content(write.path):
                    self.blobs.require(state.blob for state in (write.before, write.after) if state.kind != "absent")
            states = [state for write in writes for state in (write.before, write.after) if state.kind != "absent"]
            self.blobs.sync({state.blob for state in states})
            self.journal.append(intent, durable=True)
        except OSError as error:
            raise PromotionFailed(f"Nothing was written: the session's journal: {error.strerror}.") from error
        self.step("intent")
        try:
            self._carry_out(intent)
        except AgentTuiError:
            self._emit_notices()
            raise
        # Without these two records the next start finds all files written and reaches the same state.
        with suppress(OSError):
            self.journal.append(CommitRecord(id=intent.id), durable=True)
        self.step("commit")
        self._finish(intent)

    def _emit_notices(self) -> None:
        while self._notices:
            self.emit(self._notices.pop(0))

    def _is_before(self, write: PathWrite) -> bool:
        """True if the disk is in the state before the write. Replaced directories may have been removed already, and
        everything behind a replaced link is absent."""
        try:
            return self.workspace.read_state(write.path)[0] == write.before
        except PathRefused as error:
            is_behind_link = write.aside is not None and write.before.kind == "absent" and error.code == "path_escapes"
            if not write.emptied and not is_behind_link:
                raise
        return True

    def recover(self, is_unlogged: IsUnlogged) -> list[str]:
        """Finish every unfinished transaction: forward if it had visible effects, else back.

        `is_unlogged` is true for events that the log does not have yet. Return a sentence for every transaction.
        """
        sentences = [self._recover(transaction, is_unlogged) for transaction in self.journal.list_unfinished()]
        if not self.journal.list_unfinished():
            with suppress(OSError):
                self.journal.clear()
        return sentences

    def _recover(self, transaction: Transaction, is_unlogged: IsUnlogged) -> str:
        intent = transaction.intent
        paths = ", ".join(write.path for write in intent.writes)
        news = [event for event in intent.events if is_unlogged(intent, event)]
        if transaction.is_committed or self._roll_forward(intent):
            if not transaction.is_committed:  # after another crash, recovery must not roll these files back
                with suppress(OSError):
                    self.journal.append(CommitRecord(id=intent.id), durable=True)
            self._finish(IntentRecord(id=intent.id, writes=intent.writes, events=tuple(news)))
            return f"Finished writing {paths}."
        self._roll_back(intent)
        self._emit_notices()
        return f"An interrupted write of {paths} was undone."

    def _roll_forward(self, intent: IntentRecord) -> bool:
        """Do the remaining writes if some are done. True if all are done then."""
        finished_writes = [write for write in intent.writes if self._read_state(write) == write.after]
        if not finished_writes:
            return False
        rest = [write for write in intent.writes if write not in finished_writes]
        try:
            if not all(self._is_before(write) for write in rest):
                return False
            self._discard(rest)
            self._write_temporaries(rest)
            for write in rest:
                self._clear_destination(write)
                self._swaps.swap(write)
            self._sync_directories(intent.writes)
        except (OSError, AgentTuiError):
            return False
        return all(self._swaps.is_untouched(write) for write in finished_writes)

    def _read_state(self, write: PathWrite) -> FileState | None:
        with suppress(PathRefused):
            return self.workspace.read_state(write.path)[0]
        return None

    def _carry_out(self, intent: IntentRecord) -> None:
        try:
            self._write_temporaries(intent.writes)
            for write in intent.writes:
                with _explain_write_error(write.path):
                    if write.emptied or write.aside is not None:
                        self._clear_destination(write)
                    self._swaps.swap(write)
                self.step(f"swapped {write.path}")
            with _explain_write_error(intent.writes[-1].path):
                self._sync_directories(intent.writes)
            for write in intent.writes:
                if not self._swaps.is_untouched(write):
                    raise build_outdated_error(write)
        except AgentTuiError:
            self._roll_back(intent)
            raise

    def _write_temporaries(self, writes: Sequence[PathWrite]) -> None:
        """Create the directories, and write the new contents next to their targets."""
        for write in writes:
            if write.directories and write.after.kind != "absent" and write.aside is None:
                with _explain_write_error(write.path):
                    self._make_directories(write)
        run_concurrently(writes, self._prepare)

    def _prepare(self, write: PathWrite) -> None:
        if write.after.kind != "absent":
            with _explain_write_error(write.path), explain_lost_content(write.path):
                self._swaps.write_content(write, write.after)
        self.step(f"prepared {write.path}")

    def _make_directories(self, write: PathWrite) -> None:
        self.workspace.make_directories(list(write.directories))
        for path, mode in write.modes.items():
            with self.workspace.open_parent(path) as (directory, name):
                os.chmod(name, mode, dir_fd=directory)

    def _clear_destination(self, write: PathWrite) -> None:
        """Create the directories that were blocked before, and remove the empty ones that the file replaces."""
        if write.aside is not None and write.after.kind != "absent":
            self._make_directories(write)
        for path, _ in sorted(write.emptied, reverse=True):
            try:
                with self.workspace.open_parent(path) as (directory, name):
                    os.rmdir(name, dir_fd=directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise build_outdated_error(write) from None
                raise

    def _sync_directories(self, writes: Sequence[PathWrite]) -> None:
        run_concurrently(
            list({write.path.rpartition("/")[0]: write for write in writes}.values()), self._sync_directory
        )

    def _sync_directory(self, write: PathWrite) -> None:
        try:
            with self.workspace.open_parent(write.path) as (directory, _):
                sync_directory(directory)
        except OSError as error:
            if write.after.kind != "absent" or error.errno not in _GONE:  # else it was removed with its last file
                raise

    def _roll_back(self, intent: IntentRecord) -> None:
        """Roll back every file that the transaction changed, unless others changed it since."""
        is_complete = True
        for write in reversed(intent.writes):
            try:
                if self._read_state(write) == write.after != write.before:
                    self._swaps.restore(write)
                self._restore_emptied(write)
            except (OSError, AgentTuiError):
                is_complete = False  # the next start tries again, and needs the temporary file for that
                continue
            is_complete = self._discard([write]) and is_complete
            if write.after.kind != "absent":
                self.workspace.remove_directories(list(write.directories))
        if is_complete:
            with suppress(OSError):
                self.journal.append(AbortRecord(id=intent.id), durable=True)

    def _restore_emptied(self, write: PathWrite) -> None:
        """Recreate the replaced directories, if their path is free."""
        for path, mode in sorted(write.emptied):
            with suppress(FileExistsError), self.workspace.open_parent(path) as (directory, name):
                os.mkdir(name, 0o700, dir_fd=directory)
                os.chmod(name, mode, dir_fd=directory)

    def _discard(self, writes: Iterable[PathWrite], *, looks_around: bool = True) -> bool:
        """Remove the temporary names, and with `looks_around` also those in directories that have been moved.

        False: some may still exist.
        """
        is_complete, moved_temporaries = True, dict[str, PathWrite]()
        for write in writes:
            try:
                if backup_name := self._swaps.discard(write):
                    self._notices.append(_build_backup_notice(write, backup_name))
            except (FileNotFoundError, NotADirectoryError):
                moved_temporaries[write.temporary] = write
            except OSError:
                is_complete = False
        if moved_temporaries and looks_around:
            return (
                self._discard(_find_moved_temporaries(self.workspace, moved_temporaries), looks_around=False)
                and is_complete
            )
        return is_complete and not moved_temporaries

    def _finish(self, intent: IntentRecord) -> None:
        self._discard(intent.writes)
        for write in intent.writes:
            if write.after.kind == "absent":
                self.workspace.remove_directories(list(write.directories))
        self.step("cleaned")
        for event in intent.events:
            self.emit(event)
            self.step("emitted")
        if self._notices:
            self._emit_notices()
        with suppress(OSError):
            self.journal.append(DoneRecord(id=intent.id), durable=False)
        self.step("done")


@contextmanager
def _explain_write_error(path: str) -> Iterator[None]:
    """Raise `PromotionFailed` with the name of the file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise PromotionFailed(
            f"{path} can't be written: {error.strerror or error}. Nothing was changed.",
            hint="Fix that, then accept again.",
        ) from error


def _build_backup_notice(write: PathWrite, backup_name: str) -> Notice:
    return Notice(
        level="warning",
        message=f"{write.path} was written by another program at the same moment.",
        hint=f"That program's version is saved as {backup_name}.",
    )


def _find_moved_temporaries(workspace: Workspace, moved_temporaries: Mapping[str, PathWrite]) -> Iterator[PathWrite]:
    """Yield the writes whose temporary names (the keys) are in another directory by now, which becomes their
    `aside`."""
    for path, kind in walk_directory(workspace, ".") or ():
        directory, _, name = path.removeprefix("./").rpartition("/")
        if kind != "directory" and name in moved_temporaries:
            yield replace(moved_temporaries[name], aside=directory)


def arrange_writes(writes: Sequence[PathWrite]) -> list[PathWrite]:
    """Sort removals first, and place temporary names outside of directories that the transaction creates or removes."""
    emptied_paths = [write.path for write in writes if write.emptied]
    removed_paths = {write.path for write in writes if write.after.kind == "absent"}
    in_order = sorted(writes, key=lambda write: (write.after.kind != "absent", write.path))
    if not removed_paths and not emptied_paths:
        return in_order
    return [
        _relocate_temporary(write, removed_paths if write.after.kind != "absent" else emptied_paths)
        for write in in_order
    ]


def _relocate_temporary(write: PathWrite, moving: Collection[str]) -> PathWrite:
    parents = list_parents(write.path)
    top = next((parent for parent in parents if parent in moving), None)
    if top is None:
        return write
    directories = write.directories if write.after.kind == "absent" else tuple(parents[parents.index(top) :])
    return replace(write, aside=top.rpartition("/")[0], directories=directories)
