"""The one worker of this machine, as a process: its lock, and how it is started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from core.background.places import make_agents_dir
from core.errors import StateError

SUCCESSION_SECONDS: Final = 10.0  # as long as a worker that ends, or was killed, may take to be gone
_LOCK: Final = "worker.lock"
_PAUSE_SECONDS: Final = 0.05


class WorkerLock:
    """The lock of the one worker of this machine. Raises `StateError` if another one has it, for `patience` seconds."""

    def __init__(self, patience: float = 0.0) -> None:
        path = make_agents_dir() / _LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        deadline = monotonic() + patience
        while not self._acquire():
            if monotonic() >= deadline:
                os.close(self._descriptor)
                raise StateError("a worker of this machine runs already.", code="worker_running")
            sleep(_PAUSE_SECONDS)

    def _acquire(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let another worker run."""
        os.close(self._descriptor)


def start_worker(program: tuple[str, ...]) -> None:
    """Start the worker of this machine as a process of its own. `program`: the argv prefix of this program. Raises
    `StateError`.

    One is started even while another runs, which may have looked for work for the last time: the new one waits for
    its place, and goes when that does not get free.
    """
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
