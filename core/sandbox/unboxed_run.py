"""Runs a command without a box and leaves nothing of it behind: no process, no open pipe, no unbounded memory.

The command runs in the project itself, so the gate asks for every one. It gets its own session, no terminal and an
allow-listed environment. When it ends, is stopped or runs out of time, all its descendants are ended too, also those
outside of its process group: a mark in their environment identifies them, and where environments can't be read, their
descent (`core.processes`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.clock import monotonic
from core.errors import ToolFailed
from core.ids import new_id
from core.processes import (
    HIDES_ENVIRONMENTS,
    ProcessFamily,
    find_marked_processes,
    kill_process,
    list_command_lines,
    list_descendants,
    restore_signals,
)
from core.sandbox.box import BoxResult
from core.sandbox.output import OUTPUT_LIMIT, OutputReader
from core.sandbox.results import CommandResult, describe_left

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

MARK_VARIABLE = "AGENT_TUI_COMMAND"
_GRACE_SECONDS = 0.1
_REAP_SECONDS = 1.0
_POLL_SECONDS = 0.01
_LOOK_SECONDS = (0.005, 0.25)  # between two looks for new descendants: first, and at most
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
# macOS has bash 3.2 of 2007 as /bin/bash, which can't report its state; zsh is the shell of its accounts.
_NEW_SHELLS = ("/opt/homebrew/bin/bash", "/usr/local/bin/bash", "/opt/local/bin/bash")
_DARWIN_SHELLS = ("/bin/zsh", "/bin/bash")


def describe_containment() -> str:
    """Describe the containment of the command's effects, for the approval."""
    return "not sandboxed: it runs in your project itself and can change anything you can"


def find_shell() -> str:
    """Return the absolute path of the shell that runs commands, independent of PATH and the project."""
    shells = _list_darwin_shells() if sys.platform == "darwin" else _SHELLS
    return next((path for path in shells if os.access(path, os.X_OK)), "/bin/sh")


def _list_darwin_shells() -> tuple[str, ...]:
    """Return the shells of a Mac, the best first: a new bash, the account's own zsh, the system's."""
    import pwd

    own_shell = ""
    with contextlib.suppress(KeyError):
        own_shell = pwd.getpwuid(os.getuid()).pw_shell
    match Path(own_shell).name:
        case "bash" if own_shell != "/bin/bash":
            return (own_shell, *_NEW_SHELLS, *_DARWIN_SHELLS)
        case "zsh":
            return (*_NEW_SHELLS, own_shell, *_DARWIN_SHELLS)
    return (*_NEW_SHELLS, *_DARWIN_SHELLS)


async def run_unboxed(
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    time_limit: float,
    on_output: Callable[[str], None],
    descriptors: tuple[int, ...] = (),
) -> CommandResult:
    """Run `command` in a shell in `cwd`, for at most `time_limit` seconds, with exactly the environment `env`.

    The command inherits `descriptors`, and is ended after 10 MB of output. `on_output` gets it as it was written, with
    invalid UTF-8 as in PEP 383; the result has it as plain text. Raises `ToolFailed` if it can't be started.
    Cancelling ends it immediately.
    """
    running = UnboxedProcess(on_output, limit=OUTPUT_LIMIT)
    await running.start(command, cwd, env, stdin=asyncio.subprocess.DEVNULL, descriptors=descriptors)
    try:
        timed_out = not await wait_within(running.wait_ended(), time_limit)
    finally:
        result = await running.stop()
    reader, is_flooded = running.reader, running.reader.is_flooded
    text = reader.render_text() + (f"\n[stopped: more than {OUTPUT_LIMIT:,} bytes of output]" if is_flooded else "")
    return CommandResult(
        exit_code=None if timed_out or is_flooded else result.exit_code,
        output=text,
        duration_ms=result.duration_ms,
        timed_out=timed_out,
        truncated=reader.is_truncated or is_flooded,
        notes=tuple(filter(None, [describe_left(result.left)])),
    )


