"""Which paths of the workspace a command must not be able to read: what `.cursorignore` or a rule keeps from the agent,
and secrets that git ignores, also those in directories that git ignores.

Commands start often and trees are large, so what was found in a directory holds until the directory or a file with
rules changes: a second look costs one `stat` a directory. Installed packages are looked at as wholes, and deeper inside
once a minute.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from core.clock import monotonic
from core.workspace.ignore import IgnoreRules
from core.workspace.secret_names import is_secret, may_be_secret
from core.workspace.tree import Workspace

RULES = frozenset({".cursorignore", ".gitignore"})
# Their subdirectories hold what registries have published: a certificate or a test's key there is none of the user's.
_INSTALLED = frozenset({"node_modules", "bower_components", "jspm_packages", "site-packages", "dist-packages"})
_MOST_ENTRIES = 500_000  # of one ignored directory; a larger one is withheld as a whole
_MOST_MASKED = 2_000  # secrets in one ignored directory
_HOLDS = 60.0  # seconds that hold what is deep in a package, and that a directory is too large
_UNSETTLED = 50_000_000  # nanoseconds in which two changes may leave the same time
# What a rule of the user's says of reading a path; None: no rule speaks of it.
Verdict = Callable[[str], bool | None]
_Signature = tuple[int, int, int]
_Matches = Callable[[str, bool], bool]


class Kept(Struct, frozen=True, kw_only=True):
    """What a command must not read, workspace-relative and sorted.

    `covered`: files, and directories with all below them, that it can neither read nor replace. `masked`: files in
    ignored directories, which it finds empty but may delete with the directory. `outside`: absolute paths that links
    with a secret's name lead to. `notes`: what was withheld as a whole because it could not be looked through.
    """

    covered: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    outside: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


class _Directory(Struct):
    """What one look into a directory found: paths below the workspace. `rules`: files that say what is ignored;
    `bound`: the directory with the nearest of them, this one or one above it.

    `whole` (an installed package): the directories below it that were looked at with it, and when that was.
    """

    signature: _Signature
    ignored: bool
    bound: str = ""
    withheld: list[str] = field(default_factory=list)
    deeper: list[str] = field(default_factory=list)
    ignored_below: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    entries: int = 0
    whole: dict[str, _Directory] = field(default_factory=dict)
    looked: float = 0.0


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
        self._too_large: dict[str, float] = {}
        self._matchers: dict[str, tuple[_Matches, _Matches]] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """The user's rules have changed."""
        self._known.clear()
        self._too_large.clear()

    def paths(self) -> Kept:
        """As the tree is now; a directory stands in place of all that is below it. Any thread may ask."""
        with self._lock:
            found = self._found()
            if self._rules_changed():
                self.forget()
                found = self._found()
                self._rules_changed()
            return found

    def _found(self) -> Kept:
        covered: set[str] = set()
        masked: set[str] = set()
        whole: list[str] = []
        seen: set[str] = set()
        waiting = [""]
        self._matchers.clear()
        while waiting:
            known = self._fresh(waiting.pop(), seen, ignored=False)
            if known is None:
                continue
            covered.update(known.withheld)
            waiting += known.deeper
            for top in known.ignored_below:
                secrets = self._in_ignored(top, seen)
                if secrets is None:
                    whole.append(top.removesuffix("/"))
                else:
                    masked.update(secrets)
        for gone in self._known.keys() - seen:
            del self._known[gone]
        return self._kept(covered, masked, sorted(whole))

    def _kept(self, covered: set[str], masked: set[str], whole: list[str]) -> Kept:
        """Links are resolved: what they lead to is the secret."""
        outside: set[str] = set()
        for path in [*covered, *masked]:
            place = Path(self._root, path)
            if not place.is_symlink():
                continue
            real = os.path.realpath(place)
            if not real.startswith(f"{self._root}/"):
                outside.update([real] if self._can_be_hidden(real) else [])
            elif (inside := real[len(self._root) + 1 :]) not in masked:
                covered.add(inside)
        directories = {path for path in masked if Path(self._root, path).is_dir()}
        covered |= directories | set(whole)
        return Kept(
            covered=tuple(sorted(covered)),
            masked=tuple(sorted(masked - covered)),
            outside=tuple(Path(path) for path in sorted(outside)),
            notes=tuple(f"Not shown to commands, being too large to be searched for secrets: {path}" for path in whole),
        )

    def _can_be_hidden(self, real: str) -> bool:
        """Not a device, nor a directory that holds the workspace or much of the machine."""
        if Path(real).is_dir():
            return real.count("/") > 1 and not f"{self._root}/".startswith(f"{real}/")
        return Path(real).is_file()

    def _rules_changed(self) -> bool:
        """Whether files with rules have come, gone or changed since this was asked last; at first they have not."""
        names = [".git/info/exclude", *(name for known in self._known.values() for name in known.rules)]
        now = {name: _signature(f"{self._root}/{name}") for name in names}
        before, self._rules = self._rules, now
        return before is not None and before != now

    def _fresh(self, above: str, seen: set[str], *, ignored: bool) -> _Directory | None:
        """What is known of a directory ("" or ending in a slash), looked at again if it has changed. None: gone."""
        signature = _signature(f"{self._root}/{above}")
        if signature is None:
            return None
        seen.add(above)
        known = self._known.get(above)
        if known is None or known.signature != signature or known.ignored != ignored:
            known = self._known[above] = self._look(above, signature, ignored=ignored)
        return known

    def _in_ignored(self, top: str, seen: set[str]) -> list[str] | None:
        """The secrets in and below an ignored directory; None: it is too large to be looked through."""
        if monotonic() < self._too_large.get(top, 0.0):
            return None
        found: list[str] = []
        entries = 0
        waiting = [top]
        while waiting:
            above = waiting.pop()
            known = self._package(above, seen) if _is_package(above) else self._fresh(above, seen, ignored=True)
            for each in (known, *known.whole.values()) if known is not None else ():
                entries += each.entries
                found += each.withheld
            if entries > _MOST_ENTRIES or len(found) > _MOST_MASKED:
                self._too_large[top] = monotonic() + _HOLDS
                return None
            if known is not None and not known.whole:
                waiting += known.deeper
        return found

    def _package(self, above: str, seen: set[str]) -> _Directory | None:
        """An installed package with all below it."""
        before = self._known.get(above)
        known = self._fresh(above, seen, ignored=True)
        if known is None or (known is before and monotonic() - known.looked < _HOLDS):
            return known
        earlier, known.whole, waiting = known.whole, {}, list(known.deeper)
        while waiting and len(known.whole) <= _MOST_ENTRIES:
            path = waiting.pop()
            signature = _signature(f"{self._root}/{path}")
            if signature is None:
                continue
            each = earlier.get(path)
            if each is None or each.signature != signature:
                each = self._look(path, signature, ignored=True)
            known.whole[path] = each
            waiting += each.deeper
        known.looked = monotonic()
        return known

    def _look(self, above: str, signature: _Signature, *, ignored: bool) -> _Directory:
        found = _Directory(_settled(signature), ignored, self._bound(above))
        try:
            with os.scandir(f"{self._root}/{above}") as entries:
                names = sorted((each.name, each.is_dir(follow_symlinks=False)) for each in entries)
        except OSError:
            return found
        found.entries = len(names)
        found.rules = [above + name for name, _ in names if name == ".cursorignore" or (name in RULES and not ignored)]
        found.bound = above if found.rules else found.bound
        is_withheld, is_ignored = self._matching(found.bound)
        for name, is_dir in names:
            path = above + name
            bound = path[len(found.bound) :]
            if is_withheld(bound, is_dir) or self._is_kept(path, is_dir, ignored=ignored):
                found.withheld.append(path)
            elif is_dir and name != ".git":
                (found.ignored_below if not ignored and is_ignored(bound, True) else found.deeper).append(f"{path}/")
        return found

    def _bound(self, above: str) -> str:
        """Which directory's rules bind one that has none itself."""
        while above:
            above = above[: above.rfind("/", 0, -1) + 1]
            if (holder := self._known.get(above)) is not None:
                return holder.bound
        return ""

    def _matching(self, bound: str) -> tuple[_Matches, _Matches]:
        """Whether a path, relative to a directory with rules, is withheld, and whether it is ignored."""
        if bound not in self._matchers:
            directory = bound.removesuffix("/") or "."
            self._matchers[bound] = (self._ignore.withheld_within(directory), self._ignore.within(directory))
        return self._matchers[bound]

    def _is_kept(self, path: str, is_dir: bool, *, ignored: bool) -> bool:
        said = None if is_dir else self._may_read(path)
        if said is not None:
            return not said
        name = path.rpartition("/")[2]
        if not may_be_secret(name):
            return False
        if ignored:
            return is_secret(path, lambda _rel, _is_dir: not _is_installed(path))
        if not is_secret(path, lambda rel, _: self._ignore.is_ignored(rel, is_dir)):
            return False
        # What git tracks and does not find would be a deletion to it.
        return self._ignore.is_ignored(path, is_dir) or not os.path.lexists(f"{self._root}/.git")


def _is_package(above: str) -> bool:
    """Whether it is a directory right below one for installed packages; a tool's own beside them (`.cache`) is none."""
    holder, _, name = above.removesuffix("/").rpartition("/")
    return holder.rpartition("/")[2] in _INSTALLED and not name.startswith(".")


def _is_installed(path: str) -> bool:
    """Whether a file lies in an installed package."""
    parts = path.split("/")
    return any(part in _INSTALLED and not parts[at + 1].startswith(".") for at, part in enumerate(parts[:-2]))


def _signature(path: str) -> _Signature | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _settled(signature: _Signature) -> _Signature:
    """One that nothing equals while a further change could leave the same time."""
    return signature if time.time_ns() - signature[0] > _UNSETTLED else (-1, *signature[1:])


def withheld_paths(workspace: Workspace, ignore: IgnoreRules | None = None) -> tuple[str, ...]:
    """One look without rules of the user's: all that is withheld, however."""
    found = Withheld(workspace, ignore or IgnoreRules(workspace)).paths()
    return tuple(sorted((*found.covered, *found.masked)))
