"""States of the disk as the base of a change.

Where a directory gives way to a file, the directory counts as absent once all of its files are pending deletions; so
does everything behind a link, once the link is deleted.
"""

from __future__ import annotations

from core.errors import PathRefused
from core.protocol.review import FileState
from core.shadow.content.contents import Contents
from core.shadow.paths import list_parents, walk_directory
from core.state.review import ReviewState
from core.workspace import ABSENT, Workspace


class DiskStates:
    """Read states of the workspace and store their bytes."""

    def __init__(self, workspace: Workspace, contents: Contents, state: ReviewState) -> None:
        self._workspace = workspace
        self._contents = contents
        self._state = state

    def read(self, path: str) -> FileState:
        """Return the state of a path. Raises `PathRefused` for what is no file, no link and no emptied directory."""
        try:
            return self._contents.store(*self._workspace.read_state(path))
        except PathRefused as error:
            if error.code == "not_a_file" and self._is_emptied_directory(path):
                return ABSENT
            if error.code == "path_escapes" and self._is_behind_deleted_link(path):
                return ABSENT
            raise

    def _is_behind_deleted_link(self, path: str) -> bool:
        changes = self._state.changes
        return any(each in changes and changes[each].pending.kind == "absent" for each in list_parents(path))

    def _is_emptied_directory(self, path: str) -> bool:
        below = walk_directory(self._workspace, path)
        changes = self._state.changes
        return below is not None and all(
            kind == "directory" or (each in changes and changes[each].pending.kind == "absent") for each, kind in below
        )
