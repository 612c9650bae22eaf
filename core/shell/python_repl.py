"""The Python REPL of a session: one interpreter that lives on between blocks, boxed like any background command.

Where there is no box, it runs in the project. The interpreter is a running command like any other: started once, it
gets each block on its standard input and prints a secret mark when a block is over. A block that takes too long is
interrupted; if that does not help, the interpreter is stopped and the next block starts a new one. Starting it imports
and runs nothing of the project.

A REPL whose effects are dropped (Ask and Plan) and one whose effects are retained never share a process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

from core.clock import monotonic
from core.errors import ToolFailed
from core.protocol.review import Origin
from core.sandbox.box import RunningCommand
from core.sandbox.plain_text import LiveTextStream
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import UnboxedProcess, wait_within
from core.shell.command_host import CommandRequest
from core.shell.long_output import shorten_middle
from core.shell.shell_state import replace_undecodable
from core.shell.terminal import Terminal
from core.state.live_text import append_piece

OnOutput = Callable[[str], None]
StartCommand = Callable[[str, OnOutput], Awaitable[RunningCommand]]
DRIVER_FILE = Path(__file__).parents[1] / "sandbox" / "inside" / "python_driver.py"
OUTPUT_LIMIT = 10_000_000  # characters of a block's output
_MAX_CHARACTERS = 2_000_000  # in the result
GRACE_SECONDS = 2.0  # seconds that an interrupted block has to end
INTERRUPTED_NOTE = "[Python was interrupted; its variables are kept]"
ENDED_NOTE = "[Python ended; its variables are lost, and the next block starts a new session]"
# The first line of its standard input is the driver, read byte by byte, so that no later input is consumed.
BOOTSTRAP = "import base64, os; exec(base64.b64decode(os.fdopen(os.dup(0), 'rb', 0).readline()))"


def build_command(mark: str) -> str:
    """Return the shell command of the interpreter: the Python of the active environment, else `python3`."""
    return f'exec "${{VIRTUAL_ENV:+$VIRTUAL_ENV/bin/}}python3" -X utf8 -u -c {shlex.quote(BOOTSTRAP)} {mark}'


def _encode_block(text: str) -> bytes:
    return base64.b64encode(text.encode("utf-8", "replace")) + b"\n"


class _BlockOutput:
    """The output of one block, up to its mark. It is bounded, and passed on without the mark."""

    def __init__(self, mark: str, on_output: OnOutput) -> None:
        self._mark = f"\n{mark} "
        self._on_output = on_output
        self._buffer = ""
        self._chunks: list[str] = []
        self._size = 0
        self.status = ""
        self.finished = asyncio.Event()

    def feed(self, text: str) -> None:
        if self.finished.is_set():
            return
        self._buffer += text
        start = self._buffer.find(self._mark)
        end = self._buffer.find("\n", start + len(self._mark)) if start >= 0 else -1
        if end >= 0:
            self._emit(self._buffer[:start])
            self.status = self._buffer[start + len(self._mark) : end].strip()
            self._buffer = ""
            self.finished.set()
            return
        keep = start if start >= 0 else self._count_certain()
        self._emit(self._buffer[:keep])
        self._buffer = self._buffer[keep:]
        if self._size > OUTPUT_LIMIT:
            self.finished.set()

    def finish(self) -> None:
        """Flush the buffer; the interpreter is gone, and no mark will arrive."""
        self._emit(self._buffer)
        self._buffer = ""
        self.finished.set()

    def render_text(self) -> str:
        return shorten_middle(append_piece("", "".join(self._chunks)), _MAX_CHARACTERS, unit="characters left out")

    def _count_certain(self) -> int:
        index = self._buffer.rfind("\n")
        return index if index >= 0 and self._mark.startswith(self._buffer[index:]) else len(self._buffer)

    def _emit(self, text: str) -> None:
        if text:
            self._size += len(text)
            self._chunks.append(text)
            self._on_output(text)


class PythonInterpreter:
    """One interpreter. `start` runs a shell command with a standard input and passes its output on."""

    def __init__(self, start: StartCommand) -> None:
        self._start = start
        self._mark = f"::{secrets.token_hex(12)}::"
        self._running: RunningCommand | None = None
        self._end_task: asyncio.Task[object] | None = None
        self._block: _BlockOutput | None = None
        self._lock = asyncio.Lock()

    async def run(self, code: str, *, time_limit: float, on_output: OnOutput) -> CommandResult:
        """Run a block.

        `exit_code` 0: it ran to its end, 1: it raised, None: it was stopped. Raises `ToolFailed` without a Python.
        Cancelling interrupts the block; the interpreter survives if that ends the block.
        """
        async with self._lock:
            start_time = monotonic()
            running = await self._ensure_started()
            watch = self._block = _BlockOutput(self._mark, on_output)
            running.send(_encode_block(code))
            try:
                note, timed_out = await self._wait_for_block(running, watch, time_limit)
            except asyncio.CancelledError:
                running.interrupt()
                raise
            text = watch.render_text()
            return CommandResult(
                exit_code=int(watch.status) if watch.status in {"0", "1"} and not note else None,
                output=f"{text.rstrip()}\n{note}".lstrip("\n") if note else text,
                duration_ms=round((monotonic() - start_time) * 1000),
                timed_out=timed_out,
            )

    async def close(self) -> None:
        """End the interpreter and its descendants."""
        running, self._running = self._running, None
        if running is not None:
            await running.stop()
        if self._end_task is not None:
            with contextlib.suppress(Exception):
                await self._end_task
            self._end_task = None

    async def _wait_for_block(
        self, running: RunningCommand, watch: _BlockOutput, time_limit: float
    ) -> tuple[str, bool]:
        """Return a note on the interpreter ("": the block ended by itself), and True if its time was over."""
        in_time = await _wait_within(watch.finished, time_limit)
        if in_time and watch.status:
            return "", False
        if not in_time:
            running.interrupt()
            if await _wait_within(watch.finished, GRACE_SECONDS) and watch.status:
                return INTERRUPTED_NOTE, True
        await self.close()
        return ENDED_NOTE, not in_time

    async def _ensure_started(self) -> RunningCommand:
        """Return the running interpreter; start one if there is none."""
        last = self._block
        if self._running is not None and last is not None and not await _wait_within(last.finished, GRACE_SECONDS):
            await self.close()  # the last block was cancelled and still runs
        if self._running is None:
            self._running = await self._start(build_command(self._mark), self._on_output)
            self._running.send(_encode_block(DRIVER_FILE.read_text(encoding="utf-8")))
            self._end_task = asyncio.create_task(self._follow(self._running))
        return self._running

    def _on_output(self, text: str) -> None:
        if self._block is not None:
            self._block.feed(text)

    async def _follow(self, running: RunningCommand) -> None:
        await running.wait()
        if self._running is running:
            self._running = None
        if self._block is not None:
            self._block.finish()


async def _wait_within(event: asyncio.Event, seconds: float) -> bool:
    await wait_within(event.wait(), seconds)
    return event.is_set()


class PythonRepl:
    """The Python REPL of a session; at most one process at a time."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._session: PythonInterpreter | None = None
        self._keeps_effects: bool | None = None
        self._origin = Origin()
        terminal.on_close.append(self.close)

    async def run(
        self, code: str, *, origin: Origin, time_limit: float, on_output: Callable[[str], None]
    ) -> CommandResult:
        """Run a block that the gate has allowed; see `PythonInterpreter.run`."""
        keeps_effects = self.terminal.keeps_effects()
        if self._session is None or self._keeps_effects is not keeps_effects:
            await self.close()
            self._session, self._keeps_effects = PythonInterpreter(self._start), keeps_effects
        self._origin = origin
        return await self._session.run(code, time_limit=time_limit, on_output=on_output)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _start(self, command: str, on_output: Callable[[str], None]) -> RunningCommand:
        terminal = self.terminal
        if not await terminal.find_box():
            if not terminal.keeps_effects():
                raise ToolFailed("Python can't be sandboxed on this machine, so it does not run in this mode.")
            stream = LiveTextStream()
            process = UnboxedProcess(lambda text: on_output(stream.feed(replace_undecodable(text))))
            env = terminal.shell.build_environment(terminal.host.build_environment())
            await process.start(command, terminal.host.workspace.root / terminal.shell.directory, env)
            return process
        request = CommandRequest(
            command=command,
            origin=self._origin,
            keeps_effects=terminal.keeps_effects(),
            time_limit=None,
            is_driven=True,
        )
        result = await terminal.start_job(request, on_output, wait=0.0)
        if not result.job:
            raise ToolFailed(f"Python could not be started: {result.output.strip()[:500] or 'it ended immediately'}.")
        return terminal.jobs.get_job(result.job).running
