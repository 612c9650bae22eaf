"""Promotion: accepted content into the user's files, all of a transaction or none of it, whatever dies meanwhile.

intent (synced) -> temporary files beside their targets (synced) -> for each: does the disk still hold the base? then
the two exchange their names (`swapping`) -> sync the directories -> has anybody written to what was replaced? -> commit
(synced) -> events -> done. What was replaced or removed stays under its temporary name until the commit, so that it can
be taken back. `recover` finishes or takes back what a crash left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused
from core.ids import new_id
from core.protocol.events import AnyEvent, Notice
from core.protocol.review import FileState
from core.shadow.blobs import BlobStore
from core.shadow.contents import content_of
from core.shadow.disk import above, walked
from core.shadow.journal import Abort, Commit, Done, Intent, Journal, Transaction, Write
from core.shadow.parallel import for_each
from core.shadow.swapping import Swaps, moved_on
from core.workspace import Workspace
from core.workspace.renaming import temporary_name
from core.workspace.tree import sync_directory

Emit = Callable[[AnyEvent], None]
IsNews = Callable[[Intent, AnyEvent], bool]
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class PromotionFailed(AgentTuiError):
    """A file could not be written; the ones before it have been put back."""

    code = "promotion_failed"


def _no_step(_: str) -> None:
    pass


class Promotion:
    """Carries out transactions on the workspace. `step` is called between any two effects (tests stop there)."""

    def __init__(
        self,
        workspace: Workspace,
        blobs: BlobStore,
        journal: Journal,
        *,
        step: Callable[[str], None] = _no_step,
        gone: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._workspace = workspace
        self._blobs = blobs
        self._journal = journal
        self._step = step
        self._gone = gone
        self._swaps = Swaps(workspace, blobs, step)
        self._told: list[Notice] = []

    def planned(self, path: str, before: FileState, after: FileState, pending: FileState | None) -> Write:
        """A write of a transaction, with the directories that it makes, takes along or replaces."""
        gone = self._gone()
        if after.kind == "absent":
            directories = [each for each in above(path) if each in gone]
        else:
            directories = self._workspace.missing_directories(path)
        return Write(
            path=path,
            before=before,
            after=after,
            temporary=temporary_name().decode(),
            pending=pending,
            directories=tuple(directories),
            modes={each: gone[each] for each in directories if each in gone},
            emptied=self._emptied(path) if before.kind == "absent" != after.kind else (),
        )

    def _emptied(self, path: str) -> tuple[tuple[str, int], ...]:
        found = self._workspace.stat(path) if not self._workspace.state_is_absent(path) else None
        if found is None or found.kind != "directory":
            return ()
        below = [each for each, kind in walked(self._workspace, path) or () if kind == "directory"]
        modes = [(each, self._workspace.stat(each)) for each in below]
        return tuple((each, stats.mode) for each, stats in modes if stats is not None)

    def run(self, writes: Sequence[Write], events: Sequence[AnyEvent], emit: Emit) -> None:
        """Do all writes, then emit the events. `ReviewConflict` (disk moved on), `PathRefused` or `PromotionFailed`
        when it can't be done; then every file is as it was."""
        writes = arranged(writes)
        intent = Intent(id=new_id("txn"), writes=tuple(writes), events=tuple(events))
        for write in writes:
            self.verify(write)
        try:
            self._make_durable(writes)
            self._journal.append(intent, durable=True)
        except OSError as error:
            raise PromotionFailed(f"Nothing was written: the session's journal: {error.strerror}.") from error
        self._step("intent")
        try:
            self._carry_out(intent)
        except AgentTuiError:
            self._tell_kept(emit)
            raise
        # Without these two records the next start finds all files in place and comes to the same end.
        with suppress(OSError):
            self._journal.append(Commit(id=intent.id), durable=True)
        self._step("commit")
        self._finish(intent, emit)

    def _tell_kept(self, emit: Emit) -> None:
        while self._told:
            emit(self._told.pop(0))

    def verify(self, write: Write) -> None:
        """Raise unless the disk holds what the transaction starts from."""
        if not self._is_before(write):
            raise moved_on(write)

    def _is_before(self, write: Write) -> bool:
        """Whether the disk holds what the write starts from; of directories that give way, whether they are there or
        have gone already. Behind a link that gives way there is nothing as yet."""
        try:
            return self._workspace.state_of(write.path)[0] == write.before
        except PathRefused as error:
            is_behind_link = write.aside is not None and write.before.kind == "absent" and error.code == "path_escapes"
            if not write.emptied and not is_behind_link:
                raise
        return True

    def recover(self, emit: Emit, is_news: IsNews) -> list[str]:
        """Bring every unfinished transaction to an end: forward if it had begun to show, else back.

        `is_news` tells events that the log does not have yet. Returns a sentence for each transaction.
        """
        told = [self._recovered(each, emit, is_news) for each in self._journal.unfinished()]
        if not self._journal.unfinished():
            with suppress(OSError):
                self._journal.clear()
        return told

    def _recovered(self, transaction: Transaction, emit: Emit, is_news: IsNews) -> str:
        intent = transaction.intent
        paths = ", ".join(write.path for write in intent.writes)
        news = [event for event in intent.events if is_news(intent, event)]
        if transaction.committed or self._rolled_forward(intent):
            if not transaction.committed:  # a crash from here on finds the end, not files that it would take back
                with suppress(OSError):
                    self._journal.append(Commit(id=intent.id), durable=True)
            self._finish(Intent(id=intent.id, writes=intent.writes, events=tuple(news)), emit)
            return f"Finished writing {paths}."
        self._take_back(intent)
        self._tell_kept(emit)
        return f"An interrupted write of {paths} was taken back."

    def _rolled_forward(self, intent: Intent) -> bool:
        """Whether all writes are in place, after doing the rest of them if some were."""
        done = [write for write in intent.writes if self._state(write) == write.after]
        if not done:
            return False
        rest = [write for write in intent.writes if write not in done]
        try:
            if not all(self._is_before(write) for write in rest):
                return False
            self._discard(rest)
            for write in rest:
                self._prepare(write)
            for write in rest:
                self._swap(write)
            self._sync_directories(intent.writes)
        except (OSError, AgentTuiError):
            return False
        return all(self._swaps.is_as_it_was(write) for write in done)

    def _state(self, write: Write) -> FileState | None:
        try:
            return self._workspace.state_of(write.path)[0]
        except PathRefused:
            return None

    def _make_durable(self, writes: Sequence[Write]) -> None:
        for write in writes:
            with content_of(write.path):
                self._blobs.need([each.blob for each in (write.before, write.after) if each.kind != "absent"])
        states = [state for write in writes for state in (write.before, write.after) if state.kind != "absent"]
        self._blobs.sync({state.blob for state in states})

    def _carry_out(self, intent: Intent) -> None:
        path = ""
        try:
            for write in intent.writes:
                path = write.path
                if write.after.kind != "absent" and write.aside is None:
                    self._make(write)
            for_each(intent.writes, self._prepare_and_tell)
            for write in intent.writes:
                path = write.path
                self._swap(write)
                self._step(f"swapped {path}")
            self._sync_directories(intent.writes)
            for write in intent.writes:
                if not self._swaps.is_as_it_was(write):
                    raise moved_on(write)
        except OSError as error:
            self._take_back(intent)
            raise _unwritable(path, error) from error
        except AgentTuiError:
            self._take_back(intent)
            raise

    def _prepare_and_tell(self, write: Write) -> None:
        try:
            with content_of(write.path):
                self._prepare(write)
        except OSError as error:
            raise _unwritable(write.path, error) from error
        self._step(f"prepared {write.path}")

    def _prepare(self, write: Write) -> None:
        """Put the new content beside its target."""
        if write.after.kind == "absent":
            return
        if write.aside is None:
            self._make(write)
        self._swaps.prepare(write)

    def _make(self, write: Write) -> None:
        self._workspace.make_directories(list(write.directories))
        for each, mode in write.modes.items():
            with self._workspace.directory(each) as (directory, name):
                os.chmod(name, mode, dir_fd=directory)

    def _swap(self, write: Write) -> None:
        if write.aside is not None and write.after.kind != "absent":
            self._make(write)
        self._give_way(write)
        self._swaps.swap(write)

    def _give_way(self, write: Write) -> None:
        """Remove the directories that the file takes the place of; what is in them has gone before."""
        for each, _ in sorted(write.emptied, reverse=True):
            try:
                with self._workspace.directory(each) as (directory, name):
                    os.rmdir(name, dir_fd=directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise moved_on(write) from None
                raise

    def _sync_directories(self, writes: Sequence[Write]) -> None:
        for_each(list({write.path.rpartition("/")[0]: write for write in writes}.values()), self._sync_directory)

    def _sync_directory(self, write: Write) -> None:
        try:
            with self._workspace.directory(write.path) as (directory, _):
                sync_directory(directory)
        except OSError as error:
            if write.after.kind != "absent" or error.errno not in _GONE:  # else it went with its last file
                raise

    def _take_back(self, intent: Intent) -> None:
        """Put every file of the transaction back that it has changed; a file changed by others since is left."""
        whole = True
        for write in reversed(intent.writes):
            try:
                if self._state(write) == write.after != write.before:
                    self._swaps.restore(write)
                self._come_back(write)
            except (OSError, AgentTuiError):
                whole = False  # the next start tries again; what is needed for that stays where it is
                continue
            whole = self._discard([write]) and whole
            if write.after.kind != "absent":
                self._workspace.remove_directories(list(write.directories))
        if whole:
            with suppress(OSError):
                self._journal.append(Abort(id=intent.id), durable=True)

    def _come_back(self, write: Write) -> None:
        """Make the directories again that gave way, if nothing has taken their place."""
        for each, mode in sorted(write.emptied):
            with suppress(FileExistsError), self._workspace.directory(each) as (directory, name):
                os.mkdir(name, 0o700, dir_fd=directory)
                os.chmod(name, mode, dir_fd=directory)

    def _discard(self, writes: Sequence[Write]) -> bool:
        """Remove the temporary names, wherever their directories have been moved to. False: some may still be there."""
        whole, strayed = True, dict[str, Write]()
        for write in writes:
            try:
                self._keep(write, self._swaps.discard(write))
            except (FileNotFoundError, NotADirectoryError):
                strayed[write.temporary] = write
            except OSError:
                whole = False
        for directory, name in _found(self._workspace, strayed) if strayed else ():
            write = replace(strayed[name], aside=directory)
            try:
                self._keep(write, self._swaps.discard(write))
            except OSError:
                whole = False
        return whole

    def _keep(self, write: Write, kept: str) -> None:
        if kept:
            self._told.append(
                Notice(
                    level="warning",
                    message=f"{write.path} was written by another program while it was being changed here.",
                    hint=f"What that program wrote is kept as {kept}.",
                )
            )

    def _finish(self, intent: Intent, emit: Emit) -> None:
        self._discard(intent.writes)
        for write in intent.writes:
            if write.after.kind == "absent":
                self._workspace.remove_directories(list(write.directories))
        self._step("cleaned")
        for event in intent.events:
            emit(event)
            self._step("emitted")
        self._tell_kept(emit)
        with suppress(OSError):
            self._journal.append(Done(id=intent.id), durable=False)
        self._step("done")


def _unwritable(path: str, error: OSError) -> PromotionFailed:
    why = error.strerror or str(error)
    return PromotionFailed(
        f"{path} can't be written: {why}. Nothing was changed.", hint="Mend that, then accept again."
    )


def _found(workspace: Workspace, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """The directories that hold one of these names, and the name."""
    for path, kind in walked(workspace, ".") or ():
        directory, _, name = path.removeprefix("./").rpartition("/")
        if kind != "directory" and name in wanted:
            yield directory, name


def arranged(writes: Sequence[Write]) -> list[Write]:
    """Removals first; where a directory comes or goes with the transaction, temporary names lie outside of it."""
    emptied = [write.path for write in writes if write.emptied]
    removed = {write.path for write in writes if write.after.kind == "absent"}
    in_order = sorted(writes, key=lambda each: (each.after.kind != "absent", each.path))
    return [_beside(write, removed if write.after.kind != "absent" else emptied) for write in in_order]


def _beside(write: Write, moving: Collection[str]) -> Write:
    parents = above(write.path)
    top = next((each for each in parents if each in moving), None)
    if top is None:
        return write
    directories = write.directories if write.after.kind == "absent" else tuple(parents[parents.index(top) :])
    return replace(write, aside=top.rpartition("/")[0], directories=directories)
