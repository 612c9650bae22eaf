"""Promotion: accepted content into the user's files, all of a transaction or none of it, whatever dies meanwhile.

intent (synced) -> temporary files beside their targets (synced) -> for each: does the disk still hold the base? then
rename -> sync the directories -> commit (synced) -> events -> done. A removal is a rename to the temporary name, so
that it can be taken back; it is deleted after the commit. `recover` finishes or takes back what a crash left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, ReviewConflict
from core.ids import new_id
from core.protocol.events import AnyEvent
from core.protocol.review import FileState
from core.shadow.blobs import BlobStore
from core.shadow.disk import above, walked
from core.shadow.journal import Abort, Commit, Done, Intent, Journal, Transaction, Write
from core.shadow.parallel import for_each
from core.workspace import ABSENT, Workspace, names
from core.workspace.tree import state_at, sync_directory, temporary_name, write_new

Emit = Callable[[AnyEvent], None]
IsNews = Callable[[Intent, AnyEvent], bool]
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


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
        self._carry_out(intent)
        # Without these two records the next start finds all files in place and comes to the same end.
        with suppress(OSError):
            self._journal.append(Commit(id=intent.id), durable=True)
        self._step("commit")
        self._finish(intent, emit)

    def verify(self, write: Write) -> None:
        """Raise unless the disk holds what the transaction starts from."""
        if not self._is_before(write):
            raise _moved_on(write)

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
            for write in rest:
                self._discard(write)
                self._prepare(write)
            for write in rest:
                self._swap(write)
            self._sync_directories(intent.writes)
        except (OSError, AgentTuiError):
            return False
        return True

    def _state(self, write: Write) -> FileState | None:
        try:
            return self._workspace.state_of(write.path)[0]
        except PathRefused:
            return None

    def _make_durable(self, writes: Sequence[Write]) -> None:
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
        except OSError as error:
            self._take_back(intent)
            raise _unwritable(path, error) from error
        except AgentTuiError:
            self._take_back(intent)
            raise

    def _prepare_and_tell(self, write: Write) -> None:
        try:
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
        data = self._blobs.get(write.after.blob)
        with self._workspace.directory(write.temporary_path) as (directory, temporary):
            if write.after.kind == "symlink":
                os.symlink(data, temporary, dir_fd=directory)
                return
            write_new(directory, temporary, data, write.after.mode)
            if write.aside is None:
                _keep_owner(directory, names.to_os(write.path.rpartition("/")[2]), temporary)

    def _make(self, write: Write) -> None:
        self._workspace.make_directories(list(write.directories))
        for each, mode in write.modes.items():
            with self._workspace.directory(each) as (directory, name):
                os.chmod(name, mode, dir_fd=directory)

    def _swap(self, write: Write) -> None:
        """The one step that shows: the disk is compared with the base through the very descriptor that it uses."""
        if write.aside is not None and write.after.kind != "absent":
            self._make(write)
        self._give_way(write)
        with self._workspace.directory(write.path) as (directory, name):
            if _state_in(directory, name, write.path) != write.before:
                raise _moved_on(write)
            self._step(f"verified {write.path}")
            with self._workspace.directory(write.temporary_path) as (aside, temporary):
                if write.after.kind == "absent":
                    if write.before.kind != "absent":
                        os.rename(name, temporary, src_dir_fd=directory, dst_dir_fd=aside)
                elif write.before.kind == "absent":
                    _move_to_free_name((aside, temporary), (directory, name), write)
                else:
                    os.rename(temporary, name, src_dir_fd=aside, dst_dir_fd=directory)

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
                    raise _moved_on(write) from None
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
                    self._restore(write)
                self._come_back(write)
            except (OSError, AgentTuiError):
                whole = False  # the next start tries again; what is needed for that stays where it is
                continue
            self._discard(write)
            if write.after.kind != "absent":
                self._workspace.remove_directories(list(write.directories))
        if whole:
            with suppress(OSError):
                self._journal.append(Abort(id=intent.id), durable=True)

    def _restore(self, write: Write) -> None:
        with self._workspace.directory(write.path) as (directory, name):
            if write.before.kind == "absent":
                os.unlink(name, dir_fd=directory)
            elif write.after.kind == "absent":
                with self._workspace.directory(write.temporary_path) as (aside, temporary):
                    _move_to_free_name((aside, temporary), (directory, name), write)
            else:
                temporary = write.temporary.encode()
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
                data = self._blobs.get(write.before.blob)
                if write.before.kind == "symlink":
                    os.symlink(data, temporary, dir_fd=directory)
                else:
                    write_new(directory, temporary, data, write.before.mode)
                    _keep_owner(directory, name, temporary)
                os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            sync_directory(directory)

    def _come_back(self, write: Write) -> None:
        """Make the directories again that gave way, if nothing has taken their place."""
        for each, mode in sorted(write.emptied):
            with suppress(FileExistsError), self._workspace.directory(each) as (directory, name):
                os.mkdir(name, 0o700, dir_fd=directory)
                os.chmod(name, mode, dir_fd=directory)

    def _discard(self, write: Write) -> None:
        with suppress(OSError), self._workspace.directory(write.temporary_path) as (directory, temporary):
            os.unlink(temporary, dir_fd=directory)

    def _finish(self, intent: Intent, emit: Emit) -> None:
        for write in intent.writes:
            self._discard(write)
            if write.after.kind == "absent":
                self._workspace.remove_directories(list(write.directories))
        self._step("cleaned")
        for event in intent.events:
            emit(event)
            self._step("emitted")
        with suppress(OSError):
            self._journal.append(Done(id=intent.id), durable=False)
        self._step("done")


def _unwritable(path: str, error: OSError) -> PromotionFailed:
    why = error.strerror or str(error)
    return PromotionFailed(
        f"{path} can't be written: {why}. Nothing was changed.", hint="Mend that, then accept again."
    )


def _state_in(directory: int, name: bytes, path: str) -> FileState:
    try:
        return state_at(directory, name, path)[0]
    except FileNotFoundError:
        return ABSENT


def _move_to_free_name(source: tuple[int, bytes], target: tuple[int, bytes], write: Write) -> None:
    """Rename without ever replacing: by a hard link where the file system has them. Names in open directories."""
    (aside, temporary), (directory, name) = source, target
    try:
        os.link(temporary, name, src_dir_fd=aside, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        raise _moved_on(write) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(temporary, name, src_dir_fd=aside, dst_dir_fd=directory)
        return
    os.unlink(temporary, dir_fd=aside)


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


def _keep_owner(directory: int, name: bytes, temporary: bytes) -> None:
    """Give the new file the owner of the one that it replaces, as far as this user may."""
    with suppress(OSError):
        old = os.stat(name, dir_fd=directory, follow_symlinks=False)
        new = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.chown(temporary, old.st_uid, old.st_gid, dir_fd=directory, follow_symlinks=False)


def _moved_on(write: Write) -> ReviewConflict:
    return ReviewConflict(
        f"{write.path} is no longer what the change was made from; nothing was written.",
        hint="Look at the change again, then accept or reject it.",
    )
