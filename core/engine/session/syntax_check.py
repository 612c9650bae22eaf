"""Flag pending changes that do not parse although the user's own file does; checked in a thread, one by one.

A flag is recorded by revising the change. The next edit makes a change without a flag, which is checked anew. Of a
command that changed very many files only the first ones are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from core.edits.text_file import decode_text
from core.errors import AgentTuiError
from core.protocol.events import AnyEvent, ChangeProposed, ChangeRevised
from core.protocol.review import Change, FileState
from core.shadow.content.blob_store import BlobStore
from core.state.review import ReviewState
from core.syntax.flaws import describe_first_flaw
from core.tasks import TaskOwner, is_loop_running

MAX_BYTES = 1_000_000  # bytes of a file that is looked at
MAX_WAITING = 300  # files that wait to be looked at


class SyntaxChecker(Struct, eq=False):
    """Checks a session's pending changes. `observe` what becomes of them; `close` before the log is closed."""

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
        if not is_loop_running():  # a review from the command line shows what was found when the change was made
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
            except AgentTuiError:  # a disk that refuses the flag complains elsewhere, of what matters more
                continue

    def _find_flaw(self, change: Change) -> str:
        return describe_first_flaw(change.path, self._load_text(change.counted_state), self._load_text(change.pending))

    def _load_text(self, state: FileState) -> str:
        file = decode_text(self._blobs.get(state.blob)) if state.blob else None
        return file.text if file else ""

    def _flag(self, change: Change, flaw: str) -> None:
        """Record the result unless the change has moved on."""
        now = self._review.changes.get(change.path)
        if now is None or self._closed or (now.base, now.pending) != (change.base, change.pending):
            return
        if now.broken != flaw:
            self._emit(ChangeRevised(change=replace(now, broken=flaw)))


def _is_checkable(change: Change) -> bool:
    states = (change.base, change.pending)
    small = all(state.kind in {"file", "absent"} and state.size <= MAX_BYTES for state in states)
    return small and not change.broken and not change.binary and change.pending.kind == "file"
