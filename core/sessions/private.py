"""Where a private session lives: a directory in memory that goes when the program ends.

It is locked by its process; one that is not was left by a process that was killed, and the next start removes it. Where
no directory of this user lies in memory, it is one on the disk, which is said.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.errors import StateError
from core.sessions.store import is_held
from core.user_dirs import state_dir
from core.workspace.removing import remove_tree
from core.workspace.uppers import MEMORY, file_system

PREFIX: Final = "agent-tui-private-"
_LOCK: Final = "lock"


def _in_memory() -> Iterator[Path]:
    """Directories of this user's, or of everybody's, that lie in memory."""
    for place in {Path(os.environ.get("XDG_RUNTIME_DIR") or MEMORY), MEMORY}:
        if (
            place.is_absolute()
            and place.is_dir()
            and file_system(place) in {"tmpfs", "ramfs"}
            and os.access(place, os.W_OK | os.X_OK)
        ):
            yield place


def _room(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


class PrivatePlace:
    """`path` is 0700; `in_memory` False: it lies on a disk until `remove`."""

    def __init__(self, path: Path, *, in_memory: bool) -> None:
        self.path = path
        self.in_memory = in_memory
        self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def make(cls) -> PrivatePlace:
        """In the place in memory with the most room. Raises `StateError`."""
        for place in sorted(_in_memory(), key=_room, reverse=True):
            with suppress(OSError):
                return cls(Path(tempfile.mkdtemp(prefix=PREFIX, dir=place)), in_memory=True)
        try:
            state_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
            return cls(Path(tempfile.mkdtemp(prefix=PREFIX, dir=state_dir())), in_memory=False)
        except OSError as problem:
            raise StateError(
                f"a private session can't be kept in memory nor in {state_dir()}: {problem.strerror}.",
                hint="Give $XDG_RUNTIME_DIR or /dev/shm room, or set AGENT_TUI_STATE_DIR to a directory of your own.",
            ) from problem

    def remove(self) -> None:
        """All of it; what can't be removed now, the next start removes."""
        with suppress(OSError):
            remove_tree(self.path)
        os.close(self._lock)


def place_of(session: Path) -> Path | None:
    """The private place that a session's directory lies in; None: it is kept."""
    return next((each for each in session.parents if each.name.startswith(PREFIX)), None)


def abandoned() -> list[Path]:
    """Places whose process is gone."""
    found = []
    for above in {*_in_memory(), state_dir()}:
        with suppress(OSError):
            ours = filter(_is_ours, above.glob(f"{PREFIX}*"))
            found += [
                each for each in ours if not is_held(each / _LOCK, absent=True)
            ]  # one without a lock is being made
    return sorted(found)


def _is_ours(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700
