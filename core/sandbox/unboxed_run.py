"""Run one command without a box and leave nothing of it behind: no process, no open pipe, no unbounded memory.

The command runs in the project itself, so the gate asks for each one. It gets a session of its own, no terminal, no
standard input and an allow-listed environment. When it ends, is stopped or runs out of time, everything that it started
is ended too, also what left its process group: every child carries a mark in its environment.
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
from core.sandbox.output import OUTPUT_LIMIT, OutputReader
from core.sandbox.results import CommandResult

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

MARK_VARIABLE = "AGENT_TUI_COMMAND"
_GRACE_SECONDS = 0.1
_REAP_SECONDS = 1.0
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


def describe_containment() -> str:
    """Return what holds the command's effects, in words for the approval."""
    return "nothing holds it: it runs in your project itself and can change anything that you can"


def find_shell() -> str:
    """Return the absolute path of the shell that runs commands; never one that PATH or the project decides."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")


async def run_unboxed(
    command: str, *, cwd: Path, env: Mapping[str, str], time_limit: float, on_output: Callable[[str], None]
) -> CommandResult:
    """Run `command` in a shell in `cwd`, for at most `time_limit` seconds, with exactly the environment `env`.

    Ends the command after 10 MB of output. Raises `ToolFailed` if it can't be started. Cancelling ends it at once.
    """
    started = monotonic()
    mark = new_id("cmd")
    source, sink = os.pipe()
    try:
        process = await _start(command, cwd, {**env, MARK_VARIABLE: mark}, sink)
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(sink)
    reader = OutputReader(source, on_output)
    try:
        timed_out = not await _wait_for_end(process, reader, time_limit)
    finally:
        await kill_all(process, mark)
        reader.stop()
    flooded = reader.limit_reached.is_set()
    text = reader.render_text() + (f"\n[stopped: more than {OUTPUT_LIMIT:,} bytes of output]" if flooded else "")
    return CommandResult(
        exit_code=None if timed_out or flooded else _to_exit_code(process.returncode),
        output=text,
        duration_ms=round((monotonic() - started) * 1000),
        timed_out=timed_out,
        truncated=reader.is_truncated or flooded,
    )


async def _start(command: str, cwd: Path, env: Mapping[str, str], sink: int) -> asyncio.subprocess.Process:
    if "\0" in command:
        raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
    try:
        return await asyncio.create_subprocess_exec(
            find_shell(),
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


async def _wait_for_end(process: asyncio.subprocess.Process, reader: OutputReader, time_limit: float) -> bool:
    """Return True if the process ended or hit the output limit, False if its time is over."""
    waits = {asyncio.ensure_future(process.wait()), asyncio.ensure_future(reader.limit_reached.wait())}
    try:
        done, _ = await asyncio.wait(waits, timeout=time_limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return bool(done)


async def kill_all(process: asyncio.subprocess.Process, mark: str) -> None:
    """End all that the command started. A running one gets SIGTERM first and a tenth of a second to comply."""
    family = list(_list_descendants(process.pid)) if process.returncode is None else []
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        await _wait_gone(process, _GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    for each in family:
        _kill(each)
    for _ in range(5):  # a child may be forking while it is looked for
        found = list(_find_marked(mark))
        if not found:
            break
        for each in found:
            _kill(each)
    await _wait_gone(process, _REAP_SECONDS)


async def _wait_gone(process: asyncio.subprocess.Process, limit: float) -> None:
    await wait_within(process.wait(), limit)


async def wait_within(waiting: Awaitable[object], seconds: float) -> bool:
    """Wait for at most `seconds`; return True if it came to its end.

    Works in a task that is being cancelled, too: there `asyncio.timeout` of Python before 3.11.4 raises
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


def _list_descendants(pid: int) -> Iterator[psutil.Process]:
    import psutil

    with contextlib.suppress(psutil.Error):
        yield from psutil.Process(pid).children(recursive=True)


def _find_marked(mark: str) -> Iterator[psutil.Process]:
    """Yield living processes of ours that carry the mark."""
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            each = psutil.Process(pid)
            if each.environ().get(MARK_VARIABLE) == mark and each.status() != psutil.STATUS_ZOMBIE:
                yield each


def _kill(process: psutil.Process) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        process.kill()


def _to_exit_code(code: int | None) -> int | None:
    """Return the code as a shell gives it: 128 + number for a signal."""
    return None if code is None else code if code >= 0 else 128 - code
