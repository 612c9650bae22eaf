"""Which pending changes do not parse though the user's own file does: looked at in a thread, one after the other.

What is found is told by the same change, revised. The next edit makes a change without the flag, and it is looked at
anew. Of a command that changed very many files only the first ones are looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from core.edits.breakage import first_flaw
from core.edits.textfile import decode
from core.errors import AgentTuiError
from core.protocol.events import AnyEvent, ChangeProposed, ChangeRevised
from core.protocol.review import Change, FileState
from core.shadow import BlobStore, ReviewState

LARGEST = 1_000_000  # bytes of a file that is looked at
MOST = 300  # files that wait to be looked at


class Flagging:
    """`note` every event of a session; `end` before its log is closed."""

    def __init__(self, review: ReviewState, blobs: BlobStore, emit: Callable[[AnyEvent], None]) -> None:
        self._review = review
        self._blobs = blobs
        self._emit = emit
        self._waiting: dict[str, None] = {}
        self._work: asyncio.Task[None] | None = None
        self._over = False

    def note(self, event: AnyEvent) -> None:
        if not isinstance(event, ChangeProposed | ChangeRevised) or not _can_be_broken(event.change) or self._over:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a review from the command line shows what was found when the change was made
            return
        if len(self._waiting) < MOST:
            self._waiting[event.change.path] = None
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._look(), name="looking for broken changes")

    def end(self) -> None:
        self._over = True
        self._waiting.clear()
        if self._work is not None:
            self._work.cancel()

    async def _look(self) -> None:
        while self._waiting:
            path = next(iter(self._waiting))
            del self._waiting[path]
            if (change := self._review.changes.get(path)) is None:
                continue
            try:
                broken = await asyncio.to_thread(self._broken, change)
                self._tell(change, broken)
            except AgentTuiError:  # a disk that refuses the flag complains elsewhere, of what matters more
                continue

    def _broken(self, change: Change) -> str:
        return first_flaw(change.path, self._text(change.counted), self._text(change.pending))

    def _text(self, state: FileState) -> str:
        file = decode(self._blobs.get(state.blob)) if state.blob else None
        return file.text if file else ""

    def _tell(self, change: Change, broken: str) -> None:
        now = self._review.changes.get(change.path)
        if now is None or self._over or (now.base, now.pending) != (change.base, change.pending):
            return
        if now.broken != broken:
            self._emit(ChangeRevised(change=replace(now, broken=broken)))


def _can_be_broken(change: Change) -> bool:
    states = (change.base, change.pending)
    small = all(each.kind in {"file", "absent"} and each.size <= LARGEST for each in states)
    return small and not change.broken and not change.binary and change.pending.kind == "file"
