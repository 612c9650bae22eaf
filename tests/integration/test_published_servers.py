"""Published MCP servers, driven by a scripted model: where `AGENT_TUI_MCP_SERVERS` names a folder that has them.

`npm i --ignore-scripts` of server-everything and server-filesystem puts `node_modules` there, `python -m venv py` and
pip of mcp-server-git, mcp-server-time and mcp-server-fetch a `py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest

from core.mcp.wire.elicitation import LEAVE_OUT
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import Question, QuestionAnswer
from core.user_dirs import get_config_dir
from tests.integration.test_mcp_servers import results, script, told
from tests.support.open_session import read_until, run_turn, session_in

PLACE = Path(os.environ.get("AGENT_TUI_MCP_SERVERS") or "/nonexistent")
MODULES = PLACE / "node_modules" / "@modelcontextprotocol"
NODE = shutil.which("node")
ASKS = pytest.mark.skipif(not PLACE.is_dir(), reason="AGENT_TUI_MCP_SERVERS names no folder with published servers")
NEEDS_NODE = pytest.mark.skipif(not (NODE and MODULES.is_dir()), reason="there is no Node, or none of its servers")
NEEDS_PYTHON = pytest.mark.skipif(not (PLACE / "py").is_dir(), reason="there are no servers in Python")
pytestmark = ASKS


def configure(**entry: Any) -> None:
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text('[commands]\npolicy = "auto"\n[permissions]\nallow = ["Mcp(real:*)"]\n')
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"real": entry}}))


def node(server: str, *words: str) -> dict[str, Any]:
    return {"command": NODE, "args": [str(MODULES / server / "dist" / "index.js"), *words]}


def python(module: str, *words: str) -> dict[str, Any]:
    return {"command": str(PLACE / "py" / "bin" / "python"), "args": ["-m", module, *words]}


def real(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "call_tool", {"name": f"mcp__real__{tool}", "arguments": json.dumps(arguments)}


async def call(root: Path, project: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any], str]:
    """Have a model make these calls; return their results, the events and all that the model was told."""
    async with session_in(project, model=script(root, *calls, "Done."), trust=True) as (engine, session):
        seen = await run_turn(engine, session)
        return [result.content for result in results(engine, session)], seen, told(engine, session)


def choose(question: Question) -> QuestionAnswer:
    """A user's answer: a name, what is recommended, or nothing."""
    if question.id == "name":
        return QuestionAnswer(question=question.id, text="Ada")
    options = [option.id for option in question.options if option.recommended or option.id == LEAVE_OUT]
    return QuestionAnswer(question=question.id, options=tuple((options or [question.options[0].id])[:1]))


@NEEDS_NODE
async def test_everything_answers_counts_and_shows_a_picture(tmp_path, project):
    configure(**node("server-everything", "stdio"))
    long = real("trigger-long-running-operation", duration=1, steps=2)
    calls = (real("echo", message="hi"), real("get-sum", a=2, b=3), long, real("get-tiny-image"))
    texts, seen, _ = await call(tmp_path, project, *calls)
    assert texts[0] == "Echo: hi"
    assert "5" in texts[1]
    assert [output.text for output in seen if isinstance(output, ev.ToolOutput)] == ["1/2\n", "2/2\n"]
    assert "MCP logo" in texts[3]


@NEEDS_NODE
async def test_everything_asks_the_user_when_it_knows_that_it_can(tmp_path, project):
    configure(**node("server-everything", "stdio"))
    ask = real("trigger-elicitation-request")
    model = script(tmp_path, real("echo", message="hi"), ask, "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
        assert asked.title == "The MCP server real asks"
        answers = tuple(map(choose, asked.questions))
        reply = await engine.submit(cmd.QuestionReply(session=session, id=asked.id, answers=answers))
        assert isinstance(reply, cmd.Ack), reply
        await read_until(engine, session, ev.TurnFinished)
        assert "Ada" in results(engine, session)[1].content


@NEEDS_NODE
async def test_everything_over_http(tmp_path, project):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert NODE
    words = (NODE, str(MODULES / "server-everything" / "dist" / "index.js"), "streamableHttp")
    started = await asyncio.create_subprocess_exec(
        *words, env={**os.environ, "PORT": str(port)}, stdout=DEVNULL, stderr=PIPE
    )
    try:
        assert started.stderr is not None
        async with asyncio.timeout(60):
            while b"listening" not in await started.stderr.readline():
                pass
        configure(url=f"http://127.0.0.1:{port}/mcp", type="http")
        texts, _, _ = await call(tmp_path, project, real("echo", message="hi"), real("get-sum", a=2, b=3))
        assert texts[0] == "Echo: hi"
        assert "5" in texts[1]
    finally:
        started.kill()
        await started.wait()


@NEEDS_NODE
async def test_what_the_filesystem_server_writes_is_a_pending_hunk_and_the_disk_is_as_it_was(tmp_path, project):
    configure(**node("server-filesystem", "${workspaceFolder}"))
    write = real("write_file", path=str(project / "b.txt"), content="two\n")
    edit = real("edit_file", path=str(project / "a.txt"), edits=[{"oldText": "one", "newText": "three"}])
    read = real("read_text_file", path=str(project / "b.txt"))
    async with session_in(project, model=script(tmp_path, write, edit, read, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        assert results(engine, session)[2].content == "two"
        changes = engine.state(session).changes
        assert {path: change.origin.tool for path, change in changes.items()} == {
            "a.txt": "mcp__real__edit_file",
            "b.txt": "mcp__real__write_file",
        }
    assert [path.name for path in project.iterdir()] == ["a.txt"]
    assert (project / "a.txt").read_text() == "one\n"


@NEEDS_PYTHON
async def test_the_time_and_git_servers_answer(tmp_path, project):
    configure(**python("mcp_server_time", "--local-timezone", "UTC"))
    texts, _, _ = await call(tmp_path, project, real("get_current_time", timezone="UTC"))
    assert json.loads(texts[0])["timezone"] == "UTC"
    other = tmp_path / "other"
    other.mkdir()
    assert await (await asyncio.create_subprocess_exec("git", "init", "-q", str(project))).wait() == 0
    configure(**python("mcp_server_git", "--repository", "${workspaceFolder}"))
    texts, _, _ = await call(other, project, real("git_status", repo_path=str(project)))
    assert "a.txt" in texts[0]


@NEEDS_PYTHON
async def test_the_fetch_server_has_no_network_and_says_so_in_words(tmp_path, project):
    configure(**python("mcp_server_fetch"))
    texts, _, known = await call(tmp_path, project, real("fetch", url="https://example.org/"))
    assert "mcp__real__fetch" in known
    assert "example.org" in texts[0] or "Failed" in texts[0]
