"""The builder of the project's index, started by the first process that asks for it; the others read what it writes.

Who holds the lock is the builder: a child of ours, to which the lock was passed on, so that it is free when it dies.
Then whoever next sees a change or asks a question takes over.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from core.clock import pause
from core.index.builder_command import BuilderRequest, build_builder_command
from core.index.database import lock_for_building
from core.protocol.queries.search import IndexStatus
from core.records import decode_json
from core.tasks import TaskOwner
from core.workspace.file_names import from_os_name

_STARTS: Final = 3
"""Starts of a builder that died of itself, before it is given up."""

_END_SECONDS: Final = 0.3  # what it has not committed by then is read again
_LINE_LIMIT: Final = 1 << 20


class BuilderLink:
    """`on_status` is called with every status of a builder of ours."""

    def __init__(self, root: Path, database: Path, on_status: Callable[[IndexStatus], None]) -> None:
        self._root = root
        self._database = database
        self._told = on_status
        self._process: asyncio.subprocess.Process | None = None
        self._tasks = TaskOwner()
        self._starting = asyncio.Lock()
        self._starts = 0
        self._closed = False

    @property
    def is_ours(self) -> bool:
        """True while a builder of ours runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def has_given_up(self) -> bool:
        """True if builders of ours have died too often for another one."""
        return self._starts >= _STARTS

    async def ensure(self) -> bool:
        """Start the builder unless there is one. True if it is ours. Raises OSError."""
        async with self._starting:
            if self._closed or self.is_ours or self.has_given_up:
                return self.is_ours
            if (lock := await asyncio.to_thread(lock_for_building, self._database)) is None:
                return False
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *build_builder_command(self._root, self._database),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=_LINE_LIMIT,
                    pass_fds=(lock,),
                    start_new_session=True,
                    env={**os.environ, "TMPDIR": tempfile.gettempdir()},
                )
            finally:
                os.close(lock)
            self._tasks.spawn(self._follow(self._process), name="index builder")
            return True

    def send(self, paths: Iterable[str]) -> bool:
        """Tell our builder what has changed, () = too much to name; False if there is none."""
        process = self._process
        if process is None or process.stdin is None or not self.is_ours or process.stdin.is_closing():
            return False
        changed_paths = tuple(from_os_name(os.fsencode(path)) for path in paths)
        process.stdin.write(msgspec.json.encode(BuilderRequest(changed=changed_paths)) + b"\n")
        return True

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what a builder tells; start another one if it died."""
        assert process.stdout is not None
        with suppress(ValueError):
            async for line in process.stdout:
                with suppress(msgspec.DecodeError):
                    self._told(decode_json(line, IndexStatus))
        if await process.wait() == 0 or self._closed:
            return
        self._starts += 1
        if self.has_given_up:
            self._told(IndexStatus(state="failed", problem="its builder died again and again; `agent-tui index build`"))
            return
        await pause(self._starts)
        with suppress(OSError):
            await self.ensure()

    async def close(self, *, at_once: bool = False) -> None:
        """End our builder, which keeps what it has committed. `at_once`: it is not waited for. Safe to call twice."""
        self._closed = True
        async with self._starting:  # one that is just being started ends, too
            process = self._process
        if process is not None and self.is_ours:
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(0 if at_once else _END_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._tasks.cancel()
        self._process = None
