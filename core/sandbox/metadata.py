"""Modes and times of the project's own files, before and after a command that nothing keeps from changing them (T3).

Landlock covers content and names only. What can't be held is told.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_NAMED = 3


class Metadata:
    """How the files that a command works on a copy of were when it started."""

    def __init__(self, workspace: Path, paths: Iterable[bytes]) -> None:
        self._root = os.fsencode(workspace)
        self._before = {path: found for path in paths if (found := self._look(path)) is not None}

    def _look(self, path: bytes) -> os.stat_result | None:
        try:
            return os.lstat(os.path.join(self._root, path))
        except OSError:
            return None

    def note(self) -> tuple[str, ...]:
        """What to tell, if anything: who writes a file anew (an editor, say) changes more than its mode and time."""
        differing = (path for path, before in self._before.items() if self._differs(path, before))
        changed = sorted(os.fsdecode(path) or "." for path in differing)
        if not changed:
            return ()
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        return (
            "Modes or times of your own files changed while it ran, which this tier can't prevent: "
            f"{', '.join(changed[:_NAMED])}{more}",
        )

    def _differs(self, path: bytes, before: os.stat_result) -> bool:
        now = self._look(path)
        if now is None or (now.st_ino, now.st_size) != (before.st_ino, before.st_size):
            return False
        if stat.S_ISDIR(now.st_mode):  # its time changes with its entries
            return now.st_mode != before.st_mode
        return (now.st_mode, now.st_mtime_ns) != (before.st_mode, before.st_mtime_ns)
