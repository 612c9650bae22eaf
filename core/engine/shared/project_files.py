"""The files of the workspace: their names for completion, and a watch for changes on disk.

Ripgrep lists the names in a thread, and the list is cached until something changes. The watch is one thread that waits
for notifications of the kernel and wakes twice a second at most. It watches only directories that git does not ignore,
and each of them without its subdirectories, so a `node_modules` of 50,000 files costs nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.agent.mentions.sources import ProjectNames
from core.errors import ToolFailed
from core.filesystem.atomic_write import is_temporary_name
from core.shadow.content.paths import collect_directories
from core.text.similarity import find_nearest_names
from core.tools.builtin.reading.ripgrep import MINIMAL_ENV, NO_IGNORE, find_program, has_unusual_rules, list_scope
from core.workspace import IgnoreRules, Workspace
from core.workspace.file_names import from_os_name

MAX_FILES: Final = 200_000
_SKIPPED_DIRECTORIES: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
MAX_DIRECTORIES: Final = 8_192
MAX_NAMED: Final = 100
STEP_MS: Final = 400
# FSEvents watches whole trees, and a stream of some dozens of paths closes descriptor 0 (notify before 8.1).
_IS_RECURSIVE: Final = sys.platform == "darwin"
DEBOUNCE_MS: Final = 1_200
OnChange = Callable[[tuple[str, ...]], None]


class FileList:
    """The files of a workspace. Paths are relative to it; files that git ignores are left out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[str] | None = None
        self._names: ProjectNames | None = None
        self._listing: asyncio.Task[list[str]] | None = None

    def forget(self) -> None:
        """Drop the cached list."""
        self._files = self._names = None

    async def find(self, pattern: str, *, limit: int, directories: bool, extra: Sequence[str]) -> tuple[str, ...]:
        """Return the best matches of `pattern`, best first. `extra`: files that are not on disk yet."""
        files = await self._load()
        paths = dict.fromkeys([*files, *extra])
        above = sorted(f"{directory}/" for directory in collect_directories(paths)) if directories else ()
        return await asyncio.to_thread(_rank, [*paths, *above], pattern, limit)

    async def load_names(self) -> ProjectNames:
        """Return an index of the files by their names."""
        files = await self._load()
        if self._names is None:
            self._names = await asyncio.to_thread(ProjectNames, files)
        return self._names

    async def _load(self) -> list[str]:
        """Return the list; concurrent callers share one listing."""
        if self._files is not None:
            return self._files
        if self._listing is None:
            self._listing = asyncio.create_task(asyncio.to_thread(_list_files, self._root))
            self._listing.add_done_callback(self._cache_result)
        return await asyncio.shield(self._listing)

    def _cache_result(self, task: asyncio.Task[list[str]]) -> None:
        self._listing = None
        if not task.cancelled() and task.exception() is None:
            self._files = task.result()


