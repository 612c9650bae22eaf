"""A command with a standard input and without a box: in the project itself, after the user's yes."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from core.clock import monotonic
from core.errors import ToolFailed
from core.ids import new_id
from core.sandbox.box import BoxResult
from core.sandbox.plain_text import PlainTextStream
from core.sandbox.unboxed_run import MARK_VARIABLE, find_shell, kill_all

_CHUNK = 65_536


class UnboxedProcess:
    """A running command; implements `core.sandbox.box.RunningCommand`."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, on_output: Callable[[str], None]) -> None:
        self._process = process
        self._mark = mark
        self._on_output = on_output
        self._started = monotonic()
        self._follow_task = asyncio.create_task(self._follow())

    @classmethod
    async def start(
        cls, command: str, *, cwd: Path, env: Mapping[str, str], on_output: Callable[[str], None]
    ) -> UnboxedProcess:
        """Start it. Raises `ToolFailed` if it can't be started."""
        mark = new_id("cmd")
        try:
            process = await asyncio.create_subprocess_exec(
                find_shell(),
                "-c",
                command,
                cwd=cwd,
                env={**env, MARK_VARIABLE: mark},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"The command could not be started in {cwd}: {error.strerror}.") from error
        return cls(process, mark, on_output)

    async def wait(self) -> BoxResult:
        return await asyncio.shield(self._follow_task)

    def send(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGINT)

    async def stop(self) -> BoxResult:
        await kill_all(self._process, self._mark)
        return await self.wait()

    async def _follow(self) -> BoxResult:
        assert self._process.stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        stream = PlainTextStream()
        while piece := await self._process.stdout.read(_CHUNK):
            self._emit(stream.feed(decoder.decode(piece)))
        self._emit(stream.feed(decoder.decode(b"", final=True)) + stream.finish())
        code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return BoxResult(
            exit_code=code if code >= 0 else 128 - code,
            end_reason="exited",
            duration_ms=round((monotonic() - self._started) * 1000),
        )

    def _emit(self, text: str) -> None:
        if text:
            self._on_output(text)
