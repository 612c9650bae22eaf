"""The one worker of this machine, as a process: its lock, and how it is started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.background.places import get_agents_dir, make_agents_dir
from core.errors import StateError
from core.sessions.store import is_lock_held

_LOCK: Final = "worker.lock"


class WorkerLock:
    """The lock of the one worker of this machine. Raises `StateError` if another one has it."""

    def __init__(self) -> None:
        path = make_agents_dir() / _LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise StateError("a worker of this machine runs already.", code="worker_running") from None

    def close(self) -> None:
        """Let another worker run."""
        os.close(self._descriptor)


def is_worker_running() -> bool:
    """True if the worker of this machine runs."""
    return is_lock_held(get_agents_dir() / _LOCK, absent=False)


def start_worker(program: tuple[str, ...]) -> None:
    """Start the worker of this machine as a process of its own, unless it runs. `program`: the argv prefix of this
    program. Raises `StateError`."""
    if is_worker_running():
        return
    log = make_agents_dir() / "worker.log"
    with _open_log(log) as output:
        try:
            subprocess.Popen(
                [*program, "agents", "worker", "--until-idle"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as problem:
            raise StateError(f"the worker can't be started: {problem.strerror}.") from problem


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
