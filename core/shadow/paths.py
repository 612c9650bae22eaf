"""Paths of a tree: their parents, everything below a directory, and lists of them in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from core.errors import PathRefused
from core.workspace import Workspace
from core.workspace.path_status import PathKind


def format_paths(paths: Sequence[str], most: int = 5) -> str:
    """Join at most `most` paths by commas, and count the others."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return f"{', '.join(paths[:most])}{more}"


def walk_directory(workspace: Workspace, path: str) -> list[tuple[str, PathKind]] | None:
    """Return a directory of the workspace and everything below it, outermost first; None if there is no directory."""
    found: list[tuple[str, PathKind]] = [(path, "directory")]
    for above, kind in found:
        if kind != "directory":
            continue
        try:
            found += [(f"{above}/{each.name}", each.kind) for each in workspace.list_dir(above)]
        except PathRefused:
            return None
    return found


def list_parents(path: str) -> list[str]:
    """Return the directories that a path lies in, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def collect_directories(paths: Iterable[str]) -> set[str]:
    """Return the directories that the paths lie in, without the top."""
    found: set[str] = set()
    for path in paths:
        directory = path.rpartition("/")[0]
        while directory and directory not in found:
            found.add(directory)
            directory = directory.rpartition("/")[0]
    return found


class AnyAncestor:
    """A predicate: True if `covers` holds for one of a path's directories. Each directory is asked about once."""

    def __init__(self, covers: Callable[[str], bool]) -> None:
        self._covers = covers
        self._known = {"": False}

    def __call__(self, path: str) -> bool:
        directory = path.rpartition("/")[0]
        missing = []
        while (found := self._known.get(directory)) is None:
            missing.append(directory)
            directory = directory.rpartition("/")[0]
        for each in reversed(missing):
            found = self._known[each] = found or self._covers(each)
        return found
