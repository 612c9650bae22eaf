"""The paths of the workspace that a command must not read: paths excluded by `.cursorignore` or a rule, and secrets
that git ignores, also those in ignored directories.

Commands start often and trees are large, so the scan of a directory is cached until the directory or a file with rules
changes: a second scan costs one `stat` per directory. Installed packages are checked as wholes, and scanned inside once
a minute.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from core.clock import monotonic
from core.workspace.ignore_rules import IgnoreRules
from core.workspace.secret_files import is_secret, may_be_secret_path
from core.workspace.tree import Workspace

RULE_FILES = frozenset({".cursorignore", ".gitignore"})
_ENVIRONMENT = "pyvenv.cfg"  # marks a virtual environment of Python, which may be named `.env`
# Their subdirectories hold published packages, so certificates and test keys in them are not the user's secrets.
_PACKAGE_DIRECTORIES = frozenset(
    {"node_modules", "bower_components", "jspm_packages", "site-packages", "dist-packages"}
)
_MOST_ENTRIES = 500_000  # entries of one ignored directory; a larger one is withheld as a whole
_MOST_MASKED = 2_000  # secrets in one ignored directory
_CACHE_SECONDS = 60.0  # lifetime of the scan of a package, and of a scan that exceeded the limit
_RACY_NANOSECONDS = 50_000_000  # nanoseconds within which two changes may have the same time
# Returns True if the user's rules allow reading a path; None: no rule matches.
ReadRule = Callable[[str], bool | None]
_Signature = tuple[int, int, int]
_Matches = Callable[[str, bool], bool]


class WithheldPaths(Struct, frozen=True, kw_only=True):
    """The paths that a command must not read, workspace-relative and sorted.

    `covered`: files and whole directories that it can neither read nor replace. `masked`: files in ignored directories,
    which it sees as empty but may delete with the directory. `outside`: absolute targets of links with a secret's name.
    `notes`: on directories that were too large to search and are withheld as wholes.
    """

    covered: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    outside: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


class _ScannedDirectory(Struct):
    """One scan of a directory: paths below the workspace.

    `rules`: files with ignore rules; `bound`: the directory with the nearest of them, this one or one above it.

    `whole` (an installed package): the directories below it that were scanned with it, and `looked`: when that was.
    """

    signature: _Signature
    ignored: bool
    bound: str = ""
    withheld: list[str] = field(default_factory=list)
    deeper: list[str] = field(default_factory=list)
    ignored_below: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    entries: int = 0
    whole: dict[str, _ScannedDirectory] = field(default_factory=dict)
    scanned_at: float = 0.0


class WithheldFinder:
    """Finds the paths that are withheld from commands. `may_read` is asked first, for every file; `left_out`: a
    directory, ending in a slash, that is not searched."""

    def __init__(
        self, workspace: Workspace, ignore: IgnoreRules, may_read: ReadRule | None = None, left_out: str | None = None
    ) -> None:
        self._left_out = left_out
        self._root = str(workspace.root)
        self._ignore = ignore
        self._may_read = may_read
        self._known: dict[str, _ScannedDirectory] = {}
        self._rules: dict[str, _Signature | None] | None = None
        self._too_large: dict[str, float] = {}
        self._matchers: dict[str, tuple[_Matches, _Matches]] = {}
        self._is_in_repository = False
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Discard all scans after a change of the user's rules."""
        self._known.clear()
        self._too_large.clear()

    def find_paths(self) -> WithheldPaths:
        """Return the paths for the present tree; a directory represents everything below it. Thread-safe."""
        with self._lock:
            withheld_paths = self._scan()
            if self._check_rules_changed():
                self.clear()
                withheld_paths = self._scan()
                self._check_rules_changed()
            return withheld_paths

    def _scan(self) -> WithheldPaths:
        covered_paths: set[str] = set()
        masked_paths: set[str] = set()
        large_directories: list[str] = []
        visited_directories: set[str] = set()
        waiting = [""]
        self._matchers.clear()
        self._is_in_repository = os.path.lexists(f"{self._root}/.git") or self._ignore.is_in_repository()
        while waiting:
            scan = self._refresh(waiting.pop(), visited_directories, is_below_ignored=False)
            if scan is None:
                continue
            covered_paths.update(scan.withheld)
            waiting += [directory for directory in scan.deeper if directory != self._left_out]
            for top in scan.ignored_below:
                if (secrets := self._scan_ignored(top, visited_directories)) is None:
                    large_directories.append(top.removesuffix("/"))
                else:
                    masked_paths.update(secrets)
        for stale_directory in self._known.keys() - visited_directories:
            del self._known[stale_directory]
        return self._build_result(covered_paths, masked_paths, sorted(large_directories))

    def _build_result(
        self, covered_paths: set[str], masked_paths: set[str], large_directories: list[str]
    ) -> WithheldPaths:
        """Build the result, with links resolved, since the target is the secret."""
        outside: set[str] = set()
        for path in [*covered_paths, *masked_paths]:
            full_path = Path(self._root, path)
            if not full_path.is_symlink():
                continue
            if _leads_in_circles(full_path):
                covered_paths.discard(path)  # it can't be read, and no box can mount anything over it
                continue
            real = os.path.realpath(full_path)
            if not real.startswith(f"{self._root}/"):
                outside.update([real] if self._can_be_hidden(real) else [])
            elif (inside := real[len(self._root) + 1 :]) not in masked_paths:
                covered_paths.add(inside)
        directories = {path for path in masked_paths if Path(self._root, path).is_dir()}
        covered_paths |= directories | set(large_directories)
        return WithheldPaths(
            covered=tuple(sorted(covered_paths)),
            masked=tuple(sorted(masked_paths - covered_paths)),
            outside=tuple(Path(path) for path in sorted(outside)),
            notes=tuple(
                f"Hidden from commands, because too large to search for secrets: {path}" for path in large_directories
            ),
        )

    def _can_be_hidden(self, real: str) -> bool:
        """False for a device, and for a directory that contains the workspace or much of the machine."""
        if Path(real).is_dir():
            return real.count("/") > 1 and not f"{self._root}/".startswith(f"{real}/")
        return Path(real).is_file()

    def _check_rules_changed(self) -> bool:
        """True if files with rules were added, removed or changed since the last call; False at the first call."""
        names = [".git/info/exclude", *(name for scan in self._known.values() for name in scan.rules)]
        paths = [*map(str, self._ignore.list_outer_files()), *(f"{self._root}/{name}" for name in names)]
        now = {path: _read_signature(path) for path in paths}
        before, self._rules = self._rules, now
        return before is not None and before != now

    def _refresh(
        self, above: str, visited_directories: set[str], *, is_below_ignored: bool
    ) -> _ScannedDirectory | None:
        """Return the scan of a directory ("" or ending in a slash), repeated if it has changed. None: it is missing."""
        signature = _read_signature(f"{self._root}/{above}")
        if signature is None:
            return None
        visited_directories.add(above)
        scan = self._known.get(above)
        if scan is None or scan.signature != signature or scan.ignored != is_below_ignored:
            scan = self._known[above] = self._scan_directory(above, signature, is_below_ignored=is_below_ignored)
        return scan

    def _scan_ignored(self, top: str, visited_directories: set[str]) -> list[str] | None:
        """Return the secrets in and below an ignored directory; None: it is too large to be searched."""
        if monotonic() < self._too_large.get(top, 0.0):
            return None
        secrets: list[str] = []
        entries = 0
        waiting = [top]
        while waiting:
            above = waiting.pop()
            scan = (
                self._scan_package(above, visited_directories)
                if _is_package(above)
                else self._refresh(above, visited_directories, is_below_ignored=True)
            )
            for nested_scan in (scan, *scan.whole.values()) if scan is not None else ():
                entries += nested_scan.entries
                secrets += nested_scan.withheld
            if entries > _MOST_ENTRIES or len(secrets) > _MOST_MASKED:
                self._too_large[top] = monotonic() + _CACHE_SECONDS
                return None
            if scan is not None and not scan.whole:
                waiting += scan.deeper
        return secrets

    def _scan_package(self, above: str, visited_directories: set[str]) -> _ScannedDirectory | None:
        before = self._known.get(above)
        scan = self._refresh(above, visited_directories, is_below_ignored=True)
        if scan is None or (scan is before and monotonic() - scan.scanned_at < _CACHE_SECONDS):
            return scan
        earlier, scan.whole, waiting = scan.whole, {}, list(scan.deeper)
        while waiting and len(scan.whole) <= _MOST_ENTRIES:
            path = waiting.pop()
            signature = _read_signature(f"{self._root}/{path}")
            if signature is None:
                continue
            nested_scan = earlier.get(path)
            if nested_scan is None or nested_scan.signature != signature:
                nested_scan = self._scan_directory(path, signature, is_below_ignored=True)
            scan.whole[path] = nested_scan
            waiting += nested_scan.deeper
        scan.scanned_at = monotonic()
        return scan

    def _scan_directory(self, above: str, signature: _Signature, *, is_below_ignored: bool) -> _ScannedDirectory:
        scan = _ScannedDirectory(_make_racy_safe(signature), is_below_ignored, self._find_bound(above))
        try:
            with os.scandir(f"{self._root}/{above}") as entries:
                names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError:
            return scan
        scan.entries = len(names)
        scan.rules = [
            above + name
            for name, _ in names
            if (lower_name := name.lower()) == ".cursorignore" or (lower_name in RULE_FILES and not is_below_ignored)
        ]
        scan.bound = above if scan.rules else scan.bound
        is_withheld, is_ignored = self._load_matchers(scan.bound)
        for name, is_dir in names:
            path = above + name
            rel = path[len(scan.bound) :]
            if is_withheld(rel, is_dir) or self._is_withheld(path, is_dir, is_below_ignored=is_below_ignored):
                scan.withheld.append(path)
            elif is_dir and name != ".git":
                (scan.ignored_below if not is_below_ignored and is_ignored(rel, True) else scan.deeper).append(
                    f"{path}/"
                )
        return scan

    def _find_bound(self, above: str) -> str:
        while above:
            above = above[: above.rfind("/", 0, -1) + 1]
            if (holder := self._known.get(above)) is not None:
                return holder.bound
        return ""

    def _load_matchers(self, scope: str) -> tuple[_Matches, _Matches]:
        if scope not in self._matchers:
            directory = scope.removesuffix("/") or "."
            self._matchers[scope] = (self._ignore.match_withheld_in(directory), self._ignore.match_in(directory))
        return self._matchers[scope]

    def _is_withheld(self, path: str, is_dir: bool, *, is_below_ignored: bool) -> bool:
        verdict = None if is_dir or self._may_read is None else self._may_read(path)
        if verdict is not None:
            return not verdict
        if not may_be_secret_path(path):
            return False
        if is_dir and os.path.lexists(f"{self._root}/{path}/{_ENVIRONMENT}"):
            return False
        if is_below_ignored:
            return is_secret(path, lambda _rel, _is_dir: not _is_installed(path))
        if not is_secret(path, lambda rel, _: self._ignore.is_ignored(rel, is_dir)):
            return False
        # Git would report a withheld tracked file as deleted.
        return self._ignore.is_ignored(path, is_dir) or not self._is_in_repository


def _is_package(above: str) -> bool:
    """True for a child of a directory for installed packages, except hidden ones of tools (`.cache`)."""
    holder, _, name = above.removesuffix("/").rpartition("/")
    return holder.rpartition("/")[2] in _PACKAGE_DIRECTORIES and not name.startswith(".")


def _is_installed(path: str) -> bool:
    parts = path.split("/")
    return any(
        part in _PACKAGE_DIRECTORIES and not parts[index + 1].startswith(".") for index, part in enumerate(parts[:-2])
    )


def _leads_in_circles(link: Path) -> bool:
    try:
        link.stat()
    except OSError as problem:
        return problem.errno == errno.ELOOP
    return False


def _read_signature(path: str) -> _Signature | None:
    try:
        file_stat = os.lstat(path)
    except OSError:
        return None
    return file_stat.st_mtime_ns, file_stat.st_ino, file_stat.st_size


def _make_racy_safe(signature: _Signature) -> _Signature:
    """Return a signature that equals no other while a further change could have the same time."""
    return signature if time.time_ns() - signature[0] > _RACY_NANOSECONDS else (-1, *signature[1:])
