"""A command in a box, followed through the reports of the process that ends it, and the boxes that start such commands.

However a command ends, nothing of it is left when `wait` returns: our end of the control socket keeps it alive, and the
other end is closed by the last of its processes. In tiers whose pid 1 is not ours, that process is a supervisor
(`core.sandbox.inside.supervisor`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import marshal
import os
import socket
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from core.clock import monotonic
from core.errors import ToolFailed
from core.ids import new_id
from core.processes import is_process_alive
from core.sandbox.box import BoxRequest, BoxResult, EndReason, RunningCommand, Tier
from core.sandbox.inside import messages
from core.sandbox.network import ListeningPort, SharedNetwork
from core.sandbox.output import OutputReader
from core.sandbox.tiers.dropped_changes import get_mask_layer_path, get_repository_layer_path
from core.sandbox.tiers.edit_channel import EditChannel
from core.sandbox.tiers.project_copy import remove_copy

if TYPE_CHECKING:
    from core.sandbox.inside.messages import BoxReport, CommandLaunch, OverlayRoot

_GRACE = 2.0
Listeners = Sequence[Callable[[str], None]]  # of the output, and of the errors if they are separate
# -I: no PYTHON* variables, no user site, no imports from the working directory. -S: no site-packages, whose .pth files
# run code. -B: no .pyc files, which a full disk truncates, so that the installation would not start any more.
ISOLATION = ("-I", "-S", "-B")
_IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); from core.sandbox.inside.{} import main"
_CALL = "main(*map(int, sys.argv[2:]))"
_END = 8.0
_CREDENTIALS = struct.Struct("3i")  # of the sender of a report, as this process sees it: pid, user, group
_PROBE_HINT = "`agent-tui doctor --probe` checks whether the sandbox of this machine still works."


def _read_sender(rights: Iterable[tuple[int, int, bytes]]) -> int:
    """Return the pid of the process that sent a report, 0 = it is not known."""
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0])
    return 0


class PreparedLaunch(Struct, kw_only=True):
    """A command to start. `finish` runs in a thread when it has ended and returns notes for the user.

    `undo` runs instead if the command was not started. `unproven`: as in `BoxResult`.
    """

    message: Mapping[str, object]
    finish: Callable[[], tuple[str, ...]]
    undo: Callable[[], tuple[str, ...]]
    unproven: str = ""


class BoxedProcess(ABC):
    """A command in a box; implements `core.sandbox.box.RunningCommand`."""

    start_limit: float | None = None  # seconds
    edits: EditChannel | None = None

    def __init__(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> None:
        self._launch, self._request, self._listeners = launch, request, listeners
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._pid = 0
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.create_future()
        self._ended = asyncio.Event()
        self._early_output: list[tuple[Callable[[str], None], str]] | None = []
        self._readers: list[OutputReader] = []
        self._stdin: asyncio.WriteTransport | None = None
        self._started_at = monotonic()
        self._timers: list[asyncio.TimerHandle] = []
        self._forced_end: EndReason | None = None
        self._exit_code: int | None = None
        self._kills = 0
        self._left: tuple[str, ...] = ()
        self._is_abandoned = False
        self._loop.add_reader(self._control, self._read_report)
        self._follow_task = asyncio.create_task(self._follow())

    def add_done_callback(self, callback: Callable[[BoxedProcess], object]) -> None:
        """Call `callback` when the command has ended."""
        self._follow_task.add_done_callback(lambda _: callback(self))

    async def start(self) -> None:
        """Start the command and wait until it runs. Raises `ToolFailed` if that fails, after all its processes have
        ended; a cancelled start waits for that no longer than the grace period."""
        try:
            await self._open_streams()
            async with asyncio.timeout(self.start_limit):
                await asyncio.shield(self._started)
        except BaseException as error:
            self._is_abandoned = True
            self.kill()
            await asyncio.wait(
                {self._follow_task}, timeout=_GRACE if isinstance(error, asyncio.CancelledError) else None
            )
            raise self._explain_failure(error) from None
        self._started_at = monotonic()
        if self._request.limits.seconds is not None:
            self._timers.append(self._loop.call_later(self._request.limits.seconds, self._force_end, "timed_out"))

    async def wait(self) -> BoxResult:
        return await asyncio.shield(self._follow_task)

    def send(self, data: bytes) -> None:
        if not self._request.interactive:
            raise ToolFailed("The command has no standard input.")
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    def close_input(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

    def interrupt(self) -> None:
        self._send_control(messages.INTERRUPT)

    async def stop(self) -> BoxResult:
        if not self._ended.is_set() and self._forced_end is None:
            self._forced_end = "stopped"
            self._send_control(messages.TERMINATE)
            self._timers.append(self._loop.call_later(_GRACE, self._close_control))
        return await self.wait()

    def kill(self) -> None:
        """End the command immediately."""
        self._force_end("stopped")

    @property
    def pid(self) -> int:
        return self._pid

    @abstractmethod
    async def _spawn(self, streams: list[int], control: int) -> None:
        """Start the process. `streams`: descriptors for output, errors and, if interactive, standard input."""

    @abstractmethod
    async def _release(self) -> None:
        """Release the resources of the process, which has ended."""

    def _explain_failure(self, error: BaseException) -> BaseException:
        return error

    def _get_shared_namespaces(self) -> tuple[int, ...]:
        """Return the namespaces of the shared network. Raises `ToolFailed` if it has ended meanwhile."""
        shared = self._request.network.namespaces if self._request.network is not None else ()
        if len(shared) != self._launch.message["shared_namespaces"]:
            raise ToolFailed("The network of the session's commands has ended.", hint="Run the command again.")
        return shared

    def _add_reader(self, listener: Callable[[str], None]) -> int:
        """Create a pipe that is read for `listener`; return its write end."""
        source, sink = os.pipe()
        on_output = partial(self._handle_output, listener)
        limit, on_limit = self._request.limits.output, partial(self._force_end, "flooded")
        self._readers.append(OutputReader(source, on_output, limit=limit, raw=self._request.raw, on_limit=on_limit))
        return sink

    async def _open_streams(self) -> None:
        """Start the process with its streams. Our copies are closed in any case, so that its end is noticed."""
        streams: list[int] = []
        try:
            sinks = [self._add_reader(listener) for listener in self._listeners]
            streams += (sinks[0], sinks[-1])
            if self._request.interactive:
                read_end, write_end = os.pipe()
                streams.append(read_end)
                self._stdin, _ = await self._loop.connect_write_pipe(
                    asyncio.BaseProtocol, os.fdopen(write_end, "wb", 0)
                )
            await self._spawn(streams, self._theirs.fileno())
        finally:
            for stream in set(streams):
                os.close(stream)
            self._theirs.close()

    def _handle_output(self, listener: Callable[[str], None], text: str) -> None:
        """Pass output on; buffer output from before the start, which is not the command's."""
        if self._early_output is not None:
            self._early_output.append((listener, text))
        else:
            listener(text)

    def _read_report(self) -> None:
        rights: list[tuple[int, int, bytes]] = []
        try:
            packet, rights, _, _ = self._control.recvmsg(65_536, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        report: BoxReport | None = marshal.loads(packet) if packet else None
        match report:
            case None:
                self._loop.remove_reader(self._control)
                self._resolve_start(ToolFailed("The sandbox ended before the command ran.", code="box_refused"))
                self._ended.set()
            case ("started",):
                self._pid = _read_sender(rights)
                self._resolve_start(None)
            case ("failed", step, number, text):
                self._resolve_start(explain_setup_failure(step, number, text))
            case ("exit", code):
                self._exit_code = code
            case ("left", commands):
                self._left = tuple(os.fsdecode(command) for command in commands)
            case ("memory",):
                self._forced_end = self._forced_end or "out_of_memory"
            case ("gone", kills):
                self._kills = kills

    def _resolve_start(self, failure: ToolFailed | None) -> None:
        if self._started.done():
            return
        if failure is not None:
            self._started.set_exception(failure)
            return
        early_output, self._early_output = self._early_output, None
        for listener, text in early_output or ():  # output of a quick command may arrive before the report of its start
            listener(text)
        self._started.set_result(None)

    def _send_control(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self._control.send(word)

    def _force_end(self, reason: EndReason) -> None:
        if not self._ended.is_set():
            self._forced_end = self._forced_end or reason
            self._close_control()

    def _close_control(self) -> None:
        """Half-close the control socket, which orders the end of the box; the last reports still arrive."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def _follow(self) -> BoxResult:
        await self._ended.wait()
        forced_end = self._forced_end
        for timer in self._timers:
            timer.cancel()
        self._control.close()
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.abort()
        await self._release()
        for reader in self._readers:
            reader.stop()
        has_run = self._started.exception() is None and not self._is_abandoned
        notes = await asyncio.to_thread(self._launch.finish if has_run else self._launch.undo)
        end_reason: EndReason = forced_end or ("lost" if self._exit_code is None else "exited")
        if self._kills and forced_end is None:
            notes = (*notes, "The kernel killed a process of it for using too much memory.")
            if self._exit_code in {None, 137}:
                end_reason = "out_of_memory"
        return BoxResult(
            exit_code=self._exit_code if end_reason == "exited" else None,
            end_reason=end_reason,
            duration_ms=round((monotonic() - self._started_at) * 1000),
            notes=notes,
            unproven=self._launch.unproven,
            left=self._left,
        )


class ProcessBox(ABC):
    """A `Box` that runs every command as a `BoxedProcess`."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._running: set[BoxedProcess] = set()

    @property
    def tier(self) -> Tier:
        return self._tier

    async def start(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> RunningCommand:
        if "\0" in request.command:
            raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
        launch = await asyncio.to_thread(self._prepare, request)
        running = self._make_process(launch, request, [on_output, *([on_errors] if on_errors else [])])
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        if request.network is not None:
            network = request.network
            network.add_box()
            running.add_done_callback(lambda _: network.remove_box())
        await running.start()
        return running

    async def open_network(self, on_ports: Callable[[tuple[ListeningPort, ...]], None]) -> SharedNetwork | None:
        command = self._get_network_command()
        if command is None:
            return None
        network = SharedNetwork(command, on_ports)
        await network.wait_until_ready()
        return network

    def _get_network_command(self) -> Sequence[str] | None:
        """Return the command for `SharedNetwork`; None: this tier has no network that could be shared."""
        return None

    async def close(self) -> None:
        for process in [*self._running]:
            await process.stop()

    @abstractmethod
    def _prepare(self, request: BoxRequest) -> PreparedLaunch:
        """Prepare the launch of a command; runs in a thread. Raises `ToolFailed` for a command that no box could
        run."""

    @abstractmethod
    def _make_process(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> BoxedProcess: ...


def encode_command(request: BoxRequest, arguments: Iterable[str | bytes], env: Mapping[str, str]) -> CommandLaunch:
    """Return the common part of a launch message."""
    limits = request.limits
    return {
        "arguments": [os.fsencode(argument) for argument in arguments],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "processes": limits.processes,
        "open_files": limits.open_files,
        "file_size": limits.file_size,
        "memory": limits.memory,
        "shared_namespaces": len(request.network.namespaces) if request.network is not None else 0,
    }


def encode_layers(request: BoxRequest, toolchains: Iterable[Path]) -> OverlayRoot:
    """Return the workspace, its layers, and other visible directories, for a launch message."""
    return {
        "workspace": os.fsencode(os.path.realpath(request.workspace)),
        "lowers": [os.fsencode(lower) for lower in request.lowers],
        "upper": os.fsencode(request.upper or b""),
        "work": os.fsencode(request.work or b""),
        "masked": [os.fsencode(path) for path in request.masked],
        "masks": os.fsencode(get_mask_layer_path(request.upper)) if request.upper else b"",
        "readable": [os.fsencode(path) for path in (*toolchains, *request.readable)],
        "writable": [(os.fsencode(path), os.fsencode(target)) for path, target in request.writable],
        "repository": os.fsencode(request.repository or b""),
        "repository_layer": os.fsencode(get_repository_layer_path(request.upper)) if request.upper else b"",
        "cache": os.fsencode(request.cache or b""),
        "temporary": os.fsencode(request.temporary or b""),
    }


def explain_setup_failure(step: str, number: int, text: str) -> ToolFailed:
    """Return the error for a set-up step that the kernel refused."""
    if step == "command" and number == errno.E2BIG:
        return ToolFailed("The command is too long to be started.", hint="Put it in a script file.")
    if step == "directory":
        return ToolFailed(f"The command's directory can't be entered: {text}.", hint="Give an existing one.")
    if not text:
        return ToolFailed(f"The sandbox could not be set up: {step}.")
    name = errno.errorcode.get(number, str(number))
    return ToolFailed(f"The sandbox could not be set up: {step}: {text} [{name}].", code="box_refused")


def build_python_command(module: str, *numbers: int | str) -> list[str]:
    """Return the arguments that run `main(*numbers)` of a module of `core.sandbox.inside`. A number may be a
    placeholder for one."""
    root = Path(__file__).parents[3]
    return [sys.executable, *ISOLATION, "-c", f"{_IMPORT.format(module)}; {_CALL}", str(root), *map(str, numbers)]


def make_scratch_path(state: Path) -> Path:
    """Return a fresh path below `state`, with our pid in its name, so that `_remove_abandoned` finds its owner."""
    return state / f"box-{os.getpid()}-{new_id('run')}"


def _remove_abandoned(state: Path) -> None:
    """Remove leftovers in `state` of engines that have ended."""
    for path in state.glob("box-*-run*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not is_process_alive(int(owner)):
            remove_copy(path)


class SupervisedProcess(BoxedProcess):
    """A command below a supervisor."""

    start_limit = 10.0
    _process: asyncio.subprocess.Process | None = None

    async def _spawn(self, streams: list[int], control: int) -> None:
        shared = self._get_shared_namespaces()
        with os.fdopen(os.memfd_create("launch"), "w+b", buffering=0) as message_file:
            message_file.write(marshal.dumps(dict(self._launch.message)))
            message_file.seek(0)
            self._process = await asyncio.create_subprocess_exec(
                *build_python_command("supervisor", message_file.fileno(), control, *shared),
                env={},
                cwd="/",
                stdin=streams[2] if self._request.interactive else asyncio.subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                pass_fds=(message_file.fileno(), control, *shared),
                start_new_session=True,
            )

    def _explain_failure(self, error: BaseException) -> BaseException:
        """Return the error to raise, with the output of bubblewrap or the supervisor as its reason."""
        if isinstance(error, ToolFailed):
            output = "".join(text for _, text in self._early_output or ()).strip()
            if "Can't chdir" in output:
                return explain_setup_failure("directory", errno.ENOENT, output.rpartition(": ")[2])
            return ToolFailed(
                f"{error.message}{f' ({output})' if output else ''}", hint=error.hint or _PROBE_HINT, code=error.code
            )
        if isinstance(error, TimeoutError):
            return ToolFailed(
                f"The sandbox was not ready within {self.start_limit:g} s.", hint=_PROBE_HINT, code="box_refused"
            )
        if isinstance(error, OSError):
            return ToolFailed(
                f"The sandbox could not be started: {error.strerror}.", hint=_PROBE_HINT, code="box_refused"
            )
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
    """A `Box` with supervisors. `state`: our directory for scratch directories and copies, hidden from commands."""

    def __init__(self, tier: Tier, state: Path) -> None:
        super().__init__(tier)
        self._state = state
        self._is_swept = False

    def _prepare(self, request: BoxRequest) -> PreparedLaunch:
        if request.proxy is not None:
            raise ToolFailed(
                f"Commands have no network in tier {self._tier}.", hint="`agent-tui doctor` says what T1 needs."
            )
        if not request.workspace.is_dir():
            raise ToolFailed(f"The workspace {request.workspace} can't be read: it is not a directory.")
        missing = [lower for lower in request.lowers if not lower.is_dir()]
        if missing:
            raise ToolFailed(f"The sandbox could not be set up: the layer {missing[0]} is missing.", code="box_refused")
        if not self._is_swept:
            self._is_swept = True
            _remove_abandoned(self._state)
        return self._prepare_launch(request)

    @abstractmethod
    def _prepare_launch(self, request: BoxRequest) -> PreparedLaunch:
        """Prepare a command whose request is valid; runs in a thread."""

    def _make_process(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> BoxedProcess:
        return SupervisedProcess(launch, request, listeners)
