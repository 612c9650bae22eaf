"""A workspace with a session beside it: what the tests of the shadow work on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.permissions.rules import PermissionRule
from core.protocol.events import AnyEvent
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from core.workspace import Workspace


def ignore_step(_: str) -> None:
    pass


class ReviewCase:
    """`root` holds the user's files; every event is kept in `events` and applied to the state."""

    def __init__(self, place: Path, step: Callable[[str], None] = ignore_step) -> None:
        self.root = place / "project"
        self.session = place / "state" / "session"
        self.root.mkdir(parents=True, exist_ok=True)
        self.session.mkdir(parents=True, exist_ok=True)
        self.events: list[AnyEvent] = []
        self.state = ReviewState()
        self.workspace = Workspace(self.root, state_dir=place / "state")
        self.rules = list[PermissionRule]()
        self.shadow = Shadow(
            self.workspace,
            BlobStore(self.session / "blobs"),
            self.emit,
            self.state,
            step=step,
            load_rules=lambda: self.rules,
        )

    def emit(self, event: AnyEvent) -> None:
        self.events.append(event)
        self.state.apply(event)

    def put(self, path: str, data: bytes, mode: int = 0o644) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)
        return target

    def disk(self, path: str) -> bytes | None:
        target = self.root / path
        return target.read_bytes() if target.exists() else None

    def files(self) -> dict[str, bytes]:
        """Every file of the project, temporary ones too."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def ids(self, path: str) -> list[str]:
        return [hunk.id for hunk in self.state.changes[path].hunks] if path in self.state.changes else []