def _list_files(root: Path) -> list[str]:
    try:
        command = [find_program(), "--no-config", "--files", "--null", *list_scope(str(root))]
        command += [NO_IGNORE] if has_unusual_rules(str(root)) else []
    except ToolFailed:
        return _walk_files(root)
    result = subprocess.run(
        command, cwd=root, env=MINIMAL_ENV, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    names = result.stdout.split(b"\0")[:MAX_FILES]
    return sorted(from_os_name(name.removeprefix(b"./")) for name in names if name)


def _walk_files(root: Path) -> list[str]:
    """List the files without ripgrep and ignore rules: too many names are better than none."""
    paths: list[str] = []
    waiting = [""]
    while waiting and len(paths) < MAX_FILES:
        above = waiting.pop()
        with suppress(OSError), os.scandir(root / above) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    paths.append(above + entry.name)
                elif entry.name not in _SKIPPED_DIRECTORIES:
                    waiting.append(f"{above}{entry.name}/")
    return sorted(from_os_name(os.fsencode(path)) for path in paths[:MAX_FILES])


def _rank(paths: list[str], pattern: str, limit: int) -> tuple[str, ...]:
    """Rank the paths that contain a pattern, then those with its letters in order, then similar names."""
    needle = pattern.strip().lower()
    if not needle:
        return tuple(sorted(paths, key=lambda path: (path.count("/"), path))[:limit])
    matches = sorted((path for path in paths if needle in path.lower()), key=lambda path: _rank_key(path, needle))[
        :limit
    ]
    if len(matches) < limit:
        known_paths = set(matches)
        matches += [path for path in _find_by_letters(paths, needle, 2 * limit) if path not in known_paths]
    return tuple(matches[:limit])


def _rank_key(path: str, needle: str) -> tuple[int, bool, int, str]:
    """Return the sort key: names equal to the pattern, then those that begin with it, contain it, or are below it;
    within these, files before directories."""
    name = _get_name(path).lower()
    places = (name == needle, name.startswith(needle), needle in name)
    return (places.index(True) if any(places) else len(places), path.endswith("/"), len(path), path)


def _find_by_letters(paths: list[str], needle: str, limit: int) -> list[str]:
    """Find paths that contain the letters in order; matches in the name come first, then close letters. Without a
    match, similar names are returned."""
    letters = re.compile(".*?".join(map(re.escape, needle)))
    candidates = []
    for path in paths:
        lowercase_path = path.lower()
        if letters.search(lowercase_path):
            name = _get_name(lowercase_path)
            candidates.append((*_measure_letters(letters, name, lowercase_path), path.endswith("/"), len(path), path))
    best = heapq.nsmallest(limit, candidates)
    return [path for *_, path in best] or find_nearest_names(needle, paths, limit=limit)


def _measure_letters(letters: re.Pattern[str], name: str, path: str) -> tuple[bool, bool, int]:
    """Return the sort key of a match: outside of the name, not at the start of a word, length of the match."""
    text = name if letters.search(name) else path
    places = (match for index in range(len(text)) if (match := letters.match(text, index)))
    best = min(places, key=lambda match: match.end() - match.start())
    starts_word = best.start() == 0 or not text[best.start() - 1].isalnum()
    return text is path, not starts_word, best.end() - best.start()


def _get_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


class FileWatcher:
    """Calls `on_change(paths)` in the loop that started it; no paths = too many to name, or some may have been missed.

    `ready` is set when it watches, or can't; `is_partial`: there are more directories than it watches.
    """

    def __init__(self, workspace: Workspace, on_change: OnChange) -> None:
        self._workspace = workspace
        self._ignore = IgnoreRules(workspace)
        self._on_change = on_change
        self._stop = threading.Event()
        self.ready = threading.Event()
        self.is_partial = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, daemon=True, name="watch").start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        """Watch until stopped; a new directory means listing the tree again. Without a watch, clients get no
        updates."""
        try:
            while not self._stop.is_set():
                self._watch_tree()
        except (OSError, RuntimeError) as problem:
            self.is_partial = True
            self.ready.set()
            print(f"the workspace can't be watched: {problem}", file=sys.stderr)  # noqa: T201

    def _watch_tree(self) -> None:
        from watchfiles import watch

        batches = watch(
            *([str(self._workspace.root)] if _IS_RECURSIVE else self._list_directories()),
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            rust_timeout=0,
            stop_event=self._stop,
            raise_interrupt=False,
            recursive=_IS_RECURSIVE,
            ignore_permission_denied=True,
        )
        if self.ready.is_set():  # nobody watched while the tree was listed again
            self._report(())
        self.ready.set()
        for changes in batches:
            paths, has_directory = self._filter_changes({path for _, path in changes})
            if paths:
                self._report(tuple(sorted(paths)) if len(paths) <= MAX_NAMED else ())
            if has_directory and not _IS_RECURSIVE:
                return

    def _filter_changes(self, absolute: set[str]) -> tuple[set[str], bool]:
        """Return the changed paths that are not ignored, and whether a directory is among them."""
        paths, has_directory = set(), False
        for path in absolute:
            rel = os.path.relpath(path, self._workspace.root)
            is_dir = Path(path).is_dir()
            if rel != "." and not is_temporary_name(Path(rel).name) and not self._ignore.is_ignored(rel, is_dir):
                paths.add(rel)
                has_directory = has_directory or is_dir
        return paths, has_directory

    def _report(self, paths: tuple[str, ...]) -> None:
        if self._loop is not None and not self._stop.is_set():
            try:
                self._loop.call_soon_threadsafe(self._on_change, paths)
            except RuntimeError:  # the loop has ended
                self._stop.set()

    def _list_directories(self) -> list[str]:
        root, directories = self._workspace.root, [""]
        for directory in directories:  # the loop appends to the list
            for name in self._list_children(root / directory):
                below = f"{directory}/{name}" if directory else name
                if not self._ignore.is_ignored(below, True):
                    directories.append(below)
            if len(directories) > MAX_DIRECTORIES:
                break
        self.is_partial = len(directories) > MAX_DIRECTORIES
        return [str(root / path) for path in directories[:MAX_DIRECTORIES]]

    def _list_children(self, directory: Path) -> list[str]:
        if self._stop.is_set():
            return []
        try:
            with os.scandir(directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []
