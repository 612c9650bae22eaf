"""A command with a standard input where nothing contains it: in the project itself, after the user's yes."""

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
from core.sandbox.box import Exit
from core.sandbox.plain_output import PlainStream
from core.sandbox.runner import MARK, end_all, shell

_PIECE = 65_536


class Unboxed:
    """A running command; it is a `core.sandbox.box.Running`."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, on_output: Callable[[str], None]) -> None:
        self._process = process
        self._mark = mark
        self._on_output = on_output
        self._started = monotonic()
        self._over = asyncio.create_task(self._follow())

    @classmethod
    async def start(
        cls, command: str, *, cwd: Path, env: Mapping[str, str], on_output: Callable[[str], None]
    ) -> Unboxed:
        """`ToolFailed` when it can't be started."""
        mark = new_id("cmd")
        try:
            process = await asyncio.create_subprocess_exec(
                shell(),
                "-c",
                command,
                cwd=cwd,
                env={**env, MARK: mark},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"The command could not be started in {cwd}: {error.strerror}.") from error
        return cls(process, mark, on_output)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._over)

    def send(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGINT)

    async def stop(self) -> Exit:
        await end_all(self._process, self._mark)
        return await self.wait()

    async def _follow(self) -> Exit:
        assert self._process.stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        stream = PlainStream()
        while piece := await self._process.stdout.read(_PIECE):
            self._hand_on(stream.feed(decoder.decode(piece)))
        self._hand_on(stream.feed(decoder.decode(b"", final=True)) + stream.finish())
        code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return Exit(
            exit_code=code if code >= 0 else 128 - code,
            ended="exited",
            duration_ms=round((monotonic() - self._started) * 1000),
        )

    def _hand_on(self, text: str) -> None:
        if text:
            self._on_output(text)
