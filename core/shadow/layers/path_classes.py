"""Classes of paths: changes that are reviewed one by one, and those that are decided in bulk.

Bulks consist of ignored files, the directories that common tools fill, and the state of git itself. A tracked file is
never generated, whatever the ignore rules say; a file that makes git run something is never part of its state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from core.git.index import TrackedPaths
from core.protocol.review import CACHES
from core.shadow.content.paths import inherit
from core.workspace.file_names import fold_name, is_git_internal, to_os_name
from core.workspace.protected_files import is_protected

GENERATED = CACHES | {
    *("node_modules", "bower_components", ".venv", ".tox", ".nox", ".eggs", ".gradle", ".next", ".nuxt", ".terraform"),
}
# Small and numerous directories that are decided together, wherever they are.
_SCATTERED_NAMES = frozenset({"__pycache__", ".ipynb_checkpoints"})
_PROTECTED_FILES = frozenset({"config", "config.worktree", "commondir", "gitdir"})


class PathClass(Struct, frozen=True):
    """The class of a path. `top`: the topmost path whose whole tree is of this class; `root`: the name of the bulk;
    `mixed`: an ignored directory with tracked files."""

    kind: Literal["reviewed", "generated", "git", "large"]
    top: str = ""
    root: str = ""
    mixed: bool = False


REVIEWED = PathClass("reviewed")
IgnoreLookup = Callable[[str], Callable[[str, bool], bool]]


class PathClasses:
    """The classes of one tree: its ignore rules (`within`, see `IgnoreRules`) and index do not change meanwhile."""

    def __init__(self, within: IgnoreLookup, read_tracked_paths: Callable[[], TrackedPaths]) -> None:
        self._within = within
        self._tracked = read_tracked_paths
        self._ignored: dict[str, Callable[[str, bool], bool]] = {}
        self._directories: dict[str, PathClass] = {".": REVIEWED}

    def classify(self, path: str, is_dir: bool) -> PathClass:
        """Return the class of a path (never "."). A file that is executed implicitly is reviewed even if git ignores
        it, except in the directories that common tools fill."""
        path_class = self._classify_directory(path) if is_dir else self._classify_file(path)
        if path_class.kind != "generated" or is_dir or not GENERATED.isdisjoint(path.split("/")):
            return path_class
        acts = is_git_protected(path) if is_git_internal(path) else is_protected(path)
        return REVIEWED if acts else path_class

    def _classify_file(self, path: str) -> PathClass:
        directory, _, name = path.rpartition("/")
        above = self._classify_directory(directory or ".")
        if above.kind != "reviewed":
            return above
        if above.mixed:
            return (
                REVIEWED if self._tracked().is_tracked(to_os_name(path)) else PathClass("generated", path, above.root)
            )
        if is_git_internal(name):
            return PathClass("git", path, path)
        if self._is_ignored(directory, name, False) and not self._tracked().is_tracked(to_os_name(path)):
            return PathClass("generated", path, _name_root(name, path))
        return REVIEWED

    def _classify_directory(self, path: str) -> PathClass:
        return inherit(self._directories, path, self._derive_class)

    def _derive_class(self, path: str, above: PathClass) -> PathClass:
        """Return the class of a directory whose parent has the class `above`."""
        directory, _, name = path.rpartition("/")
        if above.kind != "reviewed":
            return above
        if is_git_internal(name):
            return PathClass("git", path, path)
        if not (above.mixed or name in GENERATED or self._is_ignored(directory, name, True)):
            return REVIEWED
        root = above.root or (f"**/{name}" if name in _SCATTERED_NAMES else path)
        if self._tracked().has_tracked_below(to_os_name(path)):
            return PathClass("reviewed", "", root, mixed=True)
        return PathClass("generated", path, root)

    def _is_ignored(self, directory: str, name: str, is_dir: bool) -> bool:
        rules = self._ignored.get(directory)
        if rules is None:
            rules = self._ignored[directory] = self._within(directory or ".")
        return rules(name, is_dir)


def _name_root(name: str, path: str) -> str:
    """Return the bulk root of an individually ignored file: its suffix."""
    stem, dot, suffix = name.rpartition(".")
    return f"**/*.{suffix}" if stem and dot else path


def is_git_protected(path: str) -> bool:
    """True if a file below (or in place of) a `.git` makes git run or trust something."""
    parts = [fold_name(part) for part in path.split("/")]
    git = next((index for index, part in enumerate(parts) if is_git_internal(part)), None)
    if git is None:
        return False
    return _is_protected_inside(parts[git + 1 :])


def _is_protected_inside(inside: list[str]) -> bool:
    if not inside or inside[0] in {"refs", "logs", "objects"}:
        return not inside or inside in (["objects", "info", "alternates"], ["objects", "info", "http-alternates"])
    outer = inside[0] in {"modules", "worktrees"}
    if inside[-1] in _PROTECTED_FILES or inside[-1] == "hooks":
        return len(inside) == 1 or outer
    if "hooks" in inside[:-1]:
        return (inside[0] == "hooks" or outer) and not inside[-1].endswith(".sample")
    return inside[-2:] == ["info", "attributes"]
