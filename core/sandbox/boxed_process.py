"""One command below a launcher of ours (`core.sandbox.launcher`): started, followed and ended from the engine's side.

However it ends, nothing of it is left when `wait` returns. The launcher ends it all too when the engine dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import marshal
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from core.clock import monotonic
from core.errors import ToolFailed
from core.ids import new_id
from core.sandbox import order
from core.sandbox.box import BoxSpec, Ended, Exit
from core.sandbox.copies import discard
from core.sandbox.namespaces import refusal
from core.sandbox.output import OutputReader, flooded

if TYPE_CHECKING:
    from core.sandbox.launcher import LaunchOrder

_GRACE = 2.0
_END = 8.0
_START = 10.0
_ROOT = str(Path(__file__).parents[2])
_RUN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from core.sandbox.launcher import main; main(*map(int, sys.argv[2:]))"
)
_HINT = "`agent-tui doctor --probe` tells whether this machine's box still works."


def _no_notes() -> tuple[str, ...]:
    return ()


def _nothing() -> None:
    return None


class Launch(Struct, kw_only=True):
    """What to start. `finish` runs in a thread when all is over, and answers with notes for the user.

    `undo` runs in its place when nothing was started.
    """

    order: LaunchOrder
    finish: Callable[[], tuple[str, ...]] = _no_notes
    undo: Callable[[], object] = _nothing


def refuse_impossible(spec: BoxSpec) -> None:
    """`ToolFailed` for what no box could run, before anything is prepared for it."""
    if "\0" in spec.command:
        raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
    if not spec.workspace.is_dir():
        raise ToolFailed(f"The workspace {spec.workspace} can't be read: it is no directory.")
    missing = [lower for lower in spec.lowers if not lower.is_dir()]
    if missing:
        raise ToolFailed(f"The box could not be set up: the layer {missing[0]} is not there.", code="box_refused")


def scratch_in(state: Path) -> Path:
    """A name for a directory of one command below `state`; it tells whose it is, for `sweep`."""
    return state / f"box-{os.getpid()}-{new_id('run')}"


def sweep(state: Path) -> None:
    """Remove what commands of engines that are gone left in `state`."""
    for path in state.glob("box-*-run*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            discard(path)


class BoxedProcess:
    """A command that was started; it is a `core.sandbox.box.Running`."""

    def __init__(
        self, spec: BoxSpec, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None
    ) -> None:
        self._spec = spec
        self._said: list[tuple[Callable[[str], None], str]] | None = []
        self._hearers = [on_output, *([on_errors] if on_errors else [])]
        self._readers: list[OutputReader] = []
        self._process: asyncio.subprocess.Process | None = None
        self._exit_code: int | None = None
        self._ended: Ended | None = None
        self._control_closed = False
        self._settled = asyncio.get_running_loop().create_future()
        self._stop_now = asyncio.Event()
        self._over: asyncio.Task[Exit] | None = None

    @classmethod
    async def start(
        cls,
        launch: Launch,
        spec: BoxSpec,
        on_output: Callable[[str], None],
        on_errors: Callable[[str], None] | None = None,
    ) -> BoxedProcess:
        """Start it and wait until the command itself runs. `ToolFailed`, with what was told, when it never does."""
        running = cls(spec, on_output, on_errors)
        try:
            await running._launch(launch.order)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(launch.undo))
            raise
        running._over = asyncio.create_task(running._follow(launch.finish))
        return running

    def when_over(self, act: Callable[[BoxedProcess], object]) -> None:
        """Call `act` once all is over."""
        assert self._over is not None
        self._over.add_done_callback(lambda _: act(self))

    async def wait(self) -> Exit:
        assert self._over is not None
        return await asyncio.shield(self._over)

    def send(self, data: bytes) -> None:
        if not self._spec.interactive:
            raise ToolFailed("The command has no standard input.")
        stdin = self._process.stdin if self._process else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(data)

    def interrupt(self) -> None:
        self._tell(order.INTERRUPT)

    async def stop(self) -> Exit:
        if not self._control_closed:
            self._ended = self._ended or "stopped"
        self._tell(order.TERMINATE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                return await self.wait()
        self._stop_now.set()
        return await self.wait()

    async def _launch(self, wanted: LaunchOrder) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        sinks = [self._read_for(each) for each in self._hearers]
        self._started = monotonic()
        try:
            with theirs, contextlib.ExitStack() as opened:
                for sink in sinks:
                    opened.callback(os.close, sink)
                await self._spawn(wanted, (sinks[0], sinks[-1]), theirs.fileno())
            asyncio.get_running_loop().add_reader(self._control, self._read_report)
            async with asyncio.timeout(_START):
                await self._settled
        except BaseException as error:
            await asyncio.shield(self._end_all())
            self._stop_reading()
            raise self._explained(error) from error

    def _read_for(self, hearer: Callable[[str], None]) -> int:
        """Hand what comes to one who listens. Answers with the end to write to."""
        source, sink = os.pipe()
        limits = self._spec.limits
        heard = partial(self._heard, hearer)
        self._readers.append(OutputReader(source, heard, limit=limits.output, raw=self._spec.raw))
        return sink

    def _stop_reading(self) -> None:
        for reader in self._readers:
            reader.stop()

    async def _spawn(self, wanted: LaunchOrder, sinks: tuple[int, int], control: int) -> None:
        with os.fdopen(os.memfd_create("order"), "w+b", buffering=0) as letter:
            letter.write(marshal.dumps(dict(wanted)))
            letter.seek(0)
            await self._execute(sinks, letter.fileno(), control)

    async def _execute(self, sinks: tuple[int, int], letter: int, control: int) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-c", _RUN, _ROOT, str(letter), str(control)),
            env={},
            cwd="/",
            stdin=asyncio.subprocess.PIPE if self._spec.interactive else asyncio.subprocess.DEVNULL,
            stdout=sinks[0],
            stderr=sinks[1],
            pass_fds=(letter, control),
            start_new_session=True,
        )

    def _explained(self, error: BaseException) -> BaseException:
        """The failure for the user; what bubblewrap or the launcher wrote is the best reason there is."""
        if isinstance(error, ToolFailed):
            said = "".join(text for _, text in self._said or ()).strip()
            if "Can't chdir" in said:
                return refusal("directory", errno.ENOENT, said.rpartition(": ")[2])
            return ToolFailed(
                f"{error.message}{f' ({said})' if said else ''}", hint=error.hint or _HINT, code=error.code
            )
        if isinstance(error, TimeoutError):
            return ToolFailed(f"The box was not ready within {_START:g} s.", hint=_HINT, code="box_refused")
        if isinstance(error, OSError):
            return ToolFailed(f"The box could not be started: {error.strerror}.", hint=_HINT, code="box_refused")
        return error

    def _heard(self, hearer: Callable[[str], None], text: str) -> None:
        """What is said before the command runs is not its output."""
        if self._said is not None:
            self._said.append((hearer, text))
        else:
            hearer(text)

    def _read_report(self) -> None:
        try:
            data = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._settle(ToolFailed("The box ended before the command ran."))
            asyncio.get_running_loop().remove_reader(self._control)
            return
        report: order.Report = marshal.loads(data)
        match report:
            case ("started",):
                self._settle(None)
            case ("failed", step, number, text):
                self._settle(
                    refusal(step, number, text) if number else ToolFailed(f"The box could not be set up: {step}.")
                )
            case ("exit", code):
                self._exit_code = code
            case ("memory",):
                self._ended = "out_of_memory"
            case ("gone", kills):
                self._ended = "out_of_memory" if kills else self._ended

    def _settle(self, failure: ToolFailed | None) -> None:
        if self._settled.done():
            return
        if failure is None:
            said, self._said = self._said, None
            for hearer, text in said or ():  # of a command so quick that it spoke before we heard that it runs
                hearer(text)
            self._settled.set_result(None)
        else:
            self._settled.set_exception(failure)

    def _tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self._control.send(word)

    async def _follow(self, finish: Callable[[], tuple[str, ...]]) -> Exit:
        ended = await self._until_over()
        await self._end_all()
        self._stop_reading()
        notes = await asyncio.to_thread(finish)
        if ended == "exited" and self._ended is not None:
            ended = self._ended
        elif ended == "exited" and self._exit_code is None:
            ended = "lost"
        return Exit(
            exit_code=self._exit_code if ended == "exited" else None,
            ended=ended,
            duration_ms=round((monotonic() - self._started) * 1000),
            notes=notes,
        )

    async def _until_over(self) -> Ended:
        assert self._process is not None
        reasons: dict[asyncio.Task[object], Ended] = {
            asyncio.create_task(self._process.wait()): "exited",
            asyncio.create_task(flooded(self._readers)): "flooded",
            asyncio.create_task(self._stop_now.wait()): "stopped",
        }
        try:
            done, _ = await asyncio.wait(
                reasons, timeout=self._spec.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in reasons:
                each.cancel()
        return next((ended for each, ended in reasons.items() if each in done), "timed_out")

    async def _end_all(self) -> None:
        """Half-closing the control socket is the word for "end it all"; the last reports still come."""
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
        self._drain()
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        self._control_closed = True

    def _drain(self) -> None:
        """Take the reports that came with the end itself."""
        for _ in range(8):
            self._read_report()
