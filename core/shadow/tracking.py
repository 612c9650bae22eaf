"""The ignore rules and git's index as they are in the tree that a command left: they decide what is reviewed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from core.errors import PathRefused
from core.shadow.layers import LayerDirs
from core.shadow.overlay import is_whiteout
from core.shadow.path_classes import PathClasses
from core.shadow.seen import Seen
from core.workspace import IgnoreRules, Workspace
from core.workspace.git_index import NOTHING, Tracked, read_index
from core.workspace.names import to_os

_LARGEST = 1_000_000  # bytes of a file with rules
_LARGEST_INDEX = 256 << 20


class Tracking:
    """Of one session's tree. What git tracks on disk is kept until its index changes."""

    def __init__(self, workspace: Workspace, seen: Seen) -> None:
        self._workspace = workspace
        self._seen = seen
        self._known: tuple[tuple[str, int, int, int], Tracked] | None = None

    def classes(self, layer: LayerDirs) -> PathClasses:
        """The classes of paths in the tree with `layer` on top."""
        rules = IgnoreRules(self._workspace, lambda rel: self._content(layer.upper, rel))
        return PathClasses(rules.look(), lambda: self._tracked(layer.upper))

    def _content(self, upper: Path, rel: str) -> bytes | None:
        place = os.fsencode(upper) + b"/" + to_os(rel)
        try:
            found = os.lstat(place)
            if not stat.S_ISREG(found.st_mode):
                return None if is_whiteout(found) else b""
            return Path(os.fsdecode(place)).read_bytes()[:_LARGEST]
        except OSError:
            pass
        node = self._seen.node(rel)
        try:
            return self._seen.read(rel, node, _LARGEST) if node is not None and node.kind == "file" else None
        except PathRefused:
            return None

    def _tracked(self, upper: Path) -> Tracked:
        place = upper / ".git" / "index"
        if not place.is_file():
            found = self._seen.below(".git/index")
            place = Path(os.fsdecode(found.layered.place)) if found and found.layered else self._on_disk()
        try:
            stats = place.stat()
        except OSError:
            return NOTHING
        signature = (str(place), stats.st_mtime_ns, stats.st_size, stats.st_ino)
        if self._known is None or self._known[0] != signature:
            self._known = (signature, _read(place))
        return self._known[1]

    def _on_disk(self) -> Path:
        """The index of the workspace; of a worktree, the one that its `.git` file leads to."""
        git = self._workspace.root / ".git"
        if not git.is_file():
            return git / "index"
        try:
            line = git.read_bytes()[:4096].removeprefix(b"gitdir:").strip()
        except OSError:
            return git / "index"
        return git.parent / os.fsdecode(line) / "index"


def _read(place: Path) -> Tracked:
    try:
        if place.stat().st_size > _LARGEST_INDEX:
            return NOTHING
        return read_index(place.read_bytes()) or NOTHING
    except OSError:
        return NOTHING
