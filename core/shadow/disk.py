"""What the project has at a path, as the base of a change; and which changes can only be promoted together.

Where a directory gives way to a file, the directory counts as absent once all of its files are pending deletions; so
does all that is reached through a link, once the link is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from core.errors import PathRefused
from core.protocol.events import Notice
from core.protocol.moves import renames
from core.protocol.review import Change, FileState
from core.shadow.contents import Contents
from core.shadow.review import ReviewState
from core.workspace import ABSENT, Workspace
from core.workspace.tree import Kind

_NAMED = 5


class Disk:
    """Reads states of the workspace and keeps their bytes."""

    def __init__(self, workspace: Workspace, contents: Contents, state: ReviewState) -> None:
        self._workspace = workspace
        self._contents = contents
        self._state = state

    def state(self, path: str) -> FileState:
        """`PathRefused` for what is no file, no link and no directory that is given up."""
        try:
            return self._contents.keep(*self._workspace.state_of(path))
        except PathRefused as error:
            if error.code == "not_a_file" and self._is_given_up(path):
                return ABSENT
            if error.code == "path_escapes" and self._passes_what_is_given_up(path):
                return ABSENT
            raise

    def _passes_what_is_given_up(self, path: str) -> bool:
        changes = self._state.changes
        return any(each in changes and is_deletion(changes[each]) for each in above(path))

    def _is_given_up(self, path: str) -> bool:
        below = walked(self._workspace, path)
        changes = self._state.changes
        return below is not None and all(
            kind == "directory" or (each in changes and is_deletion(changes[each])) for each, kind in below
        )


def walked(workspace: Workspace, path: str) -> list[tuple[str, Kind]] | None:
    """A directory of the workspace and all below it, outermost first; None: there is no directory."""
    found: list[tuple[str, Kind]] = [(path, "directory")]
    for above, kind in found:
        if kind != "directory":
            continue
        try:
            found += [(f"{above}/{each.name}", each.kind) for each in workspace.list_dir(above)]
        except PathRefused:
            return None
    return found


def above(path: str) -> list[str]:
    """The directories that a path lies in, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def directories_of(paths: Iterable[str]) -> set[str]:
    """The directories that the paths lie in, without the top."""
    found: set[str] = set()
    for path in paths:
        directory = path.rpartition("/")[0]
        while directory and directory not in found:
            found.add(directory)
            directory = directory.rpartition("/")[0]
    return found


class Within:
    """Whether a path lies in one of the directories that `covers` holds for; it is asked about each of them once."""

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


def together(changes: Mapping[str, Change], chosen: Iterable[Change], *, apart: str = "") -> list[Change]:
    """The chosen changes with the deletions that make way for them and the other paths of renames, deletions first.
    `apart`: a path of which only a part is meant, so that it is no rename. What is protected comes with none but its
    own rename."""
    found = {change.path: change for change in chosen}
    others, meant = _other_paths(changes, apart), frozenset(found)
    waiting = list(found.values())
    while waiting:
        change = waiting.pop()
        more = _in_the_way(changes, change)
        other = others.get(change.path, "")
        if other and (change.path in meant or not changes[other].protected):
            more.add(other)
        for path in more - found.keys():
            found[path] = changes[path]
            waiting.append(changes[path])
    return in_order(found.values())


def both_paths(changes: Mapping[str, Change], chosen: Iterable[Change], *, apart: str = "") -> list[Change]:
    """The chosen changes with the other paths of renames, deletions first; see `together`."""
    found = {change.path: change for change in chosen}
    others = _other_paths(changes, apart)
    found |= {others[path]: changes[others[path]] for path in list(found) if path in others}
    return in_order(found.values())


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Deletions first, then by path."""
    return sorted(changes, key=lambda change: (not is_deletion(change), change.path))


def _other_paths(changes: Mapping[str, Change], apart: str) -> dict[str, str]:
    pairs = [pair for pair in renames(changes).items() if apart not in pair]
    return dict(pairs) | {old: new for new, old in pairs}


def _in_the_way(changes: Mapping[str, Change], change: Change) -> set[str]:
    if change.base.kind != "absent" or change.pending.kind == "absent":
        return set()
    prefix = f"{change.path}/"
    places = {*above(change.path), *(path for path in changes if path.startswith(prefix))}
    return {path for path in places & changes.keys() if is_deletion(changes[path])}


def is_deletion(change: Change) -> bool:
    """Whether a path is to be nothing, or only a directory."""
    return change.pending.kind == "absent"


def parted(workspace: Workspace, paths: Iterable[str]) -> list[Notice]:
    """What is to be said of files that are about to be replaced and have other names: these keep the old content."""
    found = []
    for path in paths:
        with suppress(PathRefused):
            stats = workspace.stat(path)
            if stats is not None and stats.kind == "file" and stats.links > 1:
                found.append(path)
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [
        Notice(
            level="info",
            message=f"{', '.join(found[:_NAMED])}{more} had other names (hard links).",
            hint="Only what was accepted has the new content; the other names keep the old one.",
        )
    ]
