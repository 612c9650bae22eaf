"""Pending changes of a session: accepted in bulk, and flagged when they do not parse.

Many files are accepted per transaction; protected changes and conflicts are left for the user. A change is flagged if
it does not parse although the user's own file does. A thread checks one file after the other, and the flag is recorded
as a revision of the change. The next edit creates a change without a flag, which is checked again. Of a command that
changed very many files only the first ones are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from core.edits.text_file import decode_text
from core.errors import AgentTuiError, StateError
from core.protocol.events import AnyEvent, ChangeProposed, ChangeRevised
from core.protocol.renames import map_conflicting_renames
from core.protocol.review import Change, FileState, Origin
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from core.state.session import SessionState
from core.syntax.flaws import describe_first_flaw
from core.tasks import TaskOwner, is_loop_running
from core.workspace import Workspace

MAX_BATCH: Final = 250  # files that are promoted in one transaction
MAX_BYTES = 1_000_000  # size of a file that is checked
MAX_WAITING = 300  # files in the queue


class ReviewedSession(Protocol):
    """All that questions about a session's changes need of it: it may be open here, or only read."""

    workspace: Workspace
    state: SessionState
    shadow: Shadow


class BulkAcceptance(Struct, eq=False):
    """Accepts changes of one session's shadow. `_sync` writes the log to the disk before changes are promoted.
    `_report_error(problem, path=)` reports why a verdict on a file failed."""

    _shadow: Shadow
    _review: ReviewState
    _sync: Callable[[], None]
    _report_error: Callable[..., None]

    def find_changes(self, origin: Origin | None, paths: tuple[str, ...] = ()) -> list[Change]:
        """Return the pending changes of an origin (None: any) and of these paths (none: all paths)."""
        selected_paths = frozenset(paths)
        changes = (
            change for change in self._shadow.list_changes() if not selected_paths or change.path in selected_paths
        )
        return [change for change in changes if select_hunks(change, origin) is not None]

    def accept(self, origin: Origin | None, paths: tuple[str, ...]) -> list[str]:
        """Promote the changes (of an origin, of these paths) that may be accepted in bulk; return the paths left."""
        left_paths, ready = [], []
        self._shadow.refresh_annotations()
        pairs = map_conflicting_renames(self._review.changes)
        for change in self.find_changes(origin, paths):
            now = None if change.protected else self._check_disk(change.path)
            if now is not None and not now.conflict and (part := select_hunks(now, origin)):
                left_paths += [] if self.accept_file(now.path, part) else [now.path]
                continue
            if change.protected or (now is not None and now.conflict):
                left_paths.append(change.path)
                if now is not None and now.clean_hunks:
                    self.accept_file(now.path, tuple(hunk.id for hunk in now.clean_hunks))
            elif now is not None:
                ready.append(change.path)
            elif change.path in self._review.changes:
                left_paths.append(change.path)
        blocked_paths = {path for pair in pairs.items() if set(pair) & set(left_paths) for path in pair}
        left_paths += [path for path in ready if path in blocked_paths]
        ready = [path for path in ready if path not in blocked_paths]
        for start in range(0, len(ready), MAX_BATCH):
            left_paths += self._accept_files(ready[start : start + MAX_BATCH])
        return left_paths

    def _check_disk(self, path: str) -> Change | None:
        try:
            return self._shadow.check_disk(path)
        except StateError:
            raise
        except AgentTuiError as problem:
            self._report_error(problem, path=path)
            return None

    def _accept_files(self, paths: list[str]) -> list[str]:
        """Promote these files together or, if one of them can't be written, one by one. Return the paths left."""
        self._sync()
        try:
            self._shadow.accept_files([path for path in paths if path in self._review.changes])
        except StateError:
            raise
        except AgentTuiError:
            return [path for path in paths if path in self._review.changes and not self.accept_file(path)]
        return []

    def accept_file(self, path: str, hunks: tuple[str, ...] = ()) -> bool:
        """Promote hunks of one file (none named: all). Return False after reporting a failure."""
        self._sync()
        try:
            self._shadow.resolve(path, hunks, "accept", "")
        except StateError:
            raise
        except AgentTuiError as problem:
            self._report_error(problem, path=path)
            return False
        return True


def select_hunks(change: Change, origin: Origin | None) -> tuple[str, ...] | None:
    """Return the hunks of a change that have an origin; () = the whole change, None = nothing. One file may have hunks
    of several todos."""
    whose = change.origin.todo if change.origin else ""
    if origin is None or origin != Origin(todo=origin.todo) or not any(hunk.todo for hunk in change.hunks):
        return () if origin is None or origin.covers(change.origin) else None
    hunks = [hunk for hunk in change.hunks if not hunk.moves] or change.hunks
    hunk_ids = tuple(hunk.id for hunk in hunks if (hunk.todo or whose) == origin.todo)
    return () if len(hunk_ids) == len(hunks) else hunk_ids or None


class SyntaxChecker(Struct, eq=False):
    """Checks the syntax of a session's pending changes. Call `close` before the log is closed."""

    _review: ReviewState
    _blobs: BlobStore
    _emit: Callable[[AnyEvent], None]
    _waiting: dict[str, None] = field(default_factory=dict)
    _tasks: TaskOwner = field(default_factory=TaskOwner)
    _closed: bool = False

    def observe(self, event: ChangeProposed | ChangeRevised) -> None:
        """Queue the change of an event for a check."""
        if self._closed or not _is_checkable(event.change):
            return
        if not is_loop_running():  # the command line shows the flags that are recorded already
            return
        if len(self._waiting) < MAX_WAITING:
            self._waiting[event.change.path] = None
        if not self._tasks.is_busy:
            self._tasks.spawn(self._check_waiting(), name="syntax check")

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._tasks.request_cancel()

    async def _check_waiting(self) -> None:
        while self._waiting:
            path = next(iter(self._waiting))
            del self._waiting[path]
            if (change := self._review.changes.get(path)) is None:
                continue
            try:
                flaw = await asyncio.to_thread(self._find_flaw, change)
                self._flag(change, flaw)
            except AgentTuiError:  # a full disk is reported elsewhere
                continue

    def _find_flaw(self, change: Change) -> str:
        return describe_first_flaw(change.path, self._load_text(change.counted_state), self._load_text(change.pending))

    def _load_text(self, state: FileState) -> str:
        file = decode_text(self._blobs.get(state.blob)) if state.blob else None
        return file.text if file else ""

    def _flag(self, change: Change, flaw: str) -> None:
        """Record the result unless the change was revised meanwhile."""
        now = self._review.changes.get(change.path)
        if now is None or self._closed or (now.base, now.pending) != (change.base, change.pending):
            return
        if now.broken != flaw:
            self._emit(ChangeRevised(change=replace(now, broken=flaw)))


def _is_checkable(change: Change) -> bool:
    states = (change.base, change.pending)
    small = all(state.kind in {"file", "absent"} and state.size <= MAX_BYTES for state in states)
    return small and not change.broken and not change.binary and change.pending.kind == "file"
