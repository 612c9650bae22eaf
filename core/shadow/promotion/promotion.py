"""Promotion: accepted content into the user's files, all of a transaction or none of it, whatever dies meanwhile.

intent (synced) -> temporary files beside their targets (synced) -> for each: does the disk still hold the base? then
the two exchange their names (`file_swap`) -> sync the directories -> has anybody written to what was replaced? ->
commit (synced) -> events -> done. What was replaced or removed stays under its temporary name until the commit, so that
it can be rolled back. `recover` finishes or rolls back what a crash left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused
from core.filesystem.atomic_write import make_temporary_name, sync_directory
from core.ids import new_id
from core.protocol.events import AnyEvent, Notice
from core.protocol.review import FileState
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import explain_lost_content
from core.shadow.content.parallel_sync import run_for_each
from core.shadow.layers.layer_store import LayerStore
from core.shadow.paths import list_parents, walk_directory
from core.shadow.promotion.file_swap import FileSwaps, build_moved_on_error
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

IsNews = Callable[[IntentRecord, AnyEvent], bool]
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class PromotionFailed(AgentTuiError):
    """A file could not be written; the ones before it have been put back."""

    code = "promotion_failed"


def keep_going(_: str) -> None:
    """The `step` of a promotion that nothing stops."""


class Promotion:
    """Carry out transactions on the workspace. `step` is called between any two effects (tests stop there)."""

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
        self._swaps = FileSwaps(self.workspace, self.blobs, self.step)
        self._notices: list[Notice] = []

    def plan_write(self, path: str, before: FileState, after: FileState, pending: FileState | None) -> PathWrite:
        """Plan a write of a transaction, with the directories that it makes, takes along or replaces."""
        removed_directories, directories = self.layers.kept.gone, list[str]()
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
        """Do all writes, then emit the events; without writes nothing but the events is left to do.

        Raises `ReviewConflict` (the disk has changed), `PathRefused` or `PromotionFailed` if it can't be done; then
        every file is as it was.
        """
        if not writes:
            for event in events:
                self.emit(event)
            return
        writes = arrange_writes(writes)
        intent = IntentRecord(id=new_id("txn"), writes=tuple(writes), events=tuple(events))
        for write in writes:
            if not self._is_before(write):
                raise build_moved_on_error(write)
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
        # Without these two records the next start finds all files in place and comes to the same end.
        with suppress(OSError):
            self.journal.append(CommitRecord(id=intent.id), durable=True)
        self.step("commit")
        self._finish(intent)

    def _emit_notices(self) -> None:
        while self._notices:
            self.emit(self._notices.pop(0))

    def _is_before(self, write: PathWrite) -> bool:
        """True if the disk holds what the write starts from; for directories that give way, if they are there or have
        gone already. Behind a link that gives way there is nothing as yet."""
        try:
            return self.workspace.read_state(write.path)[0] == write.before
        except PathRefused as error:
            is_behind_link = write.aside is not None and write.before.kind == "absent" and error.code == "path_escapes"
            if not write.emptied and not is_behind_link:
                raise
        return True

    def recover(self, is_news: IsNews) -> list[str]:
        """Finish every unfinished transaction: forward if it had begun to show, else back.

        `is_news` tells events that the log does not have yet. Return a sentence for each transaction.
        """
        sentences = [self._recover(transaction, is_news) for transaction in self.journal.list_unfinished()]
        if not self.journal.list_unfinished():
            with suppress(OSError):
                self.journal.clear()
        return sentences

    def _recover(self, transaction: Transaction, is_news: IsNews) -> str:
        intent = transaction.intent
        paths = ", ".join(write.path for write in intent.writes)
        news = [event for event in intent.events if is_news(intent, event)]
        if transaction.is_committed or self._roll_forward(intent):
            if not transaction.is_committed:  # a crash from here on finds the end, not files that it would take back
                with suppress(OSError):
                    self.journal.append(CommitRecord(id=intent.id), durable=True)
            self._finish(IntentRecord(id=intent.id, writes=intent.writes, events=tuple(news)))
            return f"Finished writing {paths}."
        self._roll_back(intent)
        self._emit_notices()
        return f"An interrupted write of {paths} was taken back."

    def _roll_forward(self, intent: IntentRecord) -> bool:
        """Do the rest of the writes if some are in place. True if all are then."""
        finished_writes = [write for write in intent.writes if self._read_state(write) == write.after]
        if not finished_writes:
            return False
        rest = [write for write in intent.writes if write not in finished_writes]
        try:
            if not all(self._is_before(write) for write in rest):
                return False
            self._discard(rest)
            self._lay_out(rest)
            for write in rest:
                self._make_way(write)
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
            self._lay_out(intent.writes)
            for write in intent.writes:
                with _explain_write_error(write.path):
                    if write.emptied or write.aside is not None:
                        self._make_way(write)
                    self._swaps.swap(write)
                self.step(f"swapped {write.path}")
            with _explain_write_error(intent.writes[-1].path):
                self._sync_directories(intent.writes)
            for write in intent.writes:
                if not self._swaps.is_untouched(write):
                    raise build_moved_on_error(write)
        except AgentTuiError:
            self._roll_back(intent)
            raise

    def _lay_out(self, writes: Sequence[PathWrite]) -> None:
        """Make the directories, and write the new contents beside their targets."""
        for write in writes:
            if write.directories and write.after.kind != "absent" and write.aside is None:
                with _explain_write_error(write.path):
                    self._make_directories(write)
        run_for_each(writes, self._prepare)

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

    def _make_way(self, write: PathWrite) -> None:
        """Make the directories that were in the way before, and remove the empty ones that the file replaces."""
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
                    raise build_moved_on_error(write) from None
                raise

    def _sync_directories(self, writes: Sequence[PathWrite]) -> None:
        run_for_each(list({write.path.rpartition("/")[0]: write for write in writes}.values()), self._sync_directory)

    def _sync_directory(self, write: PathWrite) -> None:
        try:
            with self.workspace.open_parent(write.path) as (directory, _):
                sync_directory(directory)
        except OSError as error:
            if write.after.kind != "absent" or error.errno not in _GONE:  # else it went with its last file
                raise

    def _roll_back(self, intent: IntentRecord) -> None:
        """Roll back every file that the transaction changed; a file changed by others since is left."""
        is_complete = True
        for write in reversed(intent.writes):
            try:
                if self._read_state(write) == write.after != write.before:
                    self._swaps.restore(write)
                self._restore_emptied(write)
            except (OSError, AgentTuiError):
                is_complete = False  # the next start tries again; what is needed for that stays where it is
                continue
            is_complete = self._discard([write]) and is_complete
            if write.after.kind != "absent":
                self.workspace.remove_directories(list(write.directories))
        if is_complete:
            with suppress(OSError):
                self.journal.append(AbortRecord(id=intent.id), durable=True)

    def _restore_emptied(self, write: PathWrite) -> None:
        """Make the directories again that gave way, if nothing has taken their place."""
        for path, mode in sorted(write.emptied):
            with suppress(FileExistsError), self.workspace.open_parent(path) as (directory, name):
                os.mkdir(name, 0o700, dir_fd=directory)
                os.chmod(name, mode, dir_fd=directory)

    def _discard(self, writes: Iterable[PathWrite], *, looks_around: bool = True) -> bool:
        """Remove the temporary names, and with `looks_around` those whose directories have been moved elsewhere.

        False: some may still be there.
        """
        is_complete, stray_writes = True, dict[str, PathWrite]()
        for write in writes:
            try:
                if backup_name := self._swaps.discard(write):
                    self._notices.append(_build_kept_notice(write, backup_name))
            except (FileNotFoundError, NotADirectoryError):
                stray_writes[write.temporary] = write
            except OSError:
                is_complete = False
        if stray_writes and looks_around:
            return self._discard(_find_strayed(self.workspace, stray_writes), looks_around=False) and is_complete
        return is_complete and not stray_writes

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
    """Raise `PromotionFailed` with the name of the file that can't be written."""
    try:
        yield
    except OSError as error:
        raise PromotionFailed(
            f"{path} can't be written: {error.strerror or error}. Nothing was changed.",
            hint="Mend that, then accept again.",
        ) from error


