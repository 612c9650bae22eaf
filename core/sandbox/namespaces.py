"""Tier T1: a command in namespaces of its own, over an overlay of the workspace, from a warm fork server.

Here is the engine's side: it turns a `BoxSpec` into an order, reads the output, and decides when a command's time is
over. What happens inside is in `fork_server`, `supervise` and `view`.
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
from core.sandbox import order, places
from core.sandbox.box import BoxSpec, Ended, Exit, Tier
from core.sandbox.machine.toolchains import credentials
from core.sandbox.masking.settling import masks_beside, settle
from core.sandbox.output import OutputReader, flooded
from core.sandbox.runner import shell
from core.sandbox.warm_server import WarmServer

if TYPE_CHECKING:
    from core.sandbox.order import Order, Report

_GRACE = 2.0
_PROXY = f"http://127.0.0.1:{order.PROXY_PORT}"
_PROXY_ENV = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}


class NamespaceBox:
    """The strongest box that Linux offers without help of another program."""

    def __init__(self, *, control_groups: bool = True) -> None:
        """Without `control_groups` none is made, as where the machine does not let us."""
        self._control_groups = control_groups
        self._server: WarmServer | None = None
        self._running: set[NamespaceRun] = set()

    @property
    def tier(self) -> Tier:
        return Tier.NAMESPACES

    def _warm(self) -> WarmServer:
        """The fork server: started with the first command, and again when it has ended."""
        if self._server is not None and not self._server.alive():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = WarmServer(control_groups=self._control_groups)
        return self._server

    async def start(
        self, spec: BoxSpec, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> NamespaceRun:
        """See `Box.start`. The message of a failure names the step and the kernel's reason."""
        wanted = await asyncio.to_thread(order_of, spec)  # once a minute it looks through toolchains
        server = self._warm()
        run = NamespaceRun(spec, on_output, on_errors)
        run.launch(server, wanted)
        self._running.add(run)
        run.on_gone(self._running.discard)
        try:
            await run.started()
        except BaseException:
            run.abandon()
            raise
        return run

    async def close(self) -> None:
        """See `Box.close`."""
        running = list(self._running)
        for run in running:
            run.abandon()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.close)
        for run in running:
            await run.wait()


def order_of(spec: BoxSpec) -> Order:
    """The order for one command. `ToolFailed` for what no box could run."""
    if "\0" in spec.command:
        raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
    home = places.home(spec.env)
    workspace = Path(os.path.realpath(spec.workspace))
    env = {**_root_env(), **spec.env, "HOME": str(home), **(_PROXY_ENV if spec.proxy else {})}
    limits, bound = spec.limits, places.toolchains(spec.env)
    return {
        "arguments": [os.fsencode(shell()), b"-c", spec.command.encode("utf-8", "surrogateescape")],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "workspace": os.fsencode(workspace),
        "cwd": os.fsencode(spec.cwd),
        "lowers": [os.fsencode(lower) for lower in spec.lowers],
        "upper": os.fsencode(spec.upper) if spec.upper else b"",
        "work": os.fsencode(spec.work) if spec.work else b"",
        "home": os.fsencode(home),
        "cache": os.fsencode(spec.cache) if spec.cache else b"",
        "readable": [os.fsencode(path) for path in (*bound, *spec.readable)],
        "hidden": [os.fsencode(path) for path in (*_hidden(spec, workspace, home), *credentials(bound))],
        "withheld": [os.fsencode(path) for path in spec.withheld],
        "masked": [os.fsencode(path) for path in spec.masked],
        "masks": os.fsencode(masks_beside(spec.upper)) if spec.upper else b"",
        "proxy": os.fsencode(spec.proxy) if spec.proxy else b"",
        "processes": limits.processes,
        "processes_by_pid": 0,
        "owner": _owner(workspace),
        "open_files": limits.open_files,
        "file_size": limits.file_size,
        "memory": limits.memory,
        "scratch": limits.scratch,
    }


def _root_env() -> dict[str, str]:
    """In the box root can't give files away, which tar would do for it unasked, and fail."""
    return {"TAR_OPTIONS": "--no-same-owner"} if os.geteuid() == 0 else {}


def _hidden(spec: BoxSpec, workspace: Path, home: Path) -> list[Path]:
    kept = {workspace, home, Path(os.path.realpath(home))}
    return [path for path in (*places.masked(), *spec.hidden) if path not in kept]


