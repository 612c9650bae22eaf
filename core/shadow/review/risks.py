"""Risks of a pending path that come from its surroundings, in the tree with all pending changes.

A name alone does not reveal that git takes a directory for a repository or reads hooks from it, or that a link with
another name leads to it. A change is checked when it is recorded, and all pending changes again when the tree changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from msgspec.structs import replace

from core import user_dirs
from core.errors import ContentLost, PathRefused
from core.git.executed_programs import find_executed_paths, list_deciding_files
from core.protocol.events import AnyEvent, ChangeRevised
from core.protocol.paths import is_below, list_parents
from core.protocol.renames import find_renames
from core.protocol.review import WRITE_DENIED, Change, FileState
from core.shadow.content.paths import collect_directories
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.review.protected_references import ProtectedReferences
from core.shadow.review.write_rules import LoadRules, WriteRules
from core.workspace.file_names import from_os_name, is_git_internal
from core.workspace.protected_files import find_file_risk, may_hold_protected

_LEADS_OUT = "points outside the project: what is written to it ends up elsewhere"
_OF_A_REPOSITORY = {"HEAD", "config", "commondir", "hooks", "info", "objects", "packed-refs", "refs"}
_MAX_DIRECTORIES = 400
_MAX_LINKS = 400
_READ_BY_GIT = (".git/config", ".git/config.worktree", ".git/hooks")


class Risks:
    """The risks of one session's pending changes. `emit` logs newly protected changes; `load_rules` returns the user's
    rules."""

    def __init__(self, tree: MergedTree, emit: Callable[[AnyEvent], None], load_rules: LoadRules) -> None:
        self.tree, self.emit = tree, emit
        self.write_rules = WriteRules(tree, load_rules, self._list_links)
        self._root, self._state = self.tree.workspace.root, self.tree.state
        settings = user_dirs.get_config_dir().resolve()  # "" = not in the project
        self._settings = settings.relative_to(self._root).as_posix() if settings.is_relative_to(self._root) else ""
        self._by_git: dict[str, str] = {}
        self._references = ProtectedReferences(tree)
        self._marks: dict[str, int] = {}

    def refresh(self) -> None:
        """Protect the changes that their surroundings make risky, until they are decided."""
        if not self._state.changes:
            return
        with self.tree.cache_lookups():
            denials = self.write_rules.find_denials(self._state.changes)
            self._refresh_surroundings()
        self.tree.contents.risks_by_path |= denials
        for change in list(self._state.changes.values()):
            if (denial := denials.get(change.path, "")) and change.risk != denial:
                self.emit(ChangeRevised(change=replace(change, protected=True, risk=denial)))
            elif not denial and change.is_denied:
                self._forget_denial(change)

    def _forget_denial(self, change: Change) -> None:
        """Reset a change to the risk of its name, as the rule that denied it is gone."""
        with suppress(ContentLost):
            file_risk = find_file_risk(change.path, *self.tree.contents.read_change(change))
            is_protected, risk = (file_risk.is_protected, file_risk.risk) if file_risk else (False, "")
            self.tree.contents.risks_by_path.pop(change.path, None)
            self.emit(ChangeRevised(change=replace(change, protected=is_protected, risk=risk)))

    def _refresh_surroundings(self) -> None:
        previous_risks = {
            path: risk for path, risk in self.tree.contents.risks_by_path.items() if not risk.startswith(WRITE_DENIED)
        }
        waiting = [
            change for change in self._state.changes.values() if not change.protected or change.path in previous_risks
        ]
        aliases, by_git = self._find_aliases(), self._find_read_by_git()
        by_git = self._references.find(self._state.changes.values(), by_git) | by_git
        is_bare = cache(lambda path: not is_git_internal(path) and self.tree.is_bare_repository(path))
        risks = {
            change.path: self._find_risk(change, aliases, by_git, is_bare) or previous_risks.get(change.path, "")
            for change in waiting
        }
        self._add_renames(risks)
        self.tree.contents.risks_by_path = {path: risk for path, risk in risks.items() if risk}
        for change in waiting:
            if risks[change.path] and not change.protected:
                self.emit(ChangeRevised(change=replace(change, protected=True, risk=risks[change.path])))

    def _add_renames(self, risks: dict[str, str]) -> None:
        """Protect a rename if one of its paths is protected."""
        changes = self._state.changes
        for pair in find_renames(changes).items():
            for one, other in (pair, pair[::-1]):
                risk = risks.get(other) or (changes[other].protected and (changes[other].risk or "is protected"))
                if risk and not risks.get(one, "protected"):
                    risks[one] = f"{risk} (it is one rename with {other})"

    def _find_risk(
        self,
        change: Change,
        aliases: list[tuple[str, str]],
        by_git: dict[str, str],
        is_bare: Callable[[str], bool],
    ) -> str:
        path = change.path
        if change.pending.kind == "symlink" and (risk := self._find_link_risk(path, change.pending)):
            return risk
        if risk := next((risk for git_path, risk in by_git.items() if is_below(path, git_path)), ""):
            return risk
        if is_below(path, self._settings):
            return "configures this program for all your projects: your settings link here"
        for target, link in aliases:
            if is_below(path, target):
                alias = f"{link}/{path}" if target == "." else link + path[len(target) :]
                if (file_risk := find_file_risk(alias)) and file_risk.is_protected:
                    return f"{file_risk.risk} (it is {alias} as well)"
        inside = next(filter(is_bare, list_parents(path)), "")
        if not inside and path.split("/")[0] in _OF_A_REPOSITORY and is_bare("."):
            inside = "the project itself"
        return f"makes git run its contents: git takes {inside} for a repository" if inside else ""

    # links

    def _find_link_risk(self, path: str, state: FileState) -> str:
        target = self.tree.contents.read(state).decode("utf-8", "surrogateescape")
        try:
            if not target.startswith("/"):
                destination = self.tree.resolve_links(f"{path.rpartition('/')[0] or '.'}/{target}")
            elif f"{target}/".startswith(f"{self._root}/"):
                destination = self.tree.resolve_links(target.removeprefix(f"{self._root}/").strip("/") or ".")
            else:
                return _LEADS_OUT
        except PathRefused:
            return _LEADS_OUT
        return "points into git's own directory" if is_git_internal(destination) else ""

    def _find_aliases(self) -> list[tuple[str, str]]:
        """Return links with protected names and their targets, including those reached through another link."""
        aliases: dict[tuple[str, str], None] = {}
        links = list(dict.fromkeys(self._list_links()))
        waiting = [(link, link) for link in links]  # the link's path, and the name under which it is reached
        for link, name in waiting:  # the loop appends to it
            file_risk = find_file_risk(name) or find_file_risk(f"{name}/x")
            if not (file_risk is not None and file_risk.is_protected) and not may_hold_protected(name):
                continue
            try:
                target = self.tree.resolve_links(link)
            except PathRefused:
                continue
            if target == link or (target, name) in aliases:
                continue
            aliases[target, name] = None
            below = (path for path, is_link in self._list_entries(target) if is_link)
            inside = dict.fromkeys((*below, *(other_link for other_link in links if is_below(other_link, target))))
            if target != "." and len(waiting) < len(links) + _MAX_LINKS:
                waiting += [(inner_link, name + inner_link.removeprefix(target)) for inner_link in inside]
        return list(aliases)

    def _list_links(self) -> Iterator[str]:
        """Yield pending links, and those in the directories of pending paths and in protected top-level directories."""
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
        """Yield the links and directories in a directory of the project, with True for links."""
        try:
            with (
                self.tree.workspace.open_parent(f"{directory}/x") as (descriptor, _),
                os.scandir(descriptor) as entries,
            ):
                for entry in entries:
                    if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
                        name = from_os_name(os.fsencode(entry.name))
                        yield name if directory == "." else f"{directory}/{name}", entry.is_symlink()
        except OSError:
            return

    # files that git runs

    def _find_read_by_git(self) -> dict[str, str]:
        """Return the paths of the project from which git reads what it runs or obeys, with descriptions."""
        if self._marks != self._read_marks():
            self._by_git = find_executed_paths(self._root)
            self._marks = self._read_marks()
        return self._by_git

    def _read_marks(self) -> dict[str, int]:
        """Return when these paths were changed (ns since 1970; 0: there is nothing)."""
        marks = dict.fromkeys((*_READ_BY_GIT, *list_deciding_files(self._root), *self._by_git), 0)
        for path in marks:
            with suppress(OSError):
                marks[path] = (self._root / path).lstat().st_ctime_ns
        return marks
