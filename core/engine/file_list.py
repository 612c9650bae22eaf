"""The files of the workspace by name, for completion: listed by ripgrep in a thread, cached until something changes."""

from __future__ import annotations

import asyncio
import heapq
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.agent.mentions.project_names import ProjectNames
from core.errors import ToolFailed
from core.shadow.paths import collect_directories
from core.text.similarity import find_nearest_names
from core.tools.builtin.reading.ripgrep import MINIMAL_ENV, NO_IGNORE, find_program, has_unusual_rules, list_scope
from core.workspace.file_names import from_os_name

MAX_FILES: Final = 200_000
_SKIPPED_DIRECTORIES: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})


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
        """Return the files by what they are called."""
        files = await self._load()
        if self._names is None:
            self._names = await asyncio.to_thread(ProjectNames, files)
        return self._names

    async def _load(self) -> list[str]:
        """Return the list; callers at the same time share one listing."""
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
    """List without ripgrep and without ignore rules: better too many names than none."""
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
    """Rank the paths that hold a pattern, then those that have its letters in this order, then names that are near."""
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
    """Sort key: names equal to the pattern first, then those that begin with it, hold it, or lie below it; of these a
    file before a directory."""
    name = _get_name(path).lower()
    places = (name == needle, name.startswith(needle), needle in name)
    return (places.index(True) if any(places) else len(places), path.endswith("/"), len(path), path)


def _find_by_letters(paths: list[str], needle: str, limit: int) -> list[str]:
    """Find paths with the letters in their order: in the name before anywhere else, and the closer together, the
    better. Where there are none, the letters may be wrong, too."""
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
    """Return whether letters stand elsewhere than in the name, whether they begin within a word, and how far apart."""
    text = name if letters.search(name) else path
    places = (match for index in range(len(text)) if (match := letters.match(text, index)))
    best = min(places, key=lambda match: match.end() - match.start())
    starts_word = best.start() == 0 or not text[best.start() - 1].isalnum()
    return text is path, not starts_word, best.end() - best.start()


def _get_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
