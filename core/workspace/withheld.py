"""Which paths of the workspace a command must not be able to read: what `.cursorignore` or a rule keeps from the agent,
and secrets that git ignores.

Commands start often and trees are large, so what was found in a directory holds until the directory or a file with
rules changes: a second look costs one `stat` a directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from msgspec import Struct

from core.workspace.ignore import IgnoreRules
from core.workspace.secret_names import is_secret, may_be_secret
from core.workspace.tree import Workspace

RULES = frozenset({".cursorignore", ".gitignore"})
# What a rule of the user's says of reading a path; None: no rule speaks of it.
Verdict = Callable[[str], bool | None]
_Signature = tuple[int, int, int]


class _Directory(Struct):
    """What one look into a directory found: paths below the workspace. `rules`: files that say what is ignored."""

    signature: _Signature
    withheld: list[str]
    deeper: list[str]
    rules: list[str]


def _no_rule(_: str) -> bool | None:
    return None


class Withheld:
    """The paths that are kept from commands. `may_read` is asked first, for every file."""

    def __init__(self, workspace: Workspace, ignore: IgnoreRules, may_read: Verdict = _no_rule) -> None:
        self._root = str(workspace.root)
        self._ignore = ignore
        self._may_read = may_read
        self._known: dict[str, _Directory] = {}
        self._rules: dict[str, _Signature | None] | None = None

    def forget(self) -> None:
        """The user's rules have changed."""
        self._known.clear()

    def paths(self) -> tuple[str, ...]:
        """Workspace-relative and sorted, a directory in place of all that is below it."""
        found = list(self._below(""))
        if self._rules_changed():
            self._known.clear()
            found = list(self._below(""))
            self._rules_changed()
        return tuple(sorted(found))

    def _rules_changed(self) -> bool:
        """Whether files with rules have come, gone or changed since this was asked last; at first they have not."""
        names = [".git/info/exclude", *(name for known in self._known.values() for name in known.rules)]
        now = {name: _signature(f"{self._root}/{name}") for name in names}
        before, self._rules = self._rules, now
        return before is not None and before != now

    def _below(self, above: str) -> Iterator[str]:
        """Depth first; `above` is "" or ends in a slash."""
        signature = _signature(f"{self._root}/{above}")
        if signature is None:
            self._known.pop(above, None)
            return
        known = self._known.get(above)
        if known is None or known.signature != signature:
            known = self._known[above] = self._look(above, signature)
        yield from known.withheld
        for directory in known.deeper:
            yield from self._below(directory)

    def _look(self, above: str, signature: _Signature) -> _Directory:
        found = _Directory(signature, [], [], [])
        try:
            with os.scandir(f"{self._root}/{above}") as entries:
                names = sorted((each.name, each.is_dir(follow_symlinks=False)) for each in entries)
        except OSError:
            return found
        directory = above.removesuffix("/") or "."
        is_withheld = self._ignore.withheld_within(directory)
        is_ignored = self._ignore.within(directory)
        for name, is_dir in names:
            path = above + name
            if name in RULES:
                found.rules.append(path)
            if is_withheld(name, is_dir) or self._is_kept(path, is_dir):
                found.withheld.append(path)
            elif is_dir and path != ".git" and not is_ignored(name, True):
                found.deeper.append(f"{path}/")
        return found

    def _is_kept(self, path: str, is_dir: bool) -> bool:
        said = None if is_dir else self._may_read(path)
        if said is not None:
            return not said
        name = path.rpartition("/")[2]
        if not may_be_secret(name) or not is_secret(path, lambda rel, _: self._ignore.is_ignored(rel, is_dir)):
            return False
        # What git tracks and does not find would be a deletion to it.
        return self._ignore.is_ignored(path, is_dir) or not os.path.lexists(f"{self._root}/.git")


def _signature(path: str) -> _Signature | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def withheld_paths(workspace: Workspace, ignore: IgnoreRules | None = None) -> tuple[str, ...]:
    """One look without rules of the user's."""
    return Withheld(workspace, ignore or IgnoreRules(workspace)).paths()
