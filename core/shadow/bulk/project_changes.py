"""Changes of the user's under what commands left beside the review: a kept layer never hides what is newer on disk.

The project is compared with what a layer holds before a command begins, by times first: a path below a kept top counts
as touched when its status has changed since the command that made it began (`KeptTop.since`). Only what was touched is
compared by content. Of each top the user's state wins as a whole, so that no command sees a tree that is half theirs:
what commands left there is set aside, like a rejected bulk, and an undo brings it back. What changed only beside it is
said.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct, field

from core.protocol.review import CACHES, FileState
from core.shadow.content.paths import list_parents
from core.shadow.layers.layer_store import KeptTop
from core.shadow.layers.overlayfs import is_opaque
from core.workspace.file_names import from_os_name, to_os_name

MAX_NEIGHBOURS = 1_000  # entries on disk, beside those that layers hold, that are looked at before a command
TOOL_CACHES = CACHES | {".cache", ".vite", ".vite-temp", ".vitest", ".tmp"}
_GIT_IGNORED = re.compile(
    r"(?:objects|logs|modules)(?:/|\Z)|(?:ORIG_HEAD|FETCH_HEAD|AUTO_MERGE|COMMIT_EDITMSG|TAG_EDITMSG|gc\.\w+)\Z|.*\.lock\Z"
)


class TouchedPaths(Struct):
    """The paths of one top that were touched on disk: `held`, which layers hold or hide; `beside`, the others."""

    held: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)


class _Place(NamedTuple):
    """A directory of the project to compare, with what the layers have there; `hidden`: they hide what is in it."""

    path: str
    layered: list[bytes]
    hidden: bool


class DiskComparison(Struct, eq=False):
    """Compare the project at `root` with the kept layers `uppers` (topmost first), by times. `bases`: the files that
    layers replace; `base_directories`: those that these lie in. `left`: how many neighbours may still be looked at."""

    root: bytes
    uppers: Sequence[bytes]
    bases: Mapping[str, FileState]
    base_directories: Collection[str]
    left: int = MAX_NEIGHBOURS

    def find_touched(self, top: str, kept_top: KeptTop) -> TouchedPaths:
        """Return what was touched at and below a top since `known.since`."""
        touched_paths, is_git = TouchedPaths(), kept_top.kind == "git"
        layer_paths = [
            layer_path for upper in self.uppers if os.path.lexists(layer_path := upper + b"/" + to_os_name(top))
        ]
        waiting: deque[_Place] = deque()
        disk = self._read_status(top)
        if disk is None:
            self._note_missing(top, touched_paths)
        elif not stat.S_ISDIR(disk.st_mode):
            if disk.st_ctime_ns >= kept_top.since:
                touched_paths.held.append(top)
        else:
            waiting.append(_Place(top, layer_paths, any(map(_hides_directory, layer_paths))))
            if disk.st_ctime_ns >= kept_top.since and not is_git:
                (touched_paths.held if waiting[0].hidden else touched_paths.beside).append(top)
        while waiting and kept_top.kind != "directory":
            directory = waiting.popleft()
            if not is_git or not _GIT_IGNORED.match(directory.path[len(top) + 1 :]):
                waiting += self._compare_directory(directory, kept_top.since, touched_paths, names_only=is_git)
        if is_git:
            paths = {*touched_paths.held, *self._find_touched_bases(top, kept_top)}
            touched_paths = TouchedPaths([path for path in paths if not _GIT_IGNORED.match(path[len(top) + 1 :])])
        return touched_paths

    def _compare_directory(
        self, directory: _Place, timestamp: int, touched_paths: TouchedPaths, *, names_only: bool
    ) -> Iterator[_Place]:
        """Compare a directory that the project has, and yield those in it. `names_only`: that entries came or went in a
        directory means nothing by itself."""
        paths_by_name = _list_held(directory.layered)
        if not paths_by_name and (self.left <= 0 or directory.path.rpartition("/")[2] in TOOL_CACHES):
            return
        with suppress(OSError), os.scandir(self.root + b"/" + to_os_name(directory.path)) as entries:
            for entry in entries:
                layer_paths = paths_by_name.pop(entry.name, None)
                if layer_paths is None:
                    if self.left <= 0:
                        continue
                    self.left -= 1
                is_directory = entry.is_dir(follow_symlinks=False)
                is_newer = entry.stat(follow_symlinks=False).st_ctime_ns >= timestamp
                if not is_directory and not is_newer:
                    continue
                path = f"{directory.path}/{from_os_name(entry.name)}"
                hides = directory.hidden or (is_directory and any(map(_hides_directory, layer_paths or ())))
                if is_newer and not (is_directory and names_only):
                    is_held = hides or (layer_paths is not None and not is_directory) or path in self.bases
                    (touched_paths.held if is_held else touched_paths.beside).append(path)
                if is_directory:
                    yield _Place(path, layer_paths or [], hides)
        for name in paths_by_name:
            self._note_missing(f"{directory.path}/{from_os_name(name)}", touched_paths)

    def _note_missing(self, path: str, touched_paths: TouchedPaths) -> None:
        if path in self.bases or path in self.base_directories:
            touched_paths.held.append(path)

    def _find_touched_bases(self, top: str, kept_top: KeptTop) -> Iterator[str]:
        """Yield the files of git's state that were noted, though no layer holds them: what is committed to."""
        for path in self.bases:
            if path.startswith(f"{top}/"):
                disk = self._read_status(path)
                if disk is None or disk.st_ctime_ns >= kept_top.since:
                    yield path

    def _read_status(self, path: str) -> os.stat_result | None:
        with suppress(OSError):
            return os.lstat(self.root + b"/" + to_os_name(path))
        return None


def _list_held(places: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """Return what layers have in a directory, by name, topmost first; `places`: that directory in each of them."""
    paths_by_name: dict[bytes, list[bytes]] = {}
    for directory in places:
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                paths_by_name.setdefault(entry.name, []).append(entry.path)
    return paths_by_name


def _hides_directory(path: bytes) -> bool:
    """True if a layer's entry hides what the user has in a directory there."""
    stats = os.lstat(path)
    return not stat.S_ISDIR(stats.st_mode) or is_opaque(path)


def find_unit(top: str, path: str) -> str:
    """Return what is set aside because of a path: the cache of a tool in it, or the whole top."""
    for directory in (*list_parents(path), path):
        if len(directory) > len(top) and directory.rpartition("/")[2] in TOOL_CACHES:
            return directory
    return top


def is_quiet(unit: str) -> bool:
    """True for caches that tools check and fill by themselves: nobody need hear of them."""
    return unit.rpartition("/")[2] in TOOL_CACHES


def describe_touched(unit: str, paths: Sequence[str]) -> str:
    """Describe what of the user's is newer, for the user and the model."""
    names = ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    if names == unit:
        return f"{unit} was changed in the project after the command that wrote it"
    return f"{unit} was changed in the project after the command that wrote it ({names})"
