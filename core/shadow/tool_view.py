"""The shadow as one tool call sees it: paths as the model writes them, edits stamped with their origin."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from core.errors import PathRefused
from core.protocol.review import Origin
from core.shadow.review.proposals import ShadowEdit
from core.shadow.shadow import Shadow
from core.workspace import DirectoryEntry, PathStat


class ShadowView(Struct, eq=False):
    """The file methods of the READ and PROPOSE capabilities over a `Shadow`. Every path is checked on the way in."""

    _shadow: Shadow
    _origin: Origin | None = None

    @property
    def root(self) -> str:
        """The workspace's absolute path."""
        return str(self._shadow.workspace.root)

    def relative(self, path: str) -> str:
        """The normalised workspace-relative form of a path; `PathRefused` for foreign places."""
        return self._shadow.workspace.to_relative(path)

    def stat(self, path: str) -> PathStat | None:
        """Return what is there, pending changes included; None: nothing."""
        return self._shadow.stat(self.relative(path))

    def read_bytes(self, path: str, limit: int) -> bytes:
        """Return at most `limit` bytes of a regular file. Raises `PathRefused`."""
        rel = self.relative(path)
        data = self._shadow.read(rel, limit)
        if data is None:
            raise PathRefused(f"{rel!r} does not exist.", code="not_found")
        return data

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        """Directories first, then the rest, each by name."""
        rel = self.relative(path)
        ignored = self._shadow.ignore.match_in(rel)
        return tuple(
            DirectoryEntry(name=each.name, kind=each.kind, ignored=ignored(each.name, each.kind == "directory"))
            for each in self._shadow.list_dir(rel)
        )

    def pending_paths(self) -> Mapping[str, str]:
        """The operation of every pending change by path."""
        return {change.path: change.operation for change in self._shadow.list_changes()}

    def write(self, path: str, data: bytes) -> ShadowEdit:
        """Create or replace a file in the shadow."""
        return self._shadow.edit(self.relative(path), data, self._origin)

    def delete(self, path: str) -> ShadowEdit:
        """Remove a file in the shadow."""
        return self._shadow.edit(self.relative(path), None, self._origin)
