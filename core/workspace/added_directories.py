"""Directories outside of the workspace that the agent may read, by absolute paths.

They are opened like workspaces, so that no link leads out of them, and their `.cursorignore` files apply. They are
never written: they have no shadow, so changes could not be reviewed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path

from core.errors import PathRefused
from core.protocol.paths import is_below
from core.workspace.ignore_rules import IgnoreRules
from core.workspace.path_status import DirectoryEntry, PathStat
from core.workspace.secret_files import is_secret
from core.workspace.tree import Workspace


class AddedDirectories:
    """The directories `paths`, which exist. Methods take absolute POSIX paths that `locate` has returned."""

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        self._trees = [(tree, IgnoreRules(tree)) for tree in map(Workspace, paths)]

    @property
    def roots(self) -> tuple[str, ...]:
        """The absolute paths of the directories."""
        return tuple(str(tree.root) for tree, _ in self._trees)

    def locate(self, path: str) -> str:
        """Return the normalized absolute path in its spelling on disk, "" = it is in none of the directories."""
        absolute_path = posixpath.normpath(posixpath.expanduser(path))
        for tree, _ in self._trees:
            if is_below(absolute_path, str(tree.root)):
                rel = tree.spell(absolute_path[len(str(tree.root)) :].strip("/") or ".")
                return posixpath.normpath(posixpath.join(str(tree.root), rel))
        return ""

    def stat(self, path: str) -> PathStat | None:
        tree, rel = self._find(path)
        return tree.stat(rel)

    def read(self, path: str, limit: int) -> bytes:
        """Return at most `limit` bytes. Raises `PathRefused`."""
        tree, rel = self._find(path)
        if tree.stat(rel) is None:
            raise PathRefused(f"{path!r} does not exist.", code="not_found")
        return tree.read_bytes(rel, limit)

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        """List a directory without withheld entries. Raises `PathRefused`."""
        tree, rel = self._find(path)
        ignore = next(rules for workspace, rules in self._trees if workspace is tree)
        is_withheld = ignore.match_withheld_in(rel)
        return tuple(entry for entry in tree.list_dir(rel) if not is_withheld(entry.name, entry.kind == "directory"))

    def is_secret(self, path: str) -> bool:
        """True if a file of this name usually holds secrets."""
        tree, rel = self._find(path)
        return is_secret(rel, next(rules for workspace, rules in self._trees if workspace is tree).is_ignored)

    def _find(self, path: str) -> tuple[Workspace, str]:
        """Find the directory of a path, and the path within it. Raises `PathRefused`: in none, or withheld."""
        for tree, ignore in self._trees:
            if is_below(path, str(tree.root)):
                rel = tree.to_relative(path)
                ignore.refuse_withheld(rel)
                return tree, rel
        raise PathRefused(f"{path!r} points outside the workspace.")
