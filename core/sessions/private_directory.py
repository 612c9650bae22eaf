"""The directory of a private session: in memory, removed when the program ends.

Its process locks it; an unlocked one was left by a killed process, and the next start removes it. If no directory of
this user is in memory, one on the disk is used, and the user is informed.
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
from core.filesystem.open_files import is_lock_held
from core.filesystem.overlay_support import SHARED_MEMORY, find_file_system_type
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.user_dirs import get_state_dir

PREFIX: Final = "agent-tui-private-"
_LOCK: Final = "lock"


def _find_memory_directories() -> Iterator[Path]:
    """Iterate over writable directories in memory, of this user or of everybody."""
    for directory in {Path(os.environ.get("XDG_RUNTIME_DIR") or SHARED_MEMORY), SHARED_MEMORY}:
        if (
            directory.is_absolute()
            and directory.is_dir()
            and find_file_system_type(directory) in {"tmpfs", "ramfs"}
            and os.access(directory, os.W_OK | os.X_OK)
        ):
            yield directory


def _count_free_bytes(directory: Path) -> int:
    stats = os.statvfs(directory)
    return stats.f_bavail * stats.f_frsize


class PrivateDirectory:
    """A private session's directory (0700) at `path`; `in_memory` False: it is on a disk until `remove`."""

    def __init__(self, path: Path, *, in_memory: bool) -> None:
        self.path = path
        self.in_memory = in_memory
        self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def create(cls) -> PrivateDirectory:
        """Create one in the memory file system with the most room. Raises `StateError`."""
        for directory in sorted(_find_memory_directories(), key=_count_free_bytes, reverse=True):
            with suppress(OSError):
                return cls(Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory)), in_memory=True)
        try:
            make_private_directory(get_state_dir())
            return cls(Path(tempfile.mkdtemp(prefix=PREFIX, dir=get_state_dir())), in_memory=False)
        except OSError as problem:
            raise StateError(
                f"a private session can be kept neither in memory nor in {get_state_dir()}: {problem.strerror}.",
                hint=(
                    "Free some space in $XDG_RUNTIME_DIR or /dev/shm, or set AGENT_TUI_STATE_DIR to a "
                    "directory of your own."
                ),
            ) from problem

    def remove(self) -> None:
        """Remove all of it; the next start removes the rest of a failed removal."""
        with suppress(OSError):
            remove_tree(self.path)
        os.close(self._lock)


def find_private_directory(session: Path) -> Path | None:
    """Return the private directory around a session's directory; None = the session is not private."""
    return next((parent for parent in session.parents if parent.name.startswith(PREFIX)), None)


def find_abandoned() -> list[Path]:
    """Return private directories whose process is gone."""
    directories = []
    for above in {*_find_memory_directories(), get_state_dir()}:
        with suppress(OSError):
            candidates = filter(_is_ours, above.glob(f"{PREFIX}*"))  # one without a lock is just being created
            directories += [candidate for candidate in candidates if not is_lock_held(candidate / _LOCK, absent=True)]
    return sorted(directories)


def _is_ours(path: Path) -> bool:
    stats = path.lstat()
    return stat.S_ISDIR(stats.st_mode) and stats.st_uid == os.geteuid() and stat.S_IMODE(stats.st_mode) == 0o700
