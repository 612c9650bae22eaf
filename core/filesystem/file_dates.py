"""Dates of files that replace others, for tools that compare them.

Python takes what it has compiled from a file as up to date if the file has the same size and second. An edit of the
same length in the second of the last change would stay unseen, so it gets the next second, as Mercurial does
(`avoidambig`). That lies in the future for less than a second, of which make would warn, so commands wait for it.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from typing import Final

_SECOND: Final = 1_000_000_000  # ns
_MINUTE: Final = 60  # seconds: a file that is dated later than this has a wrong clock, not several edits
_MOST_SECONDS: Final = 2.0
_TICK: Final = 0.01  # seconds, by which the clock that dates files may be late


class FileDates:
    """The dates that one session gives to files."""

    def __init__(self) -> None:
        self._latest = 0  # ns since 1970

    def separate(self, directory: int, temporary: bytes, old: os.stat_result | None) -> None:
        """Date the replacement of a file a second later if the old one has its size and second. `temporary`: its name
        in the open directory; `old`: the replaced file, None if there is none. Raises OSError."""
        if old is None or not stat.S_ISREG(old.st_mode):
            return
        new = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        seconds = old.st_mtime_ns // _SECOND - new.st_mtime_ns // _SECOND
        if stat.S_ISREG(new.st_mode) and new.st_size == old.st_size and 0 <= seconds <= _MINUTE:
            modified = (old.st_mtime_ns // _SECOND + 1) * _SECOND
            os.utime(temporary, ns=(new.st_atime_ns, modified), dir_fd=directory, follow_symlinks=False)
            self._latest = max(self._latest, modified)

    async def wait(self) -> None:
        """Wait until no date lies in the future. Call it before a command starts."""
        seconds = (self._latest - time.time_ns()) / _SECOND
        if seconds > -_TICK:
            await asyncio.sleep(min(seconds + _TICK, _MOST_SECONDS))