def _build_kept_notice(write: PathWrite, backup_name: str) -> Notice:
    return Notice(
        level="warning",
        message=f"{write.path} was written by another program while it was being changed here.",
        hint=f"What that program wrote is kept as {backup_name}.",
    )


def _find_strayed(workspace: Workspace, stray_writes: Mapping[str, PathWrite]) -> Iterator[PathWrite]:
    """Yield the writes whose temporary names (the keys) are in another directory by now, with that as their `aside`."""
    for path, kind in walk_directory(workspace, ".") or ():
        directory, _, name = path.removeprefix("./").rpartition("/")
        if kind != "directory" and name in stray_writes:
            yield replace(stray_writes[name], aside=directory)


def arrange_writes(writes: Sequence[PathWrite]) -> list[PathWrite]:
    """Sort removals first, and place temporary names outside of directories that come or go with the transaction."""
    emptied_paths = [write.path for write in writes if write.emptied]
    removed_paths = {write.path for write in writes if write.after.kind == "absent"}
    in_order = sorted(writes, key=lambda write: (write.after.kind != "absent", write.path))
    if not removed_paths and not emptied_paths:
        return in_order
    return [_place_aside(write, removed_paths if write.after.kind != "absent" else emptied_paths) for write in in_order]


def _place_aside(write: PathWrite, moving: Collection[str]) -> PathWrite:
    parents = list_parents(write.path)
    top = next((parent for parent in parents if parent in moving), None)
    if top is None:
        return write
    directories = write.directories if write.after.kind == "absent" else tuple(parents[parents.index(top) :])
    return replace(write, aside=top.rpartition("/")[0], directories=directories)
