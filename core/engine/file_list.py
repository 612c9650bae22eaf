"""The files of the workspace by name, for completion: listed by ripgrep in a thread, kept until something changes."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.edits.similarity import nearest_names
from core.errors import ToolFailed
from core.shadow.disk import directories_of
from core.tools.ripgrep import BARE, SCOPE, UNRULED, program, waits_for_rules

MAX_FILES: Final = 200_000
_PASSED_OVER: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})


class FileList:
    """Paths are workspace-relative; what git ignores is not among them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[str] | None = None
        self._listing: asyncio.Task[list[str]] | None = None

    def forget(self) -> None:
        """Something changed on disk: list again when asked next."""
        self._files = None

    async def find(self, pattern: str, *, limit: int, directories: bool, extra: Sequence[str]) -> tuple[str, ...]:
        """The best matches of `pattern`, best first; `extra` are files that are not on disk yet."""
        files = await self._current()
        return await asyncio.to_thread(_ranked, _candidates(files, extra, directories=directories), pattern, limit)

    async def _current(self) -> list[str]:
        """The list; several who ask at once share one listing."""
        if self._files is not None:
            return self._files
        if self._listing is None:
            self._listing = asyncio.create_task(asyncio.to_thread(_listed, self._root))
            self._listing.add_done_callback(self._keep)
        return await asyncio.shield(self._listing)

    def _keep(self, task: asyncio.Task[list[str]]) -> None:
        self._listing = None
        if not task.cancelled() and task.exception() is None:
            self._files = task.result()


def _listed(root: Path) -> list[str]:
    try:
        command = [program(), "--no-config", "--files", "--null", *SCOPE]
        command += [UNRULED] if waits_for_rules(str(root)) else []
    except ToolFailed:
        return _walked(root)
    done = subprocess.run(
        command, cwd=root, env=BARE, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    names = done.stdout.split(b"\0")[:MAX_FILES]
    return sorted(name.decode("utf-8", "replace").removeprefix("./") for name in names if name)


def _walked(root: Path) -> list[str]:
    """As ripgrep lists, but without ignore rules: better too many names than none."""
    found: list[str] = []
    waiting = [""]
    while waiting and len(found) < MAX_FILES:
        above = waiting.pop()
        with suppress(OSError), os.scandir(root / above) as entries:
            for each in entries:
                if not each.is_dir(follow_symlinks=False):
                    found.append(above + each.name)
                elif each.name not in _PASSED_OVER:
                    waiting.append(f"{above}{each.name}/")
    return sorted(found[:MAX_FILES])


def _candidates(files: Sequence[str], extra: Sequence[str], *, directories: bool) -> list[str]:
    known = dict.fromkeys([*files, *extra])
    if not directories:
        return list(known)
    return [*known, *sorted(f"{each}/" for each in directories_of(known))]


def _ranked(paths: list[str], pattern: str, limit: int) -> tuple[str, ...]:
    wanted = pattern.strip().lower()
    if not wanted:
        return tuple(sorted(paths, key=lambda path: (path.count("/"), path))[:limit])
    exact = sorted((path for path in paths if wanted in path.lower()), key=lambda path: _nearness(path, wanted))
    found = exact[:limit]
    if len(found) < limit:
        found += [path for path in _fuzzy(paths, wanted, 2 * limit) if path not in set(found)]
    return tuple(found[:limit])


def _nearness(path: str, wanted: str) -> tuple[int, int, str]:
    """Sorts names that are the pattern before those that begin with it, hold it, or lie below it."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    places = (name == wanted, name.startswith(wanted), wanted in name)
    return (places.index(True) if any(places) else len(places), len(path), path)


def _fuzzy(paths: list[str], wanted: str, limit: int) -> list[str]:
    """Paths that hold the letters of the pattern in order; if none does, those that it may have been meant to be."""
    holding = [path for path in paths if _holds_in_order(path.lower(), wanted)]
    return nearest_names(wanted, holding, limit=limit) or holding[:limit] or nearest_names(wanted, paths, limit=limit)


def _holds_in_order(text: str, letters: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)
