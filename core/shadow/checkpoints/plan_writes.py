"""Writes of plan files, which go to the disk without a review: each is told to the log with what was there before, so
that a checkpoint can take it back.

What is taken back is only what this session wrote: a file that is not as the session left it is somebody else's by now.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from core.errors import ReviewConflict
from core.protocol import events as ev
from core.protocol.review import FileState
from core.shadow.content.contents import Contents
from core.workspace.plan_folder import PlanFolder

CHANGED_MEANWHILE = "the plan was changed meanwhile; it stays as it is."


class PlanWrites(Struct, eq=False):
    """The plan files of one session, as those who read and write plans see them (`PlanFiles`)."""

    folder: PlanFolder
    contents: Contents
    emit: Callable[[ev.AnyEvent], None]

    @property
    def place(self) -> str:
        """The folder of new plans: relative to the project, or absolute where it is outside of it."""
        return self.folder.place

    def to_path(self, path: str) -> str:
        """Return the path of a plan in its one form. Raises `PathRefused` for the path of anything else."""
        return self.folder.to_path(path)

    def list_paths(self) -> list[str]:
        """Return the paths of the plans in the folder; none if there is no such folder."""
        return self.folder.list_paths()

    def read(self, rel: str) -> bytes | None:
        """Return the whole file; None: there is none."""
        return self.folder.read(rel)

    def read_state(self, path: str) -> FileState:
        """Return what the file holds, and keep its bytes."""
        return self.contents.store(*self.folder.read_state(path))

    def write(self, rel: str, data: bytes) -> None:
        """Create (with its folders) or replace a plan, and tell the log."""
        path = self.to_path(rel)
        before = self.read_state(path)
        self.folder.write(path, data)
        self.emit(ev.PlanWritten(path=path, state=self.read_state(path), before=before))

    def put_back(self, path: str, disk: FileState, target: FileState) -> None:
        """Write or remove a plan outside of the project, which holds `disk`. Raises `ReviewConflict` if it does not."""
        if self.read_state(path) != disk:
            raise ReviewConflict(CHANGED_MEANWHILE)
        if target.kind == "file":
            self.folder.write(path, self.contents.read(target))
        else:
            self.folder.remove(path)
