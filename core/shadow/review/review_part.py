"""The common ground of a review's parts: what is pending, its bytes, and the files that it is about."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from core.errors import PathRefused
from core.protocol.events import AnyEvent
from core.protocol.review import FileState
from core.shadow.content.contents import Contents
from core.shadow.content.paths import list_parents, walk_directory
from core.state.review import ReviewState
from core.workspace import ABSENT, Workspace


class ReviewPart(Struct, eq=False):
    """A part of one session's review. `emit` tells the log, which applies the event to `state`."""

    workspace: Workspace
    contents: Contents
    emit: Callable[[AnyEvent], None]
    state: ReviewState

    def read_disk(self, path: str) -> FileState:
        """Return the disk's state as the base of a change, its bytes stored.

        Where a directory gives way to a file, it counts as absent once all of its files are pending deletions; so does
        everything behind a link, once the link is deleted. Raises `PathRefused` for anything else but a file or link.
        """
        try:
            return self.contents.store(*self.workspace.read_state(path))
        except PathRefused as error:
            if error.code == "not_a_file":
                below = walk_directory(self.workspace, path)
                if below is not None and all(
                    kind == "directory" or self._is_deletion(descendant) for descendant, kind in below
                ):
                    return ABSENT
            if error.code == "path_escapes" and any(map(self._is_deletion, list_parents(path))):
                return ABSENT
            raise

    def _is_deletion(self, path: str) -> bool:
        change = self.state.changes.get(path)
        return change is not None and change.pending.kind == "absent"
