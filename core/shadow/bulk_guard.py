"""What keeps a bulk verdict from going over what the user has changed in the project since."""

from __future__ import annotations

from contextlib import suppress

from core.errors import AgentTuiError, PathRefused, ReviewConflict
from core.protocol.review import FileState
from core.shadow.blobs import BlobStore
from core.shadow.bulk_notes import Decided
from core.shadow.disk import above
from core.shadow.transfer import Op, Transfer
from core.workspace import Workspace
from core.workspace.git_index import read_index

NAMED = 3  # paths in a message


class Guard:
    """Compares the project with what commands saw of it."""

    def __init__(self, workspace: Workspace, transfer: Transfer, blobs: BlobStore) -> None:
        self._workspace = workspace
        self._transfer = transfer
        self._blobs = blobs

    def refuse_conflicts(self, decided: Decided, ops: list[Op]) -> None:
        """Raise `ReviewConflict` unless the project holds what the command saw there."""
        if any(top.kind == "git" and self._transfer.kind(f"{path}/index.lock") for path, top in decided.tops.items()):
            raise ReviewConflict("Git is at work in the project.", hint="Wait for it, or remove a stale index.lock.")
        in_the_way = {each for path in decided.tops for each in above(path) if self._is_file(each)}
        if in_the_way:
            raise ReviewConflict(
                f"{', '.join(sorted(in_the_way))} is a file in the project.", hint="Accept its deletion first."
            )
        found = [op.path for op in ops if not self._is_as_expected(op, decided)]
        if found:
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            raise ReviewConflict(
                f"{', '.join(found[:NAMED])}{more} changed in the project since the command; nothing was written.",
                hint="Reject these files, or have the command run again on the files as they are now.",
            )

    def _is_file(self, path: str) -> bool:
        return self._transfer.kind(path) not in {None, "directory"}

    def _is_as_expected(self, op: Op, decided: Decided) -> bool:
        kind = self._transfer.kind(op.path)
        base = decided.bases.get(op.path)
        if op.what == "directory" and kind == "directory":
            return True
        if op.what != "directory" and self._transfer.is_done(op):
            return True
        if kind is None:
            return base is None
        if base is not None and kind != "directory":
            return self._transfer.state(op.path) == base or self._is_same_index(op.path, base)
        is_known = op.what != "put" or kind == "directory"
        return is_known and self._transfer.is_older(op.path, self._since(decided, op.path))

    def _since(self, decided: Decided, path: str) -> int:
        return next(top.since for each, top in decided.tops.items() if each == path or each in above(path))

    def _is_same_index(self, path: str, base: FileState) -> bool:
        """Looking at the project with git refreshes what the index remembers of the disk, and nothing that counts."""
        if not path.endswith(".git/index"):
            return False
        with suppress(AgentTuiError):
            return self.holds_index(path, self._blobs.get(base.blob))
        return False

    def holds_index(self, path: str, data: bytes) -> bool:
        """Whether git's index in the project names the same content as these bytes."""
        with suppress(PathRefused):
            old, new = read_index(data), read_index(self._workspace.read_bytes(path))
            return old is not None and new is not None and old.facts == new.facts
        return False
