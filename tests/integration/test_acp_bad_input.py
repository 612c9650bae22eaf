"""`agent-tui acp` and clients that send what they should not, do not read, print between the lines or leave."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.providers.connection.keys import find_key, store_key
from core.sessions.listing import list_sessions
from core.sessions.store import SessionStore
from core.user_dirs import get_config_dir
from tests.support.pictures import noise
from tests.support.program import KEY, PROGRAM, ROOT
from tests.support.trust import trust

SCRIPT = """\
turns:
  - match: slowly
    steps:
      - tool_calls: [{name: run_terminal_cmd, arguments: {command: sleep 60}}]
      - Never said.
  - match: edit
    steps:
      - tool_calls: [{name: write, arguments: {file_path: new.txt, contents: "fresh\\n"}}]
      - Done.
otherwise: I heard you.
"""
PRINTING = """\
import os, sys, warnings
from pathlib import Path
from core.engine.shared.models import ModelAccess, _resolve
from core.protocol.options import EngineOptions
from core.transports.acp.agent import AgentTerms
from core.transports.acp.server import serve

def resolve(model, settings):
    print("a library prints")
    os.write(1, b"and another one writes\\n")
    os.system("echo and a child")
    warnings.warn("and a warning")
    return _resolve(model, settings)

options = EngineOptions(model=sys.argv[1])
serve(AgentTerms(options=options, seconds=5.0, review="end", can_accept=False), models=ModelAccess(resolve=resolve))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    trust(root)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return root


class Raw:
    """An agent, line by line."""

    def __init__(self, process: asyncio.subprocess.Process, project: Path) -> None:
        self.process, self.project = process, project
        self.session = ""
        self._number = 0

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send(self, method: str, **params: Any) -> int:
        self._number += 1
        line = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params, "unknown": True}
        self.write(json.dumps(line).encode() + b"\n")
        return self._number

    async def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(await asyncio.wait_for(self.process.stdout.readline(), 60))
        return message

    async def read_until(self, is_met: Any) -> dict[str, Any]:
        while not is_met(line := await self.read()):
            pass
        return line

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = self.send(method, **params)
        return await self.read_until(lambda line: line.get("id") == number and "method" not in line)

    async def open(self) -> None:
        await self.call("initialize", protocolVersion=7, clientCapabilities={"from": "the future"})
        self.session = (await self.call("session/new", cwd=str(self.project), mcpServers=[]))["result"]["sessionId"]

    async def prompt(self, *blocks: dict[str, Any]) -> dict[str, Any]:
        return await self.call("session/prompt", sessionId=self.session, prompt=[*blocks])


@contextlib.asynccontextmanager
async def raw_agent(project: Path, *command: str, model: bool = True, **variables: str) -> AsyncIterator[Raw]:
    script = f"scripted/{project.parent / 'script.yaml'}"
    chosen = ("--model", script) if model else ()
    process = await asyncio.create_subprocess_exec(
        *((command and (*command, script)) or (*PROGRAM, "acp", *chosen)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=64 << 20,
        cwd=ROOT if command else "/",
        env={**os.environ, "PYTHONWARNINGS": "always", **variables},
    )
    try:
        yield Raw(process, project)
    finally:
        if process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), 60)
            except TimeoutError:
                process.kill()
                raise


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


async def test_lines_that_are_none_and_wrong_requests_are_answered_and_end_nothing(project):
    async with raw_agent(project) as agent:
        assert (await agent.call("session/new", cwd="/", mcpServers=[]))["error"]["code"] == -32600
        assert (await agent.call("initialize", protocolVersion="one"))["error"]["code"] == -32602
        await agent.open()
        agent.write(b"hello, this is no message\n\n{broken\n")
        assert (await agent.read_until(lambda line: "error" in line))["error"]["code"] == -32700
        assert (await agent.call("session/fly"))["error"]["code"] == -32601
        assert (await agent.call("session/prompt", sessionId="ses_none", prompt=[]))["error"]["code"] == -32002
        assert (await agent.call("session/load", sessionId="../x", cwd="/", mcpServers=[]))["error"]["code"] == -32002
        for cwd in ("relative", "/no/such/place", "\0"):
            assert (await agent.call("session/new", cwd=cwd, mcpServers=[]))["error"]["code"] == -32602
        for servers in ([{"name": "x"}], [{"type": "pigeon", "name": "x"}], {"not": "a list"}):
            response = await agent.call("session/new", cwd=str(project), mcpServers=servers)
            assert response["error"]["code"] == -32602, response
        for block in (
            {"type": "audio", "data": "", "mimeType": "audio/wav"},
            {"type": "smell"},
            {"type": "image", "data": "%", "mimeType": "image/png"},
        ):
            assert (await agent.prompt(block))["error"]["code"] == -32602
        assert (await agent.prompt(text(" ")))["error"]["message"]
        for option, value in (("mode", "sleep"), ("review", "auto-accept"), ("colour", "red")):
            response = await agent.call(
                "session/set_config_option", sessionId=agent.session, configId=option, value=value
            )
            assert response["error"]["code"] == -32602
        assert (await agent.call("session/list", cursor="x"))["error"]["code"] == -32602
        assert (await agent.prompt(text("still there?")))["result"] == {"stopReason": "end_turn"}


