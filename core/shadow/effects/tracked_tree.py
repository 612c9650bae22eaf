"""The ignore rules and git's index of the tree that a command left: they decide what is reviewed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from core.errors import PathRefused
from core.filesystem.overlay_support import is_whiteout
from core.git.index import NO_TRACKED_PATHS, TrackedPaths, parse_index
from core.git.layout import find_repository
from core.shadow.effects.path_classes import PathClasses
from core.shadow.layers.layer_store import CommandLayer
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_place
from core.workspace import IgnoreRules

_MAX_RULES_BYTES = 1_000_000  # bytes of a file with rules
_MAX_INDEX_BYTES = 256 << 20


class TrackedTree:
    """The tracked paths of one session's tree. The parsed index is cached until its file changes."""

    def __init__(self, tree: MergedTree) -> None:
        self._tree = tree
        self._known: tuple[tuple[str, int, int, int], TrackedPaths] | None = None

    def build_classes(self, layer: CommandLayer) -> PathClasses:
        """Build the classes of paths in the tree with `layer` on top."""
        rules = IgnoreRules(self._tree.workspace, lambda rel: self._read_rules(layer.upper, rel))
        return PathClasses(rules.open_snapshot(), lambda: self._read_tracked(layer.upper))

    def _read_rules(self, upper: Path, rel: str) -> bytes | None:
        path = get_place(upper, rel)
        with suppress(OSError):
            stats = path.lstat()
            if not stat.S_ISREG(stats.st_mode):
                return None if is_whiteout(stats) else b""
            return path.read_bytes()[:_MAX_RULES_BYTES]
        node = self._tree.find_node(rel)
        try:
            return self._tree.read(rel, node, _MAX_RULES_BYTES) if node is not None and node.kind == "file" else None
        except PathRefused:
            return None

    def _read_tracked(self, upper: Path) -> TrackedPaths:
        path, below = upper / ".git" / "index", b""
        if not path.is_file():
            node = self._tree.find_below_pending(".git/index")
            if node and node.layered:
                path = Path(os.fsdecode(node.layered.place))
            else:
                path, below = self._find_disk_index()
        try:
            stats = path.stat()
        except OSError:
            return NO_TRACKED_PATHS
        signature = (str(path), stats.st_mtime_ns, stats.st_size, stats.st_ino)
        if self._known is None or self._known[0] != signature:
            tracked_paths = _read_index_file(path)
            self._known = (signature, tracked_paths.select_below(below) if below else tracked_paths)
        return self._known[1]

    def _find_disk_index(self) -> tuple[Path, bytes]:
        """Return the path of the index, and where in its repository the workspace lies (b"": it is the top)."""
        root = self._tree.workspace.root
        repository = find_repository(root)
        if repository is None:
            return root / ".git" / "index", b""
        return repository.own / "index", os.fsencode(
            root.relative_to(repository.root)
        ) if repository.root != root else b""


def _read_index_file(path: Path) -> TrackedPaths:
    with suppress(OSError):
        if path.stat().st_size <= _MAX_INDEX_BYTES:
            return parse_index(path.read_bytes()) or NO_TRACKED_PATHS
    return NO_TRACKED_PATHS
