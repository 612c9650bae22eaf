"""One Python that lives on between blocks: what a block defines, the next one finds.

It is a running command like any other: it is started once, gets each block on its standard input, and tells with a
mark of its own that a block is over. A block that takes too long is interrupted; if that does not help, the session
ends and the next block begins a new one. Nothing of the project is imported or run by starting it.
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
from core.sandbox.box import Running
from core.sandbox.result import CommandResult
from core.sandbox.runner import ended_within

OnOutput = Callable[[str], None]
Start = Callable[[str, OnOutput], Awaitable[Running]]
DRIVER = Path(__file__).with_name("python_driver.py")
LIMIT = 10_000_000  # characters of a block's output
_SHOWN = 1_000_000  # characters that are kept at its head and at its end
GRACE = 2.0  # seconds that an interrupted block has to end
KEPT = "[Python was interrupted; its variables are kept]"
LOST = "[Python was ended; its variables are lost, and the next block begins a new session]"


# The first line of its standard input is the driver; read byte by byte, so that nothing behind it is swallowed.
_FIRST = "import base64, os; exec(base64.b64decode(os.fdopen(os.dup(0), 'rb', 0).readline()))"


def command(mark: str) -> str:
    """The shell command that runs the session: the Python of the active environment, else `python3`."""
    return f'exec "${{VIRTUAL_ENV:+$VIRTUAL_ENV/bin/}}python3" -X utf8 -u -c {shlex.quote(_FIRST)} {mark}'


def _line(text: str) -> bytes:
    return base64.b64encode(text.encode("utf-8", "replace")) + b"\n"


class _Watch:
    """The output of one block, until its mark. Bounded, and handed on without the mark."""

    def __init__(self, mark: str, on_output: OnOutput) -> None:
        self._mark = f"\n{mark} "
        self._on_output = on_output
        self._held = ""
        self._kept: list[str] = []
        self._size = 0
        self.flooded = False
        self.status = ""
        self.over = asyncio.Event()

    def feed(self, text: str) -> None:
        if self.over.is_set():
            return
        self._held += text
        at = self._held.find(self._mark)
        end = self._held.find("\n", at + len(self._mark)) if at >= 0 else -1
        if end >= 0:
            self._give(self._held[:at])
            self.status = self._held[at + len(self._mark) : end].strip()
            self._held = ""
            self.over.set()
            return
        keep = at if at >= 0 else self._certain()
        self._give(self._held[:keep])
        self._held = self._held[keep:]
        if self._size > LIMIT:
            self.flooded = True
            self.over.set()

    def ended(self) -> None:
        """The session is gone: no mark will come."""
        self._give(self._held)
        self._held = ""
        self.over.set()

    def text(self) -> str:
        whole = "".join(self._kept)
        if len(whole) <= 2 * _SHOWN:
            return whole
        return f"{whole[:_SHOWN]}\n[... {len(whole) - 2 * _SHOWN:,} characters left out ...]\n{whole[-_SHOWN:]}"

    def _certain(self) -> int:
        """How much of what is held can't be the beginning of the mark."""
        at = self._held.rfind("\n")
        return at if at >= 0 and self._mark.startswith(self._held[at:]) else len(self._held)

    def _give(self, text: str) -> None:
        if text:
            self._size += len(text)
            self._kept.append(text)
            self._on_output(text)


class PythonSession:
    """`start` runs a shell command with a standard input, and hands on its output."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._mark = f"::{secrets.token_hex(12)}::"
        self._running: Running | None = None
        self._ending: asyncio.Task[object] | None = None
        self._watch: _Watch | None = None
        self._turn = asyncio.Lock()

    async def run(self, code: str, *, time_limit: float, on_output: OnOutput) -> CommandResult:
        """Run a block. `exit_code` 0: to its end, 1: it raised, None: it was stopped. `ToolFailed` if there is no
        Python. Cancelling interrupts the block; the session lives on if that is enough."""
        async with self._turn:
            started = monotonic()
            running = await self._ready()
            watch = self._watch = _Watch(self._mark, on_output)
            running.send(_line(code))
            try:
                note, timed_out = await self._until_over(running, watch, time_limit)
            except asyncio.CancelledError:
                running.interrupt()
                raise
            duration = round((monotonic() - started) * 1000)
            text = watch.text()
            return CommandResult(
                exit_code=int(watch.status) if watch.status in {"0", "1"} and not note else None,
                output=f"{text.rstrip()}\n{note}".lstrip("\n") if note else text,
                duration_ms=duration,
                timed_out=timed_out,
            )

    async def close(self) -> None:
        """End it, with all that it started."""
        running, self._running = self._running, None
        if running is not None:
            await running.stop()
        if self._ending is not None:
            with contextlib.suppress(Exception):
                await self._ending
            self._ending = None

    async def _until_over(self, running: Running, watch: _Watch, time_limit: float) -> tuple[str, bool]:
        """What there is to say about the session ("" = nothing: the block came to its end), and if its time ended."""
        in_time = await _within(watch.over, time_limit)
        if in_time and watch.status:
            return "", False
        if not in_time:
            running.interrupt()
            if await _within(watch.over, GRACE) and watch.status:
                return KEPT, True
        await self.close()
        return LOST, not in_time

    async def _ready(self) -> Running:
        """The session; a new one at first, and after the last one ended."""
        owed = self._watch
        is_busy = self._running is not None and owed is not None and not owed.over.is_set()
        if is_busy and owed is not None and not await _within(owed.over, GRACE):  # it was cancelled and still runs
            await self.close()
        if self._running is None:
            self._running = await self._start(command(self._mark), self._hear)
            self._running.send(_line(DRIVER.read_text(encoding="utf-8")))
            self._ending = asyncio.create_task(self._wait(self._running))
        return self._running

    def _hear(self, text: str) -> None:
        if self._watch is not None:
            self._watch.feed(text)

    async def _wait(self, running: Running) -> None:
        await running.wait()
        if self._running is running:
            self._running = None
        if self._watch is not None:
            self._watch.ended()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    await ended_within(event.wait(), seconds)
    return event.is_set()
