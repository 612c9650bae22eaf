"""Tier T1: a command in namespaces of its own, over an overlay of the workspace, from a warm fork server.

This is the engine's side: it turns a `BoxRequest` into a launch message, reads the output, and enforces the time limit.
What happens inside is in `core.sandbox.inside`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import marshal
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.clock import monotonic
from core.errors import ToolFailed
from core.sandbox import host_paths
from core.sandbox.box import BoxRequest, BoxResult, EndReason, Tier
from core.sandbox.inside import messages
from core.sandbox.output import OutputReader, wait_flooded
from core.sandbox.tiers.fork_server_client import ForkServerClient
from core.sandbox.tiers.masked_files import name_mask_layer, remove_masked_changes
from core.sandbox.toolchains import find_credentials
from core.sandbox.unboxed_run import find_shell

if TYPE_CHECKING:
    from core.sandbox.inside.messages import BoxReport, NamespaceLaunch

_GRACE = 2.0
_PROXY = f"http://127.0.0.1:{messages.PROXY_PORT}"
_PROXY_ENV = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}


class NamespaceBox:
    """The strongest box that Linux offers without the help of another program."""

    def __init__(self, *, control_groups: bool = True) -> None:
        """`control_groups` False: make none, as on machines that do not allow it."""
        self._control_groups = control_groups
        self._server: ForkServerClient | None = None
        self._running: set[NamespaceProcess] = set()

    @property
    def tier(self) -> Tier:
        return Tier.NAMESPACES

    def _ensure_server(self) -> ForkServerClient:
        """Return the fork server: started with the first command, and again after it has ended."""
        if self._server is not None and not self._server.is_alive():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = ForkServerClient(control_groups=self._control_groups)
        return self._server

    async def start(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> NamespaceProcess:
        """See `Box.start`. The message of a failure names the step and the kernel's reason."""
        wanted = await asyncio.to_thread(build_launch, request)  # once a minute it looks through toolchains
        server = self._ensure_server()
        run = NamespaceProcess(request, on_output, on_errors)
        run.launch(server, wanted)
        self._running.add(run)
        run.add_done_callback(self._running.discard)
        try:
            await run.wait_started()
        except BaseException:
            run.kill()
            raise
        return run

    async def close(self) -> None:
        """See `Box.close`."""
        running = list(self._running)
        for run in running:
            run.kill()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.close)
        for run in running:
            await run.wait()


def build_launch(request: BoxRequest) -> NamespaceLaunch:
    """Build the launch message of one command. Raises `ToolFailed` for what no box could run."""
    if "\0" in request.command:
        raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
    home = host_paths.find_home(request.env)
    workspace = Path(os.path.realpath(request.workspace))
    env = {**_build_root_environment(), **request.env, "HOME": str(home), **(_PROXY_ENV if request.proxy else {})}
    limits, bound = request.limits, host_paths.find_toolchains(request.env)
    return {
        "arguments": [os.fsencode(find_shell()), b"-c", request.command.encode("utf-8", "surrogateescape")],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "workspace": os.fsencode(workspace),
        "cwd": os.fsencode(request.cwd),
        "lowers": [os.fsencode(lower) for lower in request.lowers],
        "upper": os.fsencode(request.upper) if request.upper else b"",
        "work": os.fsencode(request.work) if request.work else b"",
        "home": os.fsencode(home),
        "cache": os.fsencode(request.cache) if request.cache else b"",
        "readable": [os.fsencode(path) for path in (*bound, *request.readable)],
        "hidden": [os.fsencode(path) for path in (*_list_hidden(request, workspace, home), *find_credentials(bound))],
        "withheld": [os.fsencode(path) for path in request.withheld],
        "masked": [os.fsencode(path) for path in request.masked],
        "masks": os.fsencode(name_mask_layer(request.upper)) if request.upper else b"",
        "proxy": os.fsencode(request.proxy) if request.proxy else b"",
        "processes": limits.processes,
        "processes_by_pid": 0,
        "owner": _find_owner(workspace),
        "open_files": limits.open_files,
        "file_size": limits.file_size,
        "memory": limits.memory,
        "scratch": limits.scratch,
    }


def _build_root_environment() -> dict[str, str]:
    """Return variables for root, who can't give files away in a box: else tar would try, and fail."""
    return {"TAR_OPTIONS": "--no-same-owner"} if os.geteuid() == 0 else {}


def _list_hidden(request: BoxRequest, workspace: Path, home: Path) -> list[Path]:
    kept = {workspace, home, Path(os.path.realpath(home))}
    return [path for path in (*host_paths.list_masked(), *request.hidden) if path not in kept]


