"""The login of a hosted agent: a copy of the directories that hold it, which the agent may change as it likes.

What such a directory holds is read by the agent outside of the box, too, some of it as programs to run (hooks). So
the agent works on a copy that stays with the session, and of what it changed there only the named files go back: the
tokens, which it refreshes.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.errors import StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_directories import make_private_directory
from core.git.layout import read_small_file
from core.providers.hosted_agents import HostedAgent

MAX_FILE: Final = 4 << 20  # bytes of a file that is copied
MAX_TOTAL: Final = 64 << 20
# Conversations, caches and logs of other days: large, and nothing that a new conversation needs.
_LEFT_OUT: Final = frozenset(
    {
        "projects",
        "sessions",
        "todos",
        "shell-snapshots",
        "file-history",
        "statsig",
        "logs",
        "log",
        "debug",
        "cache",
        "tmp",
    }
)


class LoginCopy:
    """The copy for one agent in one session, below `directory`."""

    def __init__(self, agent: HostedAgent, directory: Path) -> None:
        self._agent, self._place = agent, directory
        self.is_by_key = False  # the agent was logged in by a key, which is none of the tokens that go back

    def _pairs(self) -> Iterator[tuple[Path, Path]]:
        """Yield each copy with the directory that it is one of."""
        for number, original in enumerate(self._agent.list_login_directories()):
            yield self._place / self._agent.name / str(number), original

    def prepare(self) -> tuple[tuple[Path, Path], ...]:
        """Make the copies, or bring the tokens of those that are there up to date; return each with the directory in
        whose place it stands. Raises `StateError`."""
        try:
            for copy, original in self._pairs():
                if copy.is_dir():
                    self._copy_tokens(original, copy)
                else:
                    make_private_directory(copy.parent)
                    copy.mkdir(mode=0o700)
                    _copy_directory(original, copy)
        except OSError as problem:
            raise StateError(f"The login of {self._agent.name} can't be copied: {problem.strerror}.") from problem
        return tuple(self._pairs())

    def keep_tokens(self) -> None:
        """Write tokens that the agent has refreshed back to the user's own directories; new ones are no such. A key of
        the environment, with which it was logged in for this run, is put on no disk."""
        for copy, original in self._pairs():
            if self.is_by_key:
                self._forget_tokens(copy)
            else:
                self._copy_tokens(copy, original, only_known=True)

    def _forget_tokens(self, copy: Path) -> None:
        for name in self._agent.tokens:
            (copy / name).unlink(missing_ok=True)

    def _copy_tokens(self, source: Path, target: Path, *, only_known: bool = False) -> None:
        for name in self._agent.tokens:
            data, current_data = _read_small(source / name), _read_small(target / name)
            if data is not None and data != current_data and (current_data is not None or not only_known):
                replace_file(target / name, data)


def _read_small(path: Path) -> bytes | None:
    """Return the bytes of a small regular file; None: it is none. No link is followed: the agent may have made it."""
    with suppress(OSError):
        return read_small_file(path, MAX_FILE)
    return None


def _copy_directory(source: Path, target: Path) -> None:
    remaining_size = MAX_TOTAL
    for above, directories, names in os.walk(source):
        directories[:] = [directory for directory in directories if directory not in _LEFT_OUT]
        target_directory = target / Path(above).relative_to(source)
        target_directory.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            path = Path(above) / name
            file_stat = path.lstat()
            if stat.S_ISREG(file_stat.st_mode) and file_stat.st_size <= min(MAX_FILE, remaining_size):
                remaining_size -= file_stat.st_size
                shutil.copyfile(path, target_directory / name)
                (target_directory / name).chmod(stat.S_IMODE(file_stat.st_mode) & 0o700)
