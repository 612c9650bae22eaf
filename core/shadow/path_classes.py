"""Which changes of a command are reviewed one by one, and which are decided in bulk.

In bulk: what git ignores, the directories that everybody's tools fill, and the state of git itself. What git tracks is
never generated, whatever the ignore rules say; what makes git run something is never part of its state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from core.workspace.git_index import Tracked
from core.workspace.levers import is_protected
from core.workspace.names import folded, is_git_internal, to_os

GENERATED = frozenset(
    {
        *("node_modules", "bower_components", "__pycache__", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache"),
        *(".hypothesis", ".tox", ".nox", ".eggs", ".ipynb_checkpoints", ".gradle", ".next", ".nuxt", ".turbo"),
        *(".parcel-cache", ".terraform", ".ccls-cache", ".nyc_output"),
    }
)
_SCATTERED = frozenset({"__pycache__", ".ipynb_checkpoints"})  # small, many, and decided alike wherever they lie
_LEVER_FILES = frozenset({"config", "config.worktree", "commondir", "gitdir"})


class PathClass(Struct, frozen=True):
    """`top`: the highest place that is wholly of this class; `root`: the name of the bulk. `mixed`: a directory that is
    ignored and in which git tracks something all the same."""

    kind: Literal["reviewed", "generated", "git", "large"]
    top: str = ""
    root: str = ""
    mixed: bool = False


REVIEWED = PathClass("reviewed")
Within = Callable[[str], Callable[[str, bool], bool]]


class PathClasses:
    """For one look at a tree: the ignore rules (`within`, see `IgnoreRules`) and the index do not change meanwhile."""

    def __init__(self, within: Within, tracked: Callable[[], Tracked]) -> None:
        self._within = within
        self._tracked = tracked
        self._ignored: dict[str, Callable[[str, bool], bool]] = {}
        self._directories: dict[str, PathClass] = {".": REVIEWED}

    def of(self, path: str, is_dir: bool) -> PathClass:
        """The class of a path (never "."). What acts by itself is reviewed though git ignores it, but not where
        everybody's tools put it."""
        found = self._directory(path) if is_dir else self._of_file(path)
        if found.kind != "generated" or is_dir or not GENERATED.isdisjoint(path.split("/")):
            return found
        acts = is_lever(path) if is_git_internal(path) else is_protected(path)
        return REVIEWED if acts else found

    def _of_file(self, path: str) -> PathClass:
        directory, _, name = path.rpartition("/")
        above = self._directory(directory or ".")
        if above.kind != "reviewed":
            return above
        if above.mixed:
            return REVIEWED if self._tracked().holds(to_os(path)) else PathClass("generated", path, above.root)
        if is_git_internal(name):
            return PathClass("git", path, path)
        if self._is_ignored(directory, name, False) and not self._tracked().holds(to_os(path)):
            return PathClass("generated", path, _scattered(name, path))
        return REVIEWED

    def _directory(self, path: str) -> PathClass:
        missing = []
        while (known := self._directories.get(path)) is None:
            missing.append(path)
            path = path.rpartition("/")[0] or "."
        for each in reversed(missing):
            known = self._directories[each] = self._found(each, known)
        return known

    def _found(self, path: str, above: PathClass) -> PathClass:
        """The class of a directory in one of the class `above`."""
        directory, _, name = path.rpartition("/")
        if above.kind != "reviewed":
            return above
        if is_git_internal(name):
            return PathClass("git", path, path)
        if not (above.mixed or name in GENERATED or self._is_ignored(directory, name, True)):
            return REVIEWED
        root = above.root or (f"**/{name}" if name in _SCATTERED else path)
        if self._tracked().holds_below(to_os(path)):
            return PathClass("reviewed", "", root, mixed=True)
        return PathClass("generated", path, root)

    def _is_ignored(self, directory: str, name: str, is_dir: bool) -> bool:
        rules = self._ignored.get(directory)
        if rules is None:
            rules = self._ignored[directory] = self._within(directory or ".")
        return rules(name, is_dir)


def _scattered(name: str, path: str) -> str:
    """Files that are ignored by themselves are decided by their suffix."""
    stem, dot, suffix = name.rpartition(".")
    return f"**/*.{suffix}" if stem and dot else path


def is_lever(path: str) -> bool:
    """Whether a file below (or in place of) a `.git` makes git run or trust something."""
    parts = [folded(part) for part in path.split("/")]
    git = next((at for at, part in enumerate(parts) if is_git_internal(part)), None)
    if git is None:
        return False
    return _is_lever_inside(parts[git + 1 :])


def _is_lever_inside(inside: list[str]) -> bool:
    if not inside or inside[0] in {"refs", "logs", "objects"}:
        return not inside or inside in (["objects", "info", "alternates"], ["objects", "info", "http-alternates"])
    outer = inside[0] in {"modules", "worktrees"}
    if inside[-1] in _LEVER_FILES or inside[-1] == "hooks":
        return len(inside) == 1 or outer
    if "hooks" in inside[:-1]:
        return (inside[0] == "hooks" or outer) and not inside[-1].endswith(".sample")
    return inside[-2:] == ["info", "attributes"]
