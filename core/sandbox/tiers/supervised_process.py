"""Commands below a supervisor process of ours (`core.sandbox.inside.supervisor`): started, followed and ended.

However it ends, nothing of it is left when `wait` returns. The supervisor ends it as well when the engine dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import marshal
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from core.clock import monotonic
from core.errors import ToolFailed
from core.ids import new_id
from core.sandbox.box import BoxRequest, BoxResult, EndReason, RunningCommand, Tier
from core.sandbox.inside import messages
from core.sandbox.output import OutputReader, wait_flooded
from core.sandbox.python_command import build_python_command
from core.sandbox.tiers.namespaces import explain_setup_failure
from core.sandbox.tiers.project_copy import remove_copy

if TYPE_CHECKING:
    from core.sandbox.inside.messages import BoxReport, SupervisorLaunch

_GRACE = 2.0
_END = 8.0
_START = 10.0
_HINT = "`agent-tui doctor --probe` tells whether this machine's box still works."


def _return_no_notes() -> tuple[str, ...]:
    return ()


def _do_nothing() -> None:
    return None


class PreparedLaunch(Struct, kw_only=True):
    """A process to start. `finish` runs in a thread when the command is over and returns notes for the user.

    `undo` runs instead of it if nothing was started.
    """

    message: SupervisorLaunch
    finish: Callable[[], tuple[str, ...]] = _return_no_notes
    undo: Callable[[], object] = _do_nothing


def reject_impossible(request: BoxRequest) -> None:
    """Raise `ToolFailed` for what no box could run, before anything is prepared for it."""
    if "\0" in request.command:
        raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
    if not request.workspace.is_dir():
        raise ToolFailed(f"The workspace {request.workspace} can't be read: it is no directory.")
    missing = [lower for lower in request.lowers if not lower.is_dir()]
    if missing:
        raise ToolFailed(f"The box could not be set up: the layer {missing[0]} is not there.", code="box_refused")


def name_scratch_directory(state: Path) -> Path:
    """Return a fresh directory name below `state`; it holds our pid, so that `remove_abandoned` can tell its owner."""
    return state / f"box-{os.getpid()}-{new_id('run')}"


def remove_abandoned(state: Path) -> None:
    """Remove what commands of engines that are gone left in `state`."""
    for path in state.glob("box-*-run*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove_copy(path)


class SupervisedProcess:
    """A command that was started; implements `core.sandbox.box.RunningCommand`."""

    def __init__(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None
    ) -> None:
        self._request = request
        self._early_output: list[tuple[Callable[[str], None], str]] | None = []
        self._listeners = [on_output, *([on_errors] if on_errors else [])]
        self._readers: list[OutputReader] = []
        self._process: asyncio.subprocess.Process | None = None
        self._exit_code: int | None = None
        self._end_reason: EndReason | None = None
        self._control_closed = False
        self._start_outcome = asyncio.get_running_loop().create_future()
        self._stop_now = asyncio.Event()
        self._follow_task: asyncio.Task[BoxResult] | None = None

    @classmethod
    async def start(
        cls,
        launch: PreparedLaunch,
        request: BoxRequest,
        on_output: Callable[[str], None],
        on_errors: Callable[[str], None] | None = None,
    ) -> SupervisedProcess:
        """Start it and wait until the command itself runs. Raises `ToolFailed` with the reason if it never does."""
        running = cls(request, on_output, on_errors)
        try:
            await running._launch(launch.message)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(launch.undo))
            raise
        running._follow_task = asyncio.create_task(running._follow(launch.finish))
        return running

    def add_done_callback(self, callback: Callable[[SupervisedProcess], object]) -> None:
        """Call `act` once the command is over."""
        assert self._follow_task is not None
        self._follow_task.add_done_callback(lambda _: callback(self))

    async def wait(self) -> BoxResult:
        assert self._follow_task is not None
        return await asyncio.shield(self._follow_task)

    def send(self, data: bytes) -> None:
        if not self._request.interactive:
            raise ToolFailed("The command has no standard input.")
        stdin = self._process.stdin if self._process else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(data)

    def interrupt(self) -> None:
        self._send_control(messages.INTERRUPT)

    async def stop(self) -> BoxResult:
        if not self._control_closed:
            self._end_reason = self._end_reason or "stopped"
        self._send_control(messages.TERMINATE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                return await self.wait()
        self._stop_now.set()
        return await self.wait()

    async def _launch(self, message: SupervisorLaunch) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        sinks = [self._add_reader(each) for each in self._listeners]
        self._started = monotonic()
        try:
            with theirs, contextlib.ExitStack() as opened:
                for sink in sinks:
                    opened.callback(os.close, sink)
                await self._spawn(message, (sinks[0], sinks[-1]), theirs.fileno())
            asyncio.get_running_loop().add_reader(self._control, self._read_report)
            async with asyncio.timeout(_START):
                await self._start_outcome
        except BaseException as error:
            await asyncio.shield(self._end_all())
            self._stop_reading()
            raise self._explain_failure(error) from error

    def _add_reader(self, listener: Callable[[str], None]) -> int:
        """Read an output for `listener`; return the descriptor to write to."""
        source, sink = os.pipe()
        limits = self._request.limits
        heard = partial(self._handle_output, listener)
        self._readers.append(OutputReader(source, heard, limit=limits.output, raw=self._request.raw))
        return sink

    def _stop_reading(self) -> None:
        for reader in self._readers:
            reader.stop()

    async def _spawn(self, message: SupervisorLaunch, sinks: tuple[int, int], control: int) -> None:
        with os.fdopen(os.memfd_create("launch"), "w+b", buffering=0) as message_file:
            message_file.write(marshal.dumps(dict(message)))
            message_file.seek(0)
            await self._execute(sinks, message_file.fileno(), control)

    async def _execute(self, sinks: tuple[int, int], message_file: int, control: int) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *build_python_command("supervisor", message_file, control),
            env={},
            cwd="/",
            stdin=asyncio.subprocess.PIPE if self._request.interactive else asyncio.subprocess.DEVNULL,
            stdout=sinks[0],
            stderr=sinks[1],
            pass_fds=(message_file, control),
            start_new_session=True,
        )

    def _explain_failure(self, error: BaseException) -> BaseException:
        """Return the failure to show; what bubblewrap or the supervisor wrote is the best reason there is."""
        if isinstance(error, ToolFailed):
            written = "".join(text for _, text in self._early_output or ()).strip()
            if "Can't chdir" in written:
                return explain_setup_failure("directory", errno.ENOENT, written.rpartition(": ")[2])
            return ToolFailed(
                f"{error.message}{f' ({written})' if written else ''}", hint=error.hint or _HINT, code=error.code
            )
        if isinstance(error, TimeoutError):
            return ToolFailed(f"The box was not ready within {_START:g} s.", hint=_HINT, code="box_refused")
        if isinstance(error, OSError):
            return ToolFailed(f"The box could not be started: {error.strerror}.", hint=_HINT, code="box_refused")
        return error

    def _handle_output(self, listener: Callable[[str], None], text: str) -> None:
        """Pass output on; hold back what is written before the command runs, as it is not the command's."""
        if self._early_output is not None:
            self._early_output.append((listener, text))
        else:
            listener(text)

    def _read_report(self) -> None:
        try:
            data = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._resolve_start(ToolFailed("The box ended before the command ran."))
            asyncio.get_running_loop().remove_reader(self._control)
            return
        report: BoxReport = marshal.loads(data)
        match report:
            case ("started",):
                self._resolve_start(None)
            case ("failed", step, number, text):
                self._resolve_start(
                    explain_setup_failure(step, number, text)
                    if number
                    else ToolFailed(f"The box could not be set up: {step}.")
                )
            case ("exit", code):
                self._exit_code = code
            case ("memory",):
                self._end_reason = "out_of_memory"
            case ("gone", kills):
                self._end_reason = "out_of_memory" if kills else self._end_reason

    def _resolve_start(self, failure: ToolFailed | None) -> None:
        if self._start_outcome.done():
            return
        if failure is None:
            written, self._early_output = self._early_output, None
            for listener, text in written or ():  # of a command so quick that it spoke before we heard that it runs
                listener(text)
            self._start_outcome.set_result(None)
        else:
            self._start_outcome.set_exception(failure)

    def _send_control(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self._control.send(word)

    async def _follow(self, finish: Callable[[], tuple[str, ...]]) -> BoxResult:
        ended = await self._wait_for_end()
        await self._end_all()
        self._stop_reading()
        notes = await asyncio.to_thread(finish)
        if ended == "exited" and self._end_reason is not None:
            ended = self._end_reason
        elif ended == "exited" and self._exit_code is None:
            ended = "lost"
        return BoxResult(
            exit_code=self._exit_code if ended == "exited" else None,
            end_reason=ended,
            duration_ms=round((monotonic() - self._started) * 1000),
            notes=notes,
        )

    async def _wait_for_end(self) -> EndReason:
        assert self._process is not None
        reasons: dict[asyncio.Task[object], EndReason] = {
            asyncio.create_task(self._process.wait()): "exited",
            asyncio.create_task(wait_flooded(self._readers)): "flooded",
            asyncio.create_task(self._stop_now.wait()): "stopped",
        }
        try:
            done, _ = await asyncio.wait(
                reasons, timeout=self._request.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in reasons:
                each.cancel()
        return next((ended for each, ended in reasons.items() if each in done), "timed_out")

    async def _end_all(self) -> None:
        """Half-close the control socket, which means "end everything"; the last reports still arrive."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        if self._process is not None:
            try:
                async with asyncio.timeout(_END):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._read_last_reports()
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        self._control_closed = True

    def _read_last_reports(self) -> None:
        """Read the reports that came with the end itself."""
        for _ in range(8):
            self._read_report()


class SupervisedBox(ABC):
    """A `Box`. `state` is a directory of ours, hidden from commands; scratch directories and copies are made in it."""

    def __init__(self, tier: Tier, state: Path) -> None:
        self._tier = tier
        self._state = state
        self._running: set[SupervisedProcess] = set()
        self._is_swept = False

    @property
    def tier(self) -> Tier:
        return self._tier

    async def start(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> RunningCommand:
        if request.proxy is not None:
            raise ToolFailed(
                f"Commands have no network in tier {self._tier}.", hint="`agent-tui doctor` says what T1 takes."
            )
        reject_impossible(request)
        if not self._is_swept:
            self._is_swept = True
            await asyncio.to_thread(remove_abandoned, self._state)
        launch = await asyncio.to_thread(self._prepare, request)
        running = await SupervisedProcess.start(launch, request, on_output, on_errors)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    async def close(self) -> None:
        for each in [*self._running]:
            await each.stop()

    @abstractmethod
    def _prepare(self, request: BoxRequest) -> PreparedLaunch:
        """Prepare what the command needs; runs in a thread."""