def _find_owner(workspace: Path) -> tuple[int, int] | None:
    """Return user and group that root becomes for another user's workspace, so as to have that user's rights only."""
    try:
        found = workspace.stat()
    except OSError as error:
        raise ToolFailed(f"The workspace {workspace} can't be read: {error.strerror}.") from error
    return (found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None


class NamespaceProcess:
    """A command in a box of `NamespaceBox`; implements `RunningCommand`."""

    def __init__(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None
    ) -> None:
        self._request = request
        self._listeners = [on_output, *([on_errors] if on_errors else [])]
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._stdin = -1
        self._unsent = bytearray()
        self._readers: list[OutputReader] = []
        self._started_at = monotonic()
        self._loop = asyncio.get_running_loop()
        self._first_report: asyncio.Future[BoxReport] = self._loop.create_future()
        self._result: asyncio.Future[BoxResult] = self._loop.create_future()
        self._forced_end: EndReason | None = None
        self._exit_code: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flood_task: asyncio.Task[None] | None = None
        self._end_callbacks: list[Callable[[NamespaceProcess], None]] = []

    def launch(self, server: ForkServerClient, message: NamespaceLaunch) -> None:
        """Send the launch message and begin to read. Raises `ToolFailed` if the server is gone."""
        streams = []
        for hearer in self._listeners:
            source, sink = os.pipe()
            self._readers.append(OutputReader(source, hearer, limit=self._request.limits.output, raw=self._request.raw))
            streams.append(sink)
        streams = [streams[0], streams[-1]]
        if self._request.interactive:
            given, self._stdin = os.pipe()
            os.set_blocking(self._stdin, False)
            streams.append(given)
        try:
            server.launch(message, self._theirs, streams)
        except ToolFailed:
            self._finish(None)
            raise
        finally:
            for each in set(streams):
                os.close(each)
            self._theirs.close()
        self._loop.add_reader(self._control.fileno(), self._read_report)

    def add_done_callback(self, callback: Callable[[NamespaceProcess], None]) -> None:
        self._end_callbacks.append(callback)

    async def wait_started(self) -> None:
        """Wait until the command runs. Raises `ToolFailed`, after all of it is gone, if it never will."""
        report = await asyncio.shield(self._first_report)
        if report[0] == "failed":
            await asyncio.shield(self._result)
            raise explain_setup_failure(report[1], report[2], report[3])
        if report[0] != "started":
            raise ToolFailed("The box ended before the command could start.")
        self._started_at = monotonic()
        if self._request.limits.seconds is not None and not self._result.done():
            self._timer = self._loop.call_later(self._request.limits.seconds, self._force_end, "timed_out")
        self._flood_task = self._loop.create_task(self._end_when_flooded())

    async def wait(self) -> BoxResult:
        """See `RunningCommand.wait`."""
        return await asyncio.shield(self._result)

    def send(self, data: bytes) -> None:
        """See `RunningCommand.send`."""
        if self._stdin < 0:
            if not self._request.interactive:
                raise ToolFailed("The command has no standard input.")
            return
        self._unsent += data
        self._write_stdin()

    def interrupt(self) -> None:
        """See `RunningCommand.interrupt`."""
        self._send_control(messages.INTERRUPT)

    async def stop(self) -> BoxResult:
        """See `RunningCommand.stop`."""
        if not self._result.done() and self._forced_end is None:
            self._forced_end = "stopped"
            self._send_control(messages.TERMINATE)
            self._loop.call_later(_GRACE, self._close_control)
        return await self.wait()

    def kill(self) -> None:
        """End it at once, whether or not anyone waits."""
        self._force_end("stopped")

    def _force_end(self, reason: EndReason) -> None:
        if self._forced_end is None:
            self._forced_end = reason
        self._close_control()

    def _close_control(self) -> None:
        """Close our side of the control socket, at which pid 1 ends itself and everything with it."""
        if not self._result.done():
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)

    def _send_control(self, word: bytes) -> None:
        if not self._result.done():
            with contextlib.suppress(OSError):
                self._control.send(word)

    async def _end_when_flooded(self) -> None:
        await wait_flooded(self._readers)
        self._force_end("flooded")

    def _write_stdin(self) -> None:
        """Write what fits into the pipe; the rest follows when there is room."""
        self._loop.remove_writer(self._stdin)
        try:
            while self._unsent:
                del self._unsent[: os.write(self._stdin, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._stdin, self._write_stdin)
        except OSError:
            self._unsent.clear()  # nobody reads any more

    def _read_report(self) -> None:
        try:
            packet = self._control.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._finish(None)
            return
        report: BoxReport = marshal.loads(packet)
        if report[0] == "gone":
            self._finish(report[1])
        elif report[0] == "exit":
            self._exit_code = report[1]
        elif report[0] == "memory":
            self._forced_end = self._forced_end or "out_of_memory"
        elif not self._first_report.done():
            self._first_report.set_result(report)

    def _finish(self, kills: int | None) -> None:
        """Set the result once nothing of the box is left; `kills` None: the server that would have reported is gone
        too."""
        if self._result.done():
            return
        self._release()
        ended: EndReason = self._forced_end or ("lost" if self._exit_code is None else "exited")
        notes = remove_masked_changes(self._request)
        if kills and self._forced_end is None:
            notes = (*notes, "The kernel ended a process of it for the memory it took.")
            if self._exit_code in {None, 137}:
                ended = "out_of_memory"
        code = self._exit_code if ended == "exited" else None
        duration = round((monotonic() - self._started_at) * 1000)
        self._result.set_result(BoxResult(exit_code=code, end_reason=ended, duration_ms=duration, notes=notes))
        if not self._first_report.done():
            self._first_report.set_result(("failed", "server", errno.EPIPE, "it ended before the command started"))
        for callback in self._end_callbacks:
            callback(self)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._flood_task is not None:
            self._flood_task.cancel()
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        if self._stdin >= 0:
            self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = -1
        for reader in self._readers:
            reader.stop()


def explain_setup_failure(step: str, number: int, text: str) -> ToolFailed:
    """Return the failure to show for a set-up step that the kernel refused."""
    if step == "command" and number == errno.E2BIG:
        return ToolFailed("The command is too long to be started.", hint="Put it into a script file.")
    if step == "directory":
        return ToolFailed(f"The command's directory can't be entered: {text}.", hint="Give one that exists.")
    name = errno.errorcode.get(number, str(number))
    return ToolFailed(f"The box could not be set up: {step}: {text} [{name}].", code="box_refused")