class UnboxedProcess:
    """A command, ended after `limit` bytes of output; implements `core.sandbox.box.RunningCommand`."""

    edits = None
    _process: asyncio.subprocess.Process
    _result: BoxResult | None = None
    _family: ProcessFamily | None = None
    _watching: asyncio.Task[None] | None = None

    def __init__(self, on_output: Callable[[str], None], *, limit: int = sys.maxsize) -> None:
        self._mark = new_id("cmd")
        self._started = monotonic()
        self._flooded = asyncio.Event()
        source, self._sink = os.pipe()
        self.reader = OutputReader(source, on_output, limit=limit, raw=True, on_limit=self._flooded.set)

    async def start(
        self,
        command: str,
        cwd: Path,
        env: Mapping[str, str],
        *,
        stdin: int = asyncio.subprocess.PIPE,
        descriptors: tuple[int, ...] = (),
    ) -> None:
        """Start the command. Raises `ToolFailed` if it can't be started."""
        try:
            self._family = ProcessFamily() if HIDES_ENVIRONMENTS else None
            if "\0" in command:
                raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
            self._process = await asyncio.create_subprocess_exec(
                find_shell(),
                "-c",
                command,
                cwd=cwd,
                env={**env, MARK_VARIABLE: self._mark},
                stdin=stdin,
                stdout=self._sink,
                stderr=self._sink,
                start_new_session=True,
                pass_fds=descriptors,
                preexec_fn=restore_signals,
            )
        except BaseException as error:
            self.reader.stop()
            if not isinstance(error, OSError):
                raise
            raise ToolFailed(
                f"The command could not be started in {cwd}: {error.strerror}.",
                hint="Shorten it, or put it in a script file." if len(command) > 100_000 else "",
            ) from error
        finally:
            os.close(self._sink)
        if self._family is not None:
            self._family.add(self._process.pid)
            self._watching = asyncio.create_task(_watch_family(self._family), name="command's processes")

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait_ended(self) -> None:
        """Wait until the command itself has ended, or exceeded the output limit."""
        tasks = {asyncio.ensure_future(self._process.wait()), asyncio.ensure_future(self._flooded.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def wait(self) -> BoxResult:
        await self.wait_ended()
        return await self.stop()

    def send(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def interrupt(self) -> None:
        _signal_group(self._process.pid, signal.SIGINT)

    async def stop(self) -> BoxResult:
        if self._result is not None:  # its pid may have been reused
            return self._result
        if self._watching is not None:
            self._watching.cancel()
        has_ended = self._process.returncode is not None
        left = list_command_lines(_list_survivors(self._mark, self._family) if has_ended else ())
        await _kill_all(self._process, self._mark, self._family)
        self.reader.stop()
        if self._process.stdin is not None:
            self._process.stdin.close()
        code = self._process.returncode
        self._result = BoxResult(
            exit_code=code if code is None or code >= 0 else 128 - code,
            end_reason="exited",
            duration_ms=round((monotonic() - self._started) * 1000),
            left=left,
        )
        return self._result


async def _watch_family(family: ProcessFamily) -> None:
    """Look for new descendants until cancelled, most often at the beginning, when most are started."""
    seconds, longest = _LOOK_SECONDS
    while True:
        await asyncio.sleep(seconds)
        family.look()
        seconds = min(1.5 * seconds, longest)


def _list_survivors(mark: str, family: ProcessFamily | None) -> list[psutil.Process]:
    marked_processes = list(find_marked_processes(MARK_VARIABLE, mark))
    if family is None:
        return marked_processes
    family.look()
    return [*marked_processes, *family.list_living()]


async def _kill_all(process: asyncio.subprocess.Process, mark: str, family: ProcessFamily | None) -> None:
    """End the command and its descendants. A running command gets SIGTERM first and a tenth of a second to comply."""
    descendants = list(list_descendants(process.pid)) if process.returncode is None else []
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        await wait_within(process.wait(), _GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    for descendant in descendants:
        kill_process(descendant)
    end = monotonic() + _REAP_SECONDS
    while survivors := _list_survivors(mark, family):  # some may still fork, or exit
        for survivor in survivors:
            kill_process(survivor)
        if monotonic() > end:
            break
        await wait_within(asyncio.sleep(_POLL_SECONDS), _REAP_SECONDS)
    await wait_within(process.wait(), _REAP_SECONDS)


async def wait_within(waiting: Awaitable[object], seconds: float) -> bool:
    """Wait for at most `seconds`; return True if `waiting` completed.

    Works in a task that is being cancelled, too: there `asyncio.timeout` of Python before 3.11.4 raises
    `CancelledError` when the time is over, which would skip the rest of the clean-up.
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


def kill_marked_processes(variable: str, value: str) -> None:
    """Kill the processes that have a variable with this value in their environment: leftovers of a killed program of
    ours, which have had their time to end by themselves."""
    for process in find_marked_processes(variable, value):
        kill_process(process)


def has_marked_processes(variable: str, value: str) -> bool:
    """True if a process has a variable with this value in its environment."""
    return any(True for _ in find_marked_processes(variable, value))
