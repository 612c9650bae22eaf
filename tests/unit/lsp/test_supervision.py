"""The life of a server: begun when needed, ended when idle, begun again after crashes and given up after too many."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import ToolFailed
from core.lsp import supervision
from core.lsp.server_table import LocatedServer, ServerSpec
from core.lsp.supervision import ServerErrors, SupervisedServer
from core.sandbox.box import BoxResult

SERVER = Path(__file__).parents[2] / "support" / "language_server.py"


class PlainProcess:
    """A running command without a box."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def wait(self) -> BoxResult:
        return BoxResult(exit_code=await self.process.wait(), end_reason="exited", duration_ms=0)

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def close_input(self) -> None:
        raise AssertionError

    def interrupt(self) -> None:
        raise AssertionError

    async def stop(self) -> BoxResult:
        if self.process.returncode is None:
            self.process.kill()
        return await self.wait()


class Servers:
    """Servers that are begun without a box; `started` counts them."""

    def __init__(self, root: Path, *faults: str) -> None:
        spec = ServerSpec(name="scripted", command=(sys.executable, str(SERVER), *faults), languages=("python",))
        server = LocatedServer(spec=spec, program=sys.executable, directory=".")
        self.started = 0
        self.reasons: list[str] = []
        self.server = SupervisedServer(
            server, root, self.start, lambda given_up: self.reasons.append(given_up.given_up)
        )

    async def start(self, server: LocatedServer, hear: Callable[[str], None], errors: ServerErrors) -> PlainProcess:
        self.started += 1
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*server.spec.command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.readers = [
            asyncio.create_task(follow(process.stdout, hear)),
            asyncio.create_task(follow(process.stderr, errors.add)),
        ]
        return PlainProcess(process)


async def follow(stream: asyncio.StreamReader | None, hear: Callable[[str], None]) -> None:
    assert stream is not None
    while data := await stream.read(65536):
        hear(data.decode("utf-8", "surrogateescape"))


async def test_an_idle_server_is_ended_and_begun_again_when_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervision, "IDLE_LIMIT", 0.01)
    servers = Servers(tmp_path)
    ended = asyncio.Event()
    async with servers.server.lock:  # as whoever asks it something does
        first = await servers.server.ensure_running()
        first.client.on_end = ended.set
    await ended.wait()
    assert servers.server.connection is None
    monkeypatch.setattr(supervision, "IDLE_LIMIT", 600.0)
    second = await servers.server.ensure_running()
    assert second is not first
    assert (servers.started, servers.reasons) == (2, [])
    await servers.server.close()


async def test_a_server_that_crashes_is_begun_three_times_more_and_said_once(tmp_path):
    servers = Servers(tmp_path, "crash")
    for _ in range(4):
        connection = await servers.server.ensure_running()
        connection.set_text("a.py", "x = 1\n")
        with pytest.raises(ToolFailed, match="a fault of the server"):
            await connection.diagnose("a.py", seconds=30)
    with pytest.raises(ToolFailed, match="is not used: it ended"):
        await servers.server.ensure_running()
    assert (servers.started, len(servers.reasons)) == (4, 1)
    assert servers.reasons[0].startswith("it ended (exit code 3)")
    await servers.server.close()


async def test_what_the_server_asks_is_answered(tmp_path):
    servers = Servers(tmp_path, "asks")
    connection = await servers.server.ensure_running()
    connection.set_text("a.py", "x\n")
    answer = b""
    while b"null" not in answer:
        params = {"textDocument": {"uri": connection.documents["a.py"].uri}, "position": {"line": 0, "character": 0}}
        answer = bytes(await connection.client.request("textDocument/hover", params, seconds=30))
    assert b"[null, null]" in answer
    await servers.server.close()
