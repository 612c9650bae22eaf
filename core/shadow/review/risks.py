"""Risks of a pending path that come from its surroundings, seen in the tree as it would be.

A name alone does not tell that git takes a directory for a repository, that hooks are taken from it, or that a link of
another name leads to it. A change is checked when it is made, and all that are pending again when the tree is another
one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from core import user_dirs
from core.errors import PathRefused
from core.git.executed_paths import find_executed_paths
from core.protocol.renames import find_renames
from core.protocol.review import Change, FileState
from core.shadow.content.contents import Contents
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.paths import collect_directories, list_parents
from core.workspace import Workspace
from core.workspace.file_names import from_os_name, is_git_internal
from core.workspace.protected_files import find_file_risk, may_hold_protected

_BARE: tuple[str, ...] = ("HEAD", "objects", "refs")
_OF_A_REPOSITORY = {"HEAD", "config", "commondir", "hooks", "info", "objects", "packed-refs", "refs"}
_MAX_DIRECTORIES = 400  # directories
_MAX_LINKS = 400  # links
_READ_BY_GIT = (".git/config", ".git/config.worktree", ".git/hooks")


class Risks:
    """The risks of one session's pending changes."""

    def __init__(self, workspace: Workspace, contents: Contents, tree: MergedTree) -> None:
        self._workspace = workspace
        self._contents = contents
        self._tree = tree
        self._state = tree.state
        self._settings = _get_path_inside(user_dirs.get_config_dir(), workspace.root)
        self._by_git: dict[str, str] = {}
        self._marks: dict[str, int] = {}

    def find_revised(self) -> list[Change]:
        """Return the pending changes that have become protected by their surroundings; those that were, stay so as long
        as they are pending (`Contents.risks_by_path`)."""
        known = self._contents.risks_by_path
        waiting = [each for each in self._state.changes.values() if not each.protected or each.path in known]
        if not waiting:
            return []
        aliases, bare = self._find_aliases(), self._find_bare_repositories()
        found = {each.path: self._find_risk(each, aliases, bare) or known.get(each.path, "") for each in waiting}
        self._add_renames(found)
        self._contents.risks_by_path = {path: risk for path, risk in found.items() if risk}
        return [
            replace(each, protected=True, risk=found[each.path])
            for each in waiting
            if found[each.path] and not each.protected
        ]

    def _add_renames(self, found: dict[str, str]) -> None:
        """Protect a rename if one of its paths is protected."""
        changes = self._state.changes
        for pair in find_renames(changes).items():
            for one, other in (pair, pair[::-1]):
                red = found.get(other) or (changes[other].protected and (changes[other].risk or "is protected"))
                if red and not found.get(one, "red"):
                    found[one] = f"{red} (it is one rename with {other})"

    def _find_risk(self, change: Change, aliases: list[tuple[str, str]], bare: frozenset[str]) -> str:
        path = change.path
        if change.pending.kind == "symlink" and (risk := self._find_link_risk(path, change.pending)):
            return risk
        if by_git := next((risk for at, risk in self._find_read_by_git().items() if _is_inside(path, at)), ""):
            return by_git
        if _is_inside(path, self._settings):
            return "says what this program does, in all of your projects: your settings lead here"
        for place, link in aliases:
            if _is_inside(path, place):
                alias = f"{link}/{path}" if place == "." else link + path[len(place) :]
                lever = find_file_risk(alias)
                if lever is not None and lever.is_protected:
                    return f"{lever.risk} (it is {alias} as well)"
        inside = next((each for each in list_parents(path) if each in bare), "") if bare else ""
        if not inside and "." in bare and path.split("/")[0] in _OF_A_REPOSITORY:
            inside = "the project itself"
        if inside:
            return f"makes git run what it says: git takes {inside} for a repository"
        return ""

    # links

    def _find_link_risk(self, path: str, state: FileState) -> str:
        target = self._contents.read(state).decode("utf-8", "surrogateescape")
        try:
            where = self._resolve_link(path, target)
        except PathRefused:
            return "leads out of the project: what is written to it lands elsewhere"
        return "leads into git's own directory" if is_git_internal(where) else ""

    def _resolve_link(self, path: str, target: str) -> str:
        """Return the path that a link leads to in the tree as it would be. Raises `PathRefused` if it leads out."""
        if target.startswith("/"):
            root = f"{self._workspace.root}/"
            if not f"{target}/".startswith(root):
                raise PathRefused(f"{path!r} leads out.", code="path_escapes")
            return self._tree.resolve_links(target.removeprefix(root).strip("/") or ".")
        return self._tree.resolve_links(f"{path.rpartition('/')[0] or '.'}/{target}")

    def _find_aliases(self) -> list[tuple[str, str]]:
        """Return links whose name is protected, with the places that they lead to; also those reached through
        another."""
        found: dict[tuple[str, str], None] = {}
        links = list(dict.fromkeys(self._list_links()))
        waiting = [(link, link) for link in links]  # where it lies, and by which name it is looked at
        for link, name in waiting:  # grows meanwhile
            lever = find_file_risk(name) or find_file_risk(f"{name}/x")
            if not (lever is not None and lever.is_protected) and not may_hold_protected(name):
                continue
            try:
                place = self._tree.resolve_links(link)
            except PathRefused:
                continue
            if place == link or (place, name) in found:
                continue
            found[place, name] = None
            below = (path for path, is_link in self._list_entries(place) if is_link)
            inside = dict.fromkeys((*below, *(each for each in links if _is_inside(each, place))))
            if place != "." and len(waiting) < len(links) + _MAX_LINKS:
                waiting += [(each, name + each.removeprefix(place)) for each in inside]
        return list(found)

    def _list_links(self) -> Iterator[str]:
        """Yield pending links, and those in the directories of pending paths and in protected ones of the top."""
        for path, change in self._state.changes.items():
            if change.pending.kind == "symlink":
                yield path
        waiting = [".", *sorted(collect_directories(self._state.changes))]
        for directory in dict.fromkeys(waiting[:_MAX_DIRECTORIES]):
            for path, is_link in self._list_entries(directory):
                if is_link:
                    yield path
                elif directory == "." and path.startswith(".") and not is_git_internal(path):
                    yield from (below for below, is_one in self._list_entries(path) if is_one)

    def _list_entries(self, directory: str) -> Iterator[tuple[str, bool]]:
        """Yield the links and directories in a directory of the project, and True for links."""
        try:
            with self._workspace.open_parent(f"{directory}/x") as (descriptor, _), os.scandir(descriptor) as entries:
                for each in entries:
                    if each.is_symlink() or each.is_dir(follow_symlinks=False):
                        name = from_os_name(os.fsencode(each.name))
                        yield name if directory == "." else f"{directory}/{name}", each.is_symlink()
        except OSError:
            return

    # repositories without a worktree

    def _find_bare_repositories(self) -> frozenset[str]:
        """Return the directories of pending paths that git takes for a repository."""
        places = {".", *collect_directories(self._state.changes)}
        return frozenset(each for each in places if self._is_bare(each))

    def _is_bare(self, directory: str) -> bool:
        if is_git_internal(directory):
            return False
        head, *others = (self._tree.find_node(name if directory == "." else f"{directory}/{name}") for name in _BARE)
        return head is not None and all(each is not None and each.kind == "directory" for each in others)

    # what git runs

    def _find_read_by_git(self) -> dict[str, str]:
        """Return the places of the project from which git takes what it runs or obeys, with a description of each."""
        marks = {each: _read_ctime(self._workspace.root / each) for each in (*_READ_BY_GIT, *self._by_git)}
        if marks != self._marks:
            self._by_git = find_executed_paths(self._workspace.root)
            self._marks = {each: _read_ctime(self._workspace.root / each) for each in (*_READ_BY_GIT, *self._by_git)}
        return self._by_git


def _get_path_inside(place: Path, root: Path) -> str:
    """Return the real path of a directory in the project; "" = not in it."""
    where = place.resolve()
    return where.relative_to(root).as_posix() if where.is_relative_to(root) else ""


def _read_ctime(path: Path) -> int:
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return 0


def _is_inside(path: str, place: str) -> bool:
    """True if a path is a place or lies below it; "." = the project, "" = no place."""
    return place in (".", path) or path.startswith(f"{place}/")
