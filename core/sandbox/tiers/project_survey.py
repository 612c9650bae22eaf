"""A survey of the project as a command sees it: the workspace with the layers over it, as overlayfs would merge them.

It lists the entries of a copy before anything is copied. What git ignores is copied while it is small; a larger part
(an installed node_modules, a virtual environment) is *held*: the caller shows the original instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from core.clock import monotonic
from core.errors import ToolFailed
from core.filesystem.overlay_support import is_opaque, is_whiteout
from core.sandbox.box import BoxRequest
from core.sandbox.inside.mounts import list_mounts_below
from core.workspace.ignore_rules import IgnoreRules
from core.workspace.tree import Workspace

CopyKind = Literal["directory", "file", "link", "held", "withheld"]
ENTRIES_PER_CLOCK_CHECK = 64
STRONGER_TIER_HINT = (
    "A stronger tier needs no copy: `agent-tui doctor` says what it needs. Or run the command yourself."
)


class CopyLimits(Struct, frozen=True, kw_only=True):
    """Limits of a copy: `seconds` to make it, `size` bytes in all; `ignored_*` of that for what git ignores."""

    seconds: float = 5.0
    size: int = 1 << 30
    ignored_size: int = 128 << 20
    ignored_files: int = 10_000


class FileSignature(NamedTuple):
    """Values of which at least one changes with any change of a file; the ctime can't be set back."""

    mode: int
    inode: int
    size: int
    modified: int
    changed: int


