"""A directory in a tree, kept open: what lies near it is reached by a step or two, however long its path is. For trees
that nobody moves about in meanwhile. No symbolic link is passed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.filesystem.open_beneath import DIRECTORY, open_beneath

_MAX_STEPS: Final = 3  # up or down; what is further away is opened by its path
_STEP_FLAGS = DIRECTORY | os.O_NOFOLLOW


class DirectoryCursor:
    """Moves below the directory `top`, which is opened when first needed.

    Paths are bytes, relative to it; b"" is `top` itself.
    """

    def __init__(self, top: Path) -> None:
        self._top = top
        self._root = -1
        self._path = b""
        self._here = -1

    def __enter__(self) -> DirectoryCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptors. Safe to call twice."""
        for descriptor in {self._here, self._root} - {-1}:
            with suppress(OSError):
                os.close(descriptor)
        self._root = self._here = -1

    def open_at(self, path: bytes) -> int:
        """Return the descriptor of a directory, good until the next call.

        Raises OSError; ENOTDIR or ELOOP for a link.
        """
        if self._root < 0:
            self._root = self._here = os.open(self._top, DIRECTORY)
            self._path = b""
        if path != self._path:
            is_near = self._ascend_towards(path)
            steps = path[len(self._path) :].lstrip(b"/").split(b"/") if is_near else []
            if is_near and len(steps) <= _MAX_STEPS:
                for step in filter(None, steps):
                    self._move(os.open(step, _STEP_FLAGS, dir_fd=self._here), self._path + b"/" + step)
            else:
                self._move(open_beneath(self._root, path, DIRECTORY), path)
        return self._here

    def _ascend_towards(self, path: bytes) -> bool:
        """Go up to a directory that the path lies in, if it is near; True if one was reached."""
        for _ in range(_MAX_STEPS):
            if not self._path or path == self._path or path.startswith(self._path + b"/"):
                return True
            self._move(os.open(b"..", DIRECTORY, dir_fd=self._here), self._path.rpartition(b"/")[0])
        return False

    def _move(self, directory: int, path: bytes) -> None:
        if self._here != self._root:
            os.close(self._here)
        self._here, self._path = directory, path.lstrip(b"/")
