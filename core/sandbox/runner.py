"""Run one command and leave nothing of it behind: no process, no open pipe, no unbounded memory.

This is the storey without a box: the command runs in the project itself, so the gate asks for each one. It gets a
session of its own, no terminal, no standard input and an allow-listed environment. When it ends, is stopped or runs out
of time, everything that it started goes with it, also what left its process group: every child carries a mark in its
environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.clock import monotonic
from core.errors import ToolFailed
from core.ids import new_id
from core.sandbox.output import LIMIT, OutputReader
from core.sandbox.result import CommandResult

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

MARK = "AGENT_TUI_COMMAND"
_GRACE = 0.1
_REAP = 1.0
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


def containment() -> str:
    """What holds a command's effects, in words for the approval."""
    return "nothing holds it: it runs in your project itself and can change anything that you can"


def shell() -> str:
    """The absolute path of the shell that runs commands; never one that PATH or the project decides."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")


async def run_command(
    command: str, *, cwd: Path, env: Mapping[str, str], time_limit: float, on_output: Callable[[str], None]
) -> CommandResult:
    """Run `command` in a shell in `cwd`, for at most `time_limit` seconds, with exactly the environment `env`.

    Ends the command after 10 MB of output. `ToolFailed` when it can't be started. Cancelling ends it at once.
    """
    started = monotonic()
    mark = new_id("cmd")
    source, sink = os.pipe()
    try:
        process = await _start(command, cwd, {**env, MARK: mark}, sink)
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(sink)
    reader = OutputReader(source, on_output)
    try:
        timed_out = not await _until_over(process, reader, time_limit)
    finally:
        await end_all(process, mark)
        reader.stop()
    flooded = reader.over.is_set()
    text = reader.text() + (f"\n[stopped: more than {LIMIT:,} bytes of output]" if flooded else "")
    return CommandResult(
        exit_code=None if timed_out or flooded else _exit_code(process.returncode),
        output=text,
        duration_ms=round((monotonic() - started) * 1000),
        timed_out=timed_out,
        truncated=reader.truncated or flooded,
    )


async def _start(command: str, cwd: Path, env: Mapping[str, str], sink: int) -> asyncio.subprocess.Process:
    if "\0" in command:
        raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
    try:
        return await asyncio.create_subprocess_exec(
            shell(),
            "-c",
            command,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolFailed(
            f"The command could not be started in {cwd}: {error.strerror}.",
            hint="Shorten it, or put it into a script file." if len(command) > 100_000 else "",
        ) from error


async def _until_over(process: asyncio.subprocess.Process, reader: OutputReader, time_limit: float) -> bool:
    """True when the process ended or hit the output limit, False when its time is over."""
    waits = {asyncio.ensure_future(process.wait()), asyncio.ensure_future(reader.over.wait())}
    try:
        done, _ = await asyncio.wait(waits, timeout=time_limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return bool(done)


async def end_all(process: asyncio.subprocess.Process, mark: str) -> None:
    """End all that the command started. A running one is asked first, and has a tenth of a second to comply."""
    family = list(_descendants(process.pid)) if process.returncode is None else []
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        await _gone(process, _GRACE)
    _signal_group(process.pid, signal.SIGKILL)
    for each in family:
        _kill(each)
    for _ in range(5):  # a child may be forking while it is looked for
        found = list(_marked(mark))
        if not found:
            break
        for each in found:
            _kill(each)
    await _gone(process, _REAP)


async def _gone(process: asyncio.subprocess.Process, limit: float) -> None:
    await ended_within(process.wait(), limit)


async def ended_within(waiting: Awaitable[object], seconds: float) -> bool:
    """Wait so long for something and then no more; whether it has come to its end.

    Holds in a task that is being cancelled, too: there `asyncio.timeout` of Python before 3.11.4 raises
    `CancelledError` when the time is over, so that what had to be done after it would be left undone.
    """
    task = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    return task.done()


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _descendants(pid: int) -> Iterator[psutil.Process]:
    import psutil

    with contextlib.suppress(psutil.Error):
        yield from psutil.Process(pid).children(recursive=True)


def _marked(mark: str) -> Iterator[psutil.Process]:
    """Living processes of ours that carry the mark."""
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            each = psutil.Process(pid)
            if each.environ().get(MARK) == mark and each.status() != psutil.STATUS_ZOMBIE:
                yield each


def _kill(process: psutil.Process) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        process.kill()


def _exit_code(code: int | None) -> int | None:
    """A shell's way of telling: 128 + number for a signal."""
    return None if code is None else code if code >= 0 else 128 - code