def make_signature(info: os.stat_result) -> FileSignature:
    """Return the signature of a file's status."""
    return FileSignature(info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


class SurveyEntry(NamedTuple):
    """An entry of the view: its path in it, and where its content is, with the status of that."""

    path: bytes
    source: bytes
    kind: CopyKind
    signature: FileSignature


class Survey:
    """Lists the entries of a copy before anything is copied."""

    def __init__(self, request: BoxRequest, limits: CopyLimits) -> None:
        self.entries: list[SurveyEntry] = []
        self.held: list[bytes] = []
        self.skipped = 0
        self._root = os.fsencode(request.workspace)
        self._lowers = [os.fsencode(lower) for lower in request.lowers]
        self._withheld = {os.fsencode(path) for path in (*request.withheld, *request.masked)}
        self._mounted = _find_mounts(self._root)
        self._device = os.lstat(self._root).st_dev
        self._limits = limits
        self._size = 0
        self._ignored_left = (limits.ignored_size, limits.ignored_files)
        self._find_ignore_rules = IgnoreRules(Workspace(request.workspace)).open_snapshot()
        self._deadline = monotonic() + limits.seconds

    def list_entries(self) -> None:
        """List the entries, parents first, the root (b"") above all. Raises `ToolFailed` beyond the limits; OSError."""
        self.entries.append(SurveyEntry(b"", self._root, "directory", make_signature(os.lstat(self._root))))
        waiting: list[tuple[bytes, list[bytes]]] = [(b"", [*self._lowers, self._root])]
        while waiting:
            waiting += self._list_directory(*waiting.pop())

    def _list_directory(self, path: bytes, stack: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
        """Add the entries of a directory. Yields its subdirectories with the layers' directories merged into them."""
        is_ignored = (
            self._find_ignore_rules(os.fsdecode(path) or ".") if stack[-1] == self._resolve_in_workspace(path) else None
        )
        for name, entries in sorted(merge_directories(stack, self._resolve_in_workspace(path)).items()):
            child = path + b"/" + name if path else name
            mode = entries[0].info.st_mode
            if child in self._withheld:
                self.entries.append(_build_entry(child, entries[0], "withheld"))
            elif self._is_held(child, name, entries, is_ignored):
                self.held.append(child)  # the caller omits withheld paths below it
                self.entries.append(_build_entry(child, entries[0], "held"))
            elif stat.S_ISDIR(mode):
                self.entries.append(_build_entry(child, entries[0], "directory"))
                yield child, [entry.path for entry in entries]
            else:
                self._add_file(child, entries[0])

    def _resolve_in_workspace(self, path: bytes) -> bytes:
        return os.path.join(self._root, path) if path else self._root

    def _is_held(
        self, child: bytes, name: bytes, entries: list[StackedEntry], is_ignored: Callable[[str, bool], bool] | None
    ) -> bool:
        path = entries[0].path
        is_mounted = (
            path in self._mounted
            if self._mounted is not None
            else entries[0].info.st_dev != self._device and path.startswith(self._root + b"/")
        )
        return is_mounted or (self._is_ignored(child, name, entries, is_ignored) and not self._reserve(path))

    def _is_ignored(
        self, child: bytes, name: bytes, entries: list[StackedEntry], is_ignored: Callable[[str, bool], bool] | None
    ) -> bool:
        """True if git ignores the entry and no layer contributes to it. In `.git`, only the objects count."""
        if is_ignored is None or len(entries) > 1 or not entries[0].path.startswith(self._root + b"/"):
            return False
        if child == b".git" or child.startswith(b".git/"):
            return child == b".git/objects"
        return is_ignored(os.fsdecode(name), stat.S_ISDIR(entries[0].info.st_mode))

    def _reserve(self, path: bytes) -> bool:
        """Reserve space for an ignored path; return False if there is not enough."""
        size, files = self._ignored_left
        for file_size in _iterate_sizes(path):
            size, files = size - file_size, files - 1
            if size < 0 or files < 0:
                return False
        self._ignored_left = (size, files)
        return True

    def _add_file(self, child: bytes, entry: StackedEntry) -> None:
        if stat.S_ISLNK(entry.info.st_mode):
            self.entries.append(_build_entry(child, entry, "link"))
        elif stat.S_ISREG(entry.info.st_mode):
            self.entries.append(_build_entry(child, entry, "file"))
            self._size += entry.info.st_size
        else:
            self.skipped += 1
        if self._size > self._limits.size:
            raise build_refusal(f"more than {self._limits.size:,} bytes of files")
        if len(self.entries) % ENTRIES_PER_CLOCK_CHECK == 0 and monotonic() > self._deadline:
            raise build_refusal(f"more files than can be counted in {self._limits.seconds:g} s")


def _find_mounts(root: bytes) -> set[bytes] | None:
    """Return the mount points below the workspace; None without a table of mounts (macOS), where devices tell."""
    try:
        return set(list_mounts_below(root))
    except FileNotFoundError:
        return None


def _build_entry(path: bytes, entry: StackedEntry, kind: CopyKind) -> SurveyEntry:
    return SurveyEntry(path, entry.path, kind, make_signature(entry.info))


class StackedEntry(NamedTuple):
    """An entry of one layer."""

    path: bytes
    info: os.stat_result


def merge_directories(stack: Sequence[bytes], bottom: bytes) -> dict[bytes, list[StackedEntry]]:
    """Merge directories of stacked layers, topmost first; return the visible names with their entries.

    A file has one entry, a directory one per layer down to the layer that hides the rest.
    """
    entries_by_name: dict[bytes, list[StackedEntry]] = {}
    closed_names: set[bytes] = set()
    for directory in stack:
        for entry in _scan_directory(directory):
            if entry.name in closed_names:
                continue
            info = entry.stat(follow_symlinks=False)
            is_directory = stat.S_ISDIR(info.st_mode)
            is_layer = directory != bottom
            if is_layer and is_whiteout(info):
                closed_names.add(entry.name)
                continue
            if is_directory or entry.name not in entries_by_name:
                entries_by_name.setdefault(entry.name, []).append(StackedEntry(entry.path, info))
            if not is_directory or (is_layer and is_opaque(entry.path)):
                closed_names.add(entry.name)
    return entries_by_name


def _scan_directory(directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, PermissionError):
        return []


def _iterate_sizes(path: bytes) -> Iterator[int]:
    """Yield the size in bytes of every file in and below a path; directories count as empty files."""
    waiting = [path]
    while waiting:
        entry_path = waiting.pop()
        info = os.lstat(entry_path)
        yield info.st_size if stat.S_ISREG(info.st_mode) else 0
        if stat.S_ISDIR(info.st_mode):
            waiting += [entry.path for entry in _scan_directory(entry_path)]


def build_refusal(reason: str) -> ToolFailed:
    return ToolFailed(
        f"This command needs a copy of the project, which has {reason}.", hint=STRONGER_TIER_HINT, code="copy_too_large"
    )
