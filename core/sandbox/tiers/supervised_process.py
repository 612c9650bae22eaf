"""Commands below a supervisor process of ours (`core.sandbox.inside.supervisor`), which ends them with the engine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import marshal
import os
from abc import abstractmethod
from pathlib import Path

from core.errors import ToolFailed
from core.ids import new_id
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.python_command import build_python_command
from core.sandbox.tiers.boxed_process import BoxedProcess, Listeners, PreparedLaunch, ProcessBox, explain_setup_failure
from core.sandbox.tiers.project_copy import remove_copy

_END = 8.0
_HINT = "`agent-tui doctor --probe` tells whether this machine's box still works."


def name_scratch_directory(state: Path) -> Path:
    """Return a fresh directory name below `state`; it holds our pid, so that `_remove_abandoned` can tell its owner."""
    return state / f"box-{os.getpid()}-{new_id('run')}"


def _remove_abandoned(state: Path) -> None:
    """Remove what commands of engines that are gone left in `state`."""
    for path in state.glob("box-*-run*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove_copy(path)


class SupervisedProcess(BoxedProcess):
    """A command below a supervisor."""

    start_limit = 10.0
    _process: asyncio.subprocess.Process | None = None

    async def _spawn(self, streams: list[int], control: int) -> None:
        with os.fdopen(os.memfd_create("launch"), "w+b", buffering=0) as message_file:
            message_file.write(marshal.dumps(dict(self._launch.message)))
            message_file.seek(0)
            self._process = await asyncio.create_subprocess_exec(
                *build_python_command("supervisor", message_file.fileno(), control),
                env={},
                cwd="/",
                stdin=streams[2] if self._request.interactive else asyncio.subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                pass_fds=(message_file.fileno(), control),
                start_new_session=True,
            )

    def _explain_failure(self, error: BaseException) -> BaseException:
        """Return the failure to show; what bubblewrap or the supervisor wrote is the best reason there is."""
        if isinstance(error, ToolFailed):
            output = "".join(text for _, text in self._early_output or ()).strip()
            if "Can't chdir" in output:
                return explain_setup_failure("directory", errno.ENOENT, output.rpartition(": ")[2])
            return ToolFailed(
                f"{error.message}{f' ({output})' if output else ''}", hint=error.hint or _HINT, code=error.code
            )
        if isinstance(error, TimeoutError):
            return ToolFailed(f"The box was not ready within {self.start_limit:g} s.", hint=_HINT, code="box_refused")
        if isinstance(error, OSError):
            return ToolFailed(f"The box could not be started: {error.strerror}.", hint=_HINT, code="box_refused")
        return error

    def _close_control(self) -> None:
        super()._close_control()
        self._timers.append(self._loop.call_later(_END, self._kill_supervisor))

    def _kill_supervisor(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _release(self) -> None:
        if self._process is not None:
            await self._process.wait()


class SupervisedBox(ProcessBox):
    """A `Box`. `state` is a directory of ours, hidden from commands; scratch directories and copies are made in it."""

    def __init__(self, tier: Tier, state: Path) -> None:
        super().__init__(tier)
        self._state = state
        self._is_swept = False

    def _prepare(self, request: BoxRequest) -> PreparedLaunch:
        if request.proxy is not None:
            raise ToolFailed(
                f"Commands have no network in tier {self._tier}.", hint="`agent-tui doctor` says what T1 takes."
            )
        if not request.workspace.is_dir():
            raise ToolFailed(f"The workspace {request.workspace} can't be read: it is no directory.")
        missing = [lower for lower in request.lowers if not lower.is_dir()]
        if missing:
            raise ToolFailed(f"The box could not be set up: the layer {missing[0]} is not there.", code="box_refused")
        if not self._is_swept:
            self._is_swept = True
            _remove_abandoned(self._state)
        return self._prepare_launch(request)

    @abstractmethod
    def _prepare_launch(self, request: BoxRequest) -> PreparedLaunch:
        """Prepare a command that is possible; runs in a thread."""

    def _make_process(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> BoxedProcess:
        return SupervisedProcess(launch, request, listeners)
