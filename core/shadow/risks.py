"""What a pending path makes happen because of what stands around it: seen in the tree as it would be.

A name alone does not tell that git takes a directory for a repository, that hooks are taken from it, or that a link of
another name leads to it. A change is asked about when it is made, and all that wait are asked about again when the tree
is another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from core import user_dirs
from core.errors import PathRefused
from core.git.reached import reached
from core.protocol.moves import renames
from core.protocol.review import Change, FileState
from core.shadow.contents import Contents
from core.shadow.disk import above, directories_of
from core.shadow.review import ReviewState
from core.shadow.seen import Seen
from core.workspace import Workspace
from core.workspace.levers import begins_a_red_name, lever_of
from core.workspace.names import from_os, is_git_internal

_BARE: tuple[str, ...] = ("HEAD", "objects", "refs")
_OF_A_REPOSITORY = {"HEAD", "config", "commondir", "hooks", "info", "objects", "packed-refs", "refs"}
_LOOKED_INTO = 400  # directories
_FOLLOWED = 400  # links
_READ_BY_GIT = (".git/config", ".git/config.worktree", ".git/hooks")


class Risks:
    """For one session."""

    def __init__(self, workspace: Workspace, contents: Contents, seen: Seen, state: ReviewState) -> None:
        self._workspace = workspace
        self._contents = contents
        self._seen = seen
        self._state = state
        self._settings = _below(user_dirs.config_dir(), workspace.root)
        self._by_git: dict[str, str] = {}
        self._marks: dict[str, int] = {}

    def revised(self) -> list[Change]:
        """The pending changes that have become red by what stands around them; those that were, stay so as long as they
        wait (`Contents.around`)."""
        known = self._contents.around
        waiting = [each for each in self._state.changes.values() if not each.protected or each.path in known]
        if not waiting:
            return []
        aliases, bare = self._aliases(), self._bare()
        found = {each.path: self._risk(each, aliases, bare) or known.get(each.path, "") for each in waiting}
        self._add_renames(found)
        self._contents.around = {path: risk for path, risk in found.items() if risk}
        return [
            replace(each, protected=True, risk=found[each.path])
            for each in waiting
            if found[each.path] and not each.protected
        ]

    def _add_renames(self, found: dict[str, str]) -> None:
        """A rename is red if one of its paths is."""
        changes = self._state.changes
        for pair in renames(changes).items():
            for one, other in (pair, pair[::-1]):
                red = found.get(other) or (changes[other].protected and (changes[other].risk or "is protected"))
                if red and not found.get(one, "red"):
                    found[one] = f"{red} (it is one rename with {other})"

    def _risk(self, change: Change, aliases: list[tuple[str, str]], bare: frozenset[str]) -> str:
        path = change.path
        if change.pending.kind == "symlink" and (risk := self._of_link(path, change.pending)):
            return risk
        if by_git := next((risk for at, risk in self._reached().items() if _is_at(path, at)), ""):
            return by_git
        if _is_at(path, self._settings):
            return "says what this program does, in all of your projects: your settings lead here"
        for place, link in aliases:
            if _is_at(path, place):
                alias = f"{link}/{path}" if place == "." else link + path[len(place) :]
                lever = lever_of(alias)
                if lever is not None and lever.is_red:
                    return f"{lever.risk} (it is {alias} as well)"
        inside = next((each for each in above(path) if each in bare), "") if bare else ""
        if not inside and "." in bare and path.split("/")[0] in _OF_A_REPOSITORY:
            inside = "the project itself"
        if inside:
            return f"makes git run what it says: git takes {inside} for a repository"
        return ""

    # links

    def _of_link(self, path: str, state: FileState) -> str:
        target = self._contents.data(state).decode("utf-8", "surrogateescape")
        try:
            where = self._led_to(path, target)
        except PathRefused:
            return "leads out of the project: what is written to it lands elsewhere"
        return "leads into git's own directory" if is_git_internal(where) else ""

    def _led_to(self, path: str, target: str) -> str:
        """Where a link leads over the tree as it would be; `PathRefused`: out."""
        if target.startswith("/"):
            root = f"{self._workspace.root}/"
            if not f"{target}/".startswith(root):
                raise PathRefused(f"{path!r} leads out.", code="path_escapes")
            return self._seen.canonical(target.removeprefix(root).strip("/") or ".")
        return self._seen.canonical(f"{path.rpartition('/')[0] or '.'}/{target}")

    def _aliases(self) -> list[tuple[str, str]]:
        """Links whose name is red, with the places that they lead to; also those that are reached through another."""
        found: dict[tuple[str, str], None] = {}
        links = list(dict.fromkeys(self._links()))
        waiting = [(link, link) for link in links]  # where it lies, and by which name it is looked at
        for link, name in waiting:  # grows meanwhile
            lever = lever_of(name) or lever_of(f"{name}/x")
            if not (lever is not None and lever.is_red) and not begins_a_red_name(name):
                continue
            try:
                place = self._seen.canonical(link)
            except PathRefused:
                continue
            if place == link or (place, name) in found:
                continue
            found[place, name] = None
            below = (path for path, is_link in self._listed(place) if is_link)
            inside = dict.fromkeys((*below, *(each for each in links if _is_at(each, place))))
            if place != "." and len(waiting) < len(links) + _FOLLOWED:
                waiting += [(each, name + each.removeprefix(place)) for each in inside]
        return list(found)

    def _links(self) -> Iterator[str]:
        """Links that wait, and those in the directories of what waits and in red ones of the top."""
        for path, change in self._state.changes.items():
            if change.pending.kind == "symlink":
                yield path
        waiting = [".", *sorted(directories_of(self._state.changes))]
        for directory in dict.fromkeys(waiting[:_LOOKED_INTO]):
            for path, is_link in self._listed(directory):
                if is_link:
                    yield path
                elif directory == "." and path.startswith(".") and not is_git_internal(path):
                    yield from (below for below, is_one in self._listed(path) if is_one)

    def _listed(self, directory: str) -> Iterator[tuple[str, bool]]:
        """The links and directories in a directory of the project; whether each is a link."""
        try:
            with self._workspace.directory(f"{directory}/x") as (descriptor, _), os.scandir(descriptor) as entries:
                for each in entries:
                    if each.is_symlink() or each.is_dir(follow_symlinks=False):
                        name = from_os(os.fsencode(each.name))
                        yield name if directory == "." else f"{directory}/{name}", each.is_symlink()
        except OSError:
            return

    # repositories without a worktree

    def _bare(self) -> frozenset[str]:
        """Directories of what waits that git takes for a repository."""
        places = {".", *directories_of(self._state.changes)}
        return frozenset(each for each in places if self._is_bare(each))

    def _is_bare(self, directory: str) -> bool:
        if is_git_internal(directory):
            return False
        head, *others = (self._seen.node(name if directory == "." else f"{directory}/{name}") for name in _BARE)
        return head is not None and all(each is not None and each.kind == "directory" for each in others)

    # what git runs

    def _reached(self) -> dict[str, str]:
        """Places of the project from which git takes what it runs or obeys, with what is said of them."""
        marks = {each: _changed(self._workspace.root / each) for each in (*_READ_BY_GIT, *self._by_git)}
        if marks != self._marks:
            self._by_git = reached(self._workspace.root)
            self._marks = {each: _changed(self._workspace.root / each) for each in (*_READ_BY_GIT, *self._by_git)}
        return self._by_git


def _below(place: Path, root: Path) -> str:
    """Where a directory really is in the project; "" = not in it."""
    where = place.resolve()
    return where.relative_to(root).as_posix() if where.is_relative_to(root) else ""


def _changed(path: Path) -> int:
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return 0


def _is_at(path: str, place: str) -> bool:
    """Whether a path is a place or lies below it; "." = the project, "" = no place."""
    return place in (".", path) or path.startswith(f"{place}/")
