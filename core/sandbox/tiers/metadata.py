"""Modes and times of the project's own files, before and after a command that could change them (T3).

Landlock covers content and names only. What can't be prevented is reported.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_MOST_NAMED = 3


class MetadataSnapshot:
    """The metadata of the files that a command works on a copy of, from before it started."""

    def __init__(self, workspace: Path, paths: Iterable[bytes]) -> None:
        self._root = os.fsencode(workspace)
        self._before = {path: found for path in paths if (found := self._read_status(path)) is not None}

    def _read_status(self, path: bytes) -> os.stat_result | None:
        try:
            return os.lstat(os.path.join(self._root, path))
        except OSError:
            return None

    def describe_changes(self) -> tuple[str, ...]:
        """Return notes on changed modes and times. A file that was rewritten (by an editor, say) does not count."""
        differing = (path for path, before in self._before.items() if self._is_changed(path, before))
        changed = sorted(os.fsdecode(path) or "." for path in differing)
        if not changed:
            return ()
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        return (
            "Modes or times of your own files changed while it ran, which this tier can't prevent: "
            f"{', '.join(changed[:_MOST_NAMED])}{more}",
        )

    def _is_changed(self, path: bytes, before: os.stat_result) -> bool:
        now = self._read_status(path)
        if now is None or (now.st_ino, now.st_size) != (before.st_ino, before.st_size):
            return False
        if stat.S_ISDIR(now.st_mode):  # its time changes with its entries
            return now.st_mode != before.st_mode
        return (now.st_mode, now.st_mtime_ns) != (before.st_mode, before.st_mtime_ns)