async def test_long_lines_and_characters_cut_in_two_arrive_whole(project):
    async with raw_agent(project) as agent:
        await agent.open()
        picture = base64.b64encode(noise(700, 600)).decode()
        assert len(picture) > 1 << 20
        block = {"type": "image", "data": picture, "mimeType": "image/png"}
        assert (await agent.prompt(text("see "), block))["result"] == {"stopReason": "end_turn"}
        params = {"sessionId": agent.session, "prompt": [text("größer 🎉" * 3)]}
        line = json.dumps(
            {"jsonrpc": "2.0", "id": "own", "method": "session/prompt", "params": params}, ensure_ascii=False
        )
        for byte in line.encode():
            agent.write(bytes([byte]))
            await asyncio.sleep(0)
        agent.write(b"\n")
        assert (await agent.read_until(lambda message: message.get("id") == "own"))["result"] == {
            "stopReason": "end_turn"
        }
        response = await agent.call("session/list", cwd=str(project))
        assert response["result"]["sessions"][0]["sessionId"] == agent.session


async def test_nothing_but_the_protocol_reaches_standard_output(project):
    async with raw_agent(project, sys.executable, "-c", PRINTING) as agent:
        await agent.open()  # a line that is no JSON would fail here
        assert (await agent.prompt(text("hello")))["result"] == {"stopReason": "end_turn"}


async def test_an_editor_that_leaves_in_a_turn_or_a_review_loses_nothing(project):
    async with raw_agent(project) as agent:
        await agent.open()
        agent.send("session/prompt", sessionId=agent.session, prompt=[text("edit")])
        await agent.read_until(lambda line: line.get("method") == "session/request_permission")
        agent.write(b'{"jsonrpc":"2.0","id":77,"met')  # half a line
        agent.process.stdin.close()
        assert await asyncio.wait_for(agent.process.wait(), 60) == 0
    async with raw_agent(project) as agent:
        await agent.call("initialize", protocolVersion=1)
        [info] = list_sessions(SessionStore(project), limit=9)
        assert info.pending == 1
        loaded = await agent.call("session/load", sessionId=info.id, cwd=str(project), mcpServers=[])
        assert "result" in loaded
        agent.session = info.id
        agent.send("session/prompt", sessionId=agent.session, prompt=[text("slowly")])
        await agent.read_until(lambda line: line.get("params", {}).get("update", {}).get("kind") == "execute")
        agent.process.stdin.close()
        assert await asyncio.wait_for(agent.process.wait(), 60) == 0
    [info] = list_sessions(SessionStore(project), limit=9)
    assert not info.locked
    assert not (project / "new.txt").exists()


async def test_a_session_needs_a_model_and_says_so_as_authentication(project):
    async with raw_agent(project, model=False) as agent:
        response = await agent.call("initialize", protocolVersion=1, clientCapabilities={"auth": {"terminal": True}})
        methods = {method["id"]: method for method in response["result"]["authMethods"]}
        assert methods["setup"]["type"] == "terminal"
        assert methods["setup"]["args"] == ["--setup"]
        refused = await agent.call("session/new", cwd=str(project), mcpServers=[])
        assert refused["error"]["code"] == -32000
        assert (await agent.call("authenticate", methodId="environment"))["error"]["code"] == -32000
        assert (await agent.call("authenticate", methodId="magic"))["error"]["code"] == -32602
        get_config_dir().mkdir(parents=True, exist_ok=True)
        script = project.parent / "script.yaml"
        (get_config_dir() / "config.toml").write_text(f'model = "scripted/{script}"\n')
        assert (await agent.call("authenticate", methodId="environment"))["result"] == {}
        assert "result" in await agent.call("session/new", cwd=str(project), mcpServers=[])
        address = "https://api.openai.com/v1"
        store_key("openai", KEY, base_url=address)
        assert find_key("openai", base_url=address)[0] is not None
        assert (await agent.call("logout"))["result"] == {}
        assert find_key("openai", base_url=address)[0] is None