def _owner(workspace: Path) -> tuple[int, int] | None:
    """Whom root becomes in the box of another user's workspace, so that it has that user's rights and no more."""
    try:
        found = workspace.stat()
    except OSError as error:
        raise ToolFailed(f"The workspace {workspace} can't be read: {error.strerror}.") from error
    return (found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None


class NamespaceRun:
    """A command in a box of `NamespaceBox`; see `Running`."""

    def __init__(
        self, spec: BoxSpec, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None
    ) -> None:
        self._spec = spec
        self._hearers = [on_output, *([on_errors] if on_errors else [])]
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._input = -1
        self._unsent = bytearray()
        self._readers: list[OutputReader] = []
        self._began = monotonic()
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[Report] = self._loop.create_future()
        self._over: asyncio.Future[Exit] = self._loop.create_future()
        self._forced: Ended | None = None
        self._code: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flood: asyncio.Task[None] | None = None
        self._when_gone: list[Callable[[NamespaceRun], None]] = []

    def launch(self, server: WarmServer, wanted: Order) -> None:
        """Give the order and begin to read. `ToolFailed` when the server is gone."""
        streams = []
        for hearer in self._hearers:
            source, sink = os.pipe()
            self._readers.append(OutputReader(source, hearer, limit=self._spec.limits.output, raw=self._spec.raw))
            streams.append(sink)
        streams = [streams[0], streams[-1]]
        if self._spec.interactive:
            given, self._input = os.pipe()
            os.set_blocking(self._input, False)
            streams.append(given)
        try:
            server.order(wanted, self._theirs, streams)
        except ToolFailed:
            self._finish(None)
            raise
        finally:
            for each in set(streams):
                os.close(each)
            self._theirs.close()
        self._loop.add_reader(self._control.fileno(), self._heard)

    def on_gone(self, callback: Callable[[NamespaceRun], None]) -> None:
        self._when_gone.append(callback)

    async def started(self) -> None:
        """Until the command runs. `ToolFailed`, after all of it is gone, when it never will."""
        report = await asyncio.shield(self._first)
        if report[0] == "failed":
            await asyncio.shield(self._over)
            raise refusal(report[1], report[2], report[3])
        if report[0] != "started":
            raise ToolFailed("The box ended before the command could start.")
        self._began = monotonic()
        if self._spec.limits.seconds is not None and not self._over.done():
            self._timer = self._loop.call_later(self._spec.limits.seconds, self._force, "timed_out")
        self._flood = self._loop.create_task(self._watch_flood())

    async def wait(self) -> Exit:
        """See `Running.wait`."""
        return await asyncio.shield(self._over)

    def send(self, data: bytes) -> None:
        """See `Running.send`."""
        if self._input < 0:
            if not self._spec.interactive:
                raise ToolFailed("The command has no standard input.")
            return
        self._unsent += data
        self._pour()

    def interrupt(self) -> None:
        """See `Running.interrupt`."""
        self._say(order.INTERRUPT)

    async def stop(self) -> Exit:
        """See `Running.stop`."""
        if not self._over.done() and self._forced is None:
            self._forced = "stopped"
            self._say(order.TERMINATE)
            self._loop.call_later(_GRACE, self._kill)
        return await self.wait()

    def abandon(self) -> None:
        """End it at once, whether or not anyone waits."""
        self._force("stopped")

    def _force(self, how: Ended) -> None:
        if self._forced is None:
            self._forced = how
        self._kill()

    def _kill(self) -> None:
        """Pid 1 takes the end of what it is told as the order to end itself, and everything with it."""
        if not self._over.done():
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)

    def _say(self, word: bytes) -> None:
        if not self._over.done():
            with contextlib.suppress(OSError):
                self._control.send(word)

    async def _watch_flood(self) -> None:
        await flooded(self._readers)
        self._force("flooded")

    def _pour(self) -> None:
        """Put what fits into the pipe; the rest follows when there is room."""
        self._loop.remove_writer(self._input)
        try:
            while self._unsent:
                del self._unsent[: os.write(self._input, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._input, self._pour)
        except OSError:
            self._unsent.clear()  # nobody reads any more

    def _heard(self) -> None:
        try:
            packet = self._control.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._finish(None)
            return
        report: Report = marshal.loads(packet)
        if report[0] == "gone":
            self._finish(report[1])
        elif report[0] == "exit":
            self._code = report[1]
        elif report[0] == "memory":
            self._forced = self._forced or "out_of_memory"
        elif not self._first.done():
            self._first.set_result(report)

    def _finish(self, kills: int | None) -> None:
        """Nothing of the box is left; `kills` None: the server that would have told so is not there either."""
        if self._over.done():
            return
        self._release()
        ended: Ended = self._forced or ("lost" if self._code is None else "exited")
        notes = settle(self._spec)
        if kills and self._forced is None:
            notes = (*notes, "The kernel ended a process of it for the memory it took.")
            if self._code in {None, 137}:
                ended = "out_of_memory"
        code = self._code if ended == "exited" else None
        duration = round((monotonic() - self._began) * 1000)
        self._over.set_result(Exit(exit_code=code, ended=ended, duration_ms=duration, notes=notes))
        if not self._first.done():
            self._first.set_result(("failed", "server", errno.EPIPE, "it ended before the command started"))
        for callback in self._when_gone:
            callback(self)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._flood is not None:
            self._flood.cancel()
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = -1
        for reader in self._readers:
            reader.stop()


def refusal(step: str, number: int, text: str) -> ToolFailed:
    """What to tell of a step that the kernel refused."""
    if step == "command" and number == errno.E2BIG:
        return ToolFailed("The command is too long to be started.", hint="Put it into a script file.")
    if step == "directory":
        return ToolFailed(f"The command's directory can't be entered: {text}.", hint="Give one that exists.")
    name = errno.errorcode.get(number, str(number))
    return ToolFailed(f"The box could not be set up: {step}: {text} [{name}].", code="box_refused")
