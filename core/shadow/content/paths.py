"""Operations on the paths of a tree: walks, and lists of paths in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from core.errors import PathRefused
from core.workspace import Workspace
from core.workspace.path_status import PathKind

_Value = TypeVar("_Value")


def format_paths(paths: Sequence[str], limit: int = 5) -> str:
    """Join at most `limit` paths by commas, and count the others."""
    suffix = f" and {len(paths) - limit} more" if len(paths) > limit else ""
    return f"{', '.join(paths[:limit])}{suffix}"


def walk_directory(workspace: Workspace, path: str) -> list[tuple[str, PathKind]] | None:
    """Return a directory of the workspace and everything below it, outermost first; None if there is no directory."""
    entries: list[tuple[str, PathKind]] = [(path, "directory")]
    for above, kind in entries:
        if kind != "directory":
            continue
        try:
            entries += [(f"{above}/{entry.name}", entry.kind) for entry in workspace.list_dir(above)]
        except PathRefused:
            return None
    return entries


def collect_directories(paths: Iterable[str]) -> set[str]:
    """Return the directories above the paths, without the root."""
    directories: set[str] = set()
    for path in paths:
        directory = path.rpartition("/")[0]
        while directory and directory not in directories:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    return directories


def inherit(values: dict[str, _Value], directory: str, derive: Callable[[str, _Value], _Value]) -> _Value:
    """Return the value of a directory ("." = the root, which is in `values`), derived once from its parent's value."""
    missing = []
    while (value := values.get(directory)) is None:
        missing.append(directory)
        directory = directory.rpartition("/")[0] or "."
    for child in reversed(missing):
        value = values[child] = derive(child, value)
    return value


class AnyAncestor(Struct, eq=False):
    """A predicate: True if `covers` is true for a directory above a path. The result is cached by directory."""

    covers: Callable[[str], bool]
    _known: dict[str, bool] = field(default_factory=lambda: {".": False})

    def __call__(self, path: str) -> bool:
        directory = path.rpartition("/")[0] or "."
        return inherit(self._known, directory, lambda ancestor, above: above or self.covers(ancestor))
