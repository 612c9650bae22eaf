"""Watch the workspace for changes on disk, without looking into what git ignores.

One thread waits for the kernel's notice and wakes twice a second at most. Only directories that are not ignored are
watched, each by itself, so that a `node_modules` of 50,000 files costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from core.filesystem.atomic_write import is_temporary_name
from core.workspace import IgnoreRules, Workspace

MAX_DIRECTORIES: Final = 8_192
MAX_NAMED: Final = 100
STEP_MS: Final = 400
DEBOUNCE_MS: Final = 1_200

OnChange = Callable[[tuple[str, ...]], None]


class FileWatcher:
    """Calls `tell(paths)` in the loop that started it; no paths = too many to name, or perhaps some were missed.

    `ready` is set when it watches, or can't; `is_partial`: there are more directories than it watches.
    """

    def __init__(self, workspace: Workspace, tell: OnChange) -> None:
        self._workspace = workspace
        self._ignore = IgnoreRules(workspace)
        self._tell = tell
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
        """Watch until stopped; a new directory means listing the tree again. Without notices, clients see less."""
        try:
            while not self._stop.is_set():
                self._watch_tree()
        except (OSError, RuntimeError) as problem:
            self.is_partial = True
            self.ready.set()
            print(f"the workspace is not watched: {problem}", file=sys.stderr)  # noqa: T201

    def _watch_tree(self) -> None:
        from watchfiles import watch

        batches = watch(
            *self._list_directories(),
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            rust_timeout=0,
            stop_event=self._stop,
            raise_interrupt=False,
            recursive=False,
            ignore_permission_denied=True,
        )
        if self.ready.is_set():  # nobody watched while the tree was listed again
            self._report(())
        self.ready.set()
        for changes in batches:
            paths, has_directory = self._filter_changes({path for _, path in changes})
            if paths:
                self._report(tuple(sorted(paths)) if len(paths) <= MAX_NAMED else ())
            if has_directory:
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
                self._loop.call_soon_threadsafe(self._tell, paths)
            except RuntimeError:  # the loop has ended
                self._stop.set()

    def _list_directories(self) -> list[str]:
        root, directories = self._workspace.root, [""]
        for directory in directories:  # which grows meanwhile
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
