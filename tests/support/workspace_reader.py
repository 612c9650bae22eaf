"""The file capabilities of a tool over a real workspace and a real shadow in a temporary directory."""

from __future__ import annotations

from pathlib import Path

from core.agent.answer.call_documents import build_edit_detail, build_rename_detail
from core.errors import ToolFailed
from core.protocol.events import DiagnosticsReported
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from core.tools.base import EditRequest, FileEditDetail, LintRun
from core.tools.linters import LintJob
from core.workspace import DirectoryEntry, PathStat, Workspace


class WorkspaceEditor:
    """An `Editor` whose files lie under `place/project`."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "project"
        self.folder.mkdir()
        session = place / "state" / "session"
        session.mkdir(parents=True)
        state = ReviewState()
        self.workspace = Workspace(self.folder, state_dir=place / "state")
        self.shadow = Shadow(self.workspace, BlobStore(session / "blobs"), state.apply, state)
        self.put_aside: dict[str, bytes] = {}
        self.seen: dict[str, bytes] = {}
        self.root = str(self.workspace.root)
        self.relative = self.workspace.to_relative
        self.read_spilled = self.put_aside.get

    def stat(self, path: str) -> PathStat | None:
        return self.shadow.stat(self.relative(path))

    def read_bytes(self, path: str, limit: int) -> bytes:
        return self.shadow.read_existing(self.relative(path), limit)

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        return self.shadow.list_open_dir(self.relative(path))

    def pending_paths(self) -> dict[str, str]:
        return {change.path: change.operation for change in self.shadow.list_changes()}

    def list_command_files(self, path: str) -> tuple[str, ...]:
        return self.shadow.list_command_files(path)

    def put(self, path: str, data: bytes | str) -> Path:
        """A file on disk, as the user has it."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return target

    def now(self, path: str) -> bytes:
        """A file as the agent sees it."""
        return self.read_bytes(path, 1 << 26)

    def mark_read(self, path: str) -> None:
        self.seen[self.relative(path)] = self.now(path)

    async def diagnose(self, paths: tuple[str, ...]) -> tuple[DiagnosticsReported, ...]:
        return ()

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        raise ToolFailed(f"was not run over what is {'pending' if pending else 'on disk'}: here is no box.")

    def has_read_current(self, path: str) -> bool:
        return self.seen.get(self.relative(path)) == self.now(path)

    def write(self, path: str, data: bytes) -> FileEditDetail:
        edited = self.shadow.edit(self.relative(path), data)
        self.mark_read(path)
        return build_edit_detail(self.relative(path), edited)

    def delete(self, path: str) -> FileEditDetail:
        edited = self.shadow.edit(self.relative(path), None)
        return build_edit_detail(self.relative(path), edited)

    def move(self, path: str, target: str, data: bytes) -> FileEditDetail:
        before = self.read_bytes(path, 1 << 26)
        self.write(target, data)
        self.delete(path)
        return build_rename_detail(self.relative(path), self.relative(target), before, data)

    async def apply_with_model(self, order: EditRequest) -> str:
        raise ToolFailed(f"Here is no model that could work out an edit of {order.path}: {order.problem}")
