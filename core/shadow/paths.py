"""Paths of a tree, states of the disk as the base of a change, and the changes that are promoted together.

Where a directory gives way to a file, the directory counts as absent once all of its files are pending deletions; so
does everything behind a link, once the link is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from core.errors import PathRefused
from core.protocol.events import Notice
from core.protocol.renames import find_renames
from core.protocol.review import Change, FileState
from core.shadow.content.contents import Contents
from core.state.review import ReviewState
from core.workspace import ABSENT, Workspace
from core.workspace.tree import PathKind

_MAX_NAMED = 5


class DiskStates:
    """Read states of the workspace and store their bytes."""

    def __init__(self, workspace: Workspace, contents: Contents, state: ReviewState) -> None:
        self._workspace = workspace
        self._contents = contents
        self._state = state

    def read(self, path: str) -> FileState:
        """Return the state of a path. Raises `PathRefused` for what is no file, no link and no emptied directory."""
        try:
            return self._contents.store(*self._workspace.read_state(path))
        except PathRefused as error:
            if error.code == "not_a_file" and self._is_emptied_directory(path):
                return ABSENT
            if error.code == "path_escapes" and self._is_behind_deleted_link(path):
                return ABSENT
            raise

    def _is_behind_deleted_link(self, path: str) -> bool:
        changes = self._state.changes
        return any(each in changes and is_deletion(changes[each]) for each in list_parents(path))

    def _is_emptied_directory(self, path: str) -> bool:
        below = walk_directory(self._workspace, path)
        changes = self._state.changes
        return below is not None and all(
            kind == "directory" or (each in changes and is_deletion(changes[each])) for each, kind in below
        )


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


def group_for_promotion(changes: Mapping[str, Change], chosen: Iterable[Change], *, apart: str = "") -> list[Change]:
    """Return the chosen changes with the deletions that make way for them and the other paths of renames, deletions
    first.

    `apart`: a path of which only a part is meant, so that it is no rename. A protected change brings only its own
    rename along.
    """
    found = {change.path: change for change in chosen}
    others, meant = _map_rename_pairs(changes, apart), frozenset(found)
    waiting = list(found.values())
    while waiting:
        change = waiting.pop()
        more = _find_blocking_deletions(changes, change)
        other = others.get(change.path, "")
        if other and (change.path in meant or not changes[other].protected):
            more.add(other)
        for path in more - found.keys():
            found[path] = changes[path]
            waiting.append(changes[path])
    return sort_deletions_first(found.values())


def include_rename_pairs(changes: Mapping[str, Change], chosen: Iterable[Change], *, apart: str = "") -> list[Change]:
    """Return the chosen changes with the other paths of renames, deletions first; see `group_for_promotion`."""
    found = {change.path: change for change in chosen}
    others = _map_rename_pairs(changes, apart)
    found |= {others[path]: changes[others[path]] for path in list(found) if path in others}
    return sort_deletions_first(found.values())


def sort_deletions_first(changes: Iterable[Change]) -> list[Change]:
    """Sort changes: deletions first, then by path."""
    return sorted(changes, key=lambda change: (not is_deletion(change), change.path))


def _map_rename_pairs(changes: Mapping[str, Change], apart: str) -> dict[str, str]:
    pairs = [pair for pair in find_renames(changes).items() if apart not in pair]
    return dict(pairs) | {old: new for new, old in pairs}


def _find_blocking_deletions(changes: Mapping[str, Change], change: Change) -> set[str]:
    if change.base.kind != "absent" or change.pending.kind == "absent":
        return set()
    prefix = f"{change.path}/"
    places = {*list_parents(change.path), *(path for path in changes if path.startswith(prefix))}
    return {path for path in places & changes.keys() if is_deletion(changes[path])}


def is_deletion(change: Change) -> bool:
    """True if nothing, or only a directory, is to be left at the path."""
    return change.pending.kind == "absent"


def build_hard_link_notices(workspace: Workspace, paths: Iterable[str]) -> list[Notice]:
    """Build the notice about files with hard links that are about to be replaced: the other names keep the old
    content."""
    found = []
    for path in paths:
        with suppress(PathRefused):
            stats = workspace.stat(path)
            if stats is not None and stats.kind == "file" and stats.links > 1:
                found.append(path)
    if not found:
        return []
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    return [
        Notice(
            level="info",
            message=f"{', '.join(found[:_MAX_NAMED])}{more} had other names (hard links).",
            hint="Only what was accepted has the new content; the other names keep the old one.",
        )
    ]
