from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from core.cli import review
from core.exits import ExitCode
from core.sessions.store import SessionStore
from tests.support.configured import configured
from tests.support.story import project_at

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A server that is told to end gets the time for it; the client kills one after two seconds."""
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 60.0)


@pytest.fixture
def project(tmp_path) -> Path:
    project = project_at(tmp_path / "project")
    (project / "price.py").write_text("def total(items):\n    return sum(items)\n")
    (project / ".env").write_text("KEY=very-secret-total\n")
    return project


def server(project: Path) -> StdioServerParameters:
    arguments = [str(ROOT / "agent_tui.py"), "mcp", "serve", str(project)]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


def wait_until_free(lock: Path) -> None:
    """Wait until nobody holds the lock of a session."""
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


async def call(client: Client, tool: str, **arguments: Any) -> tuple[str, bool]:
    result = await client.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content), bool(result.is_error)


async def test_what_is_proposed_is_a_hunk_of_the_users_review_and_no_file_is_touched(project, capsys):
    async with Client(server(project)) as client:
        text, failed = await call(client, "propose_edit", path="a.txt", old_string="two", new_string="TWO")
        assert (failed, "Edited a.txt" in text) == (False, True)
        await call(client, "propose_edit", path="new.txt", content="fresh\n")
        assert not (await call(client, "propose_edit", path="a.txt", content="one\nTWO\nTHREE\n"))[1]
        state = json.loads((await call(client, "review_state"))[0])
        assert [(change["path"], change["operation"]) for change in state["pending"]] == [
            ("a.txt", "edit"),
            ("new.txt", "create"),
        ]
        assert state["pending"][0]["hunks"][0]["oldStart"] == 2
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert not (project / "new.txt").exists()
    accept = review.ReviewArguments(directory=project, paths=("a.txt",), verdict="accept", print_only=True)
    assert await asyncio.to_thread(review.run, accept) == ExitCode.DONE
    assert (project / "a.txt").read_text() == "one\nTWO\nTHREE\n"
    assert "accepted  a.txt" in capsys.readouterr().err


async def test_the_review_can_be_given_while_the_other_agent_is_there_and_it_hears_of_it(project):
    async with Client(server(project)) as client:
        await call(client, "propose_edit", path="a.txt", old_string="two", new_string="TWO")
        [session] = [directory.name for directory in SessionStore(project).list_directories()]
        await asyncio.to_thread(wait_until_free, SessionStore(project).sessions_path / session / "lock")
        reject = review.ReviewArguments(directory=project, paths=("a.txt",), verdict="reject", print_only=True)
        assert await asyncio.to_thread(review.run, reject) == ExitCode.DONE
        text, failed = await call(client, "review_state")
        assert not failed, text
        state = json.loads(text)
        assert (state["pending"], [verdict["verdict"] for verdict in state["verdicts"]]) == ([], ["reject"])


async def test_it_searches_as_the_agent_may_and_leaves_nothing_behind(project):
    configured('[permissions]\ndeny = ["Write(price.py)"]\n')
    async with Client(server(project)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [name for name, tool in tools.items() if not tool.annotations.read_only_hint] == ["propose_edit"]
        assert tools["propose_edit"].annotations.destructive_hint is False
        assert tools["find_symbols"].input_schema["required"] == ["name"]
        answer = {"index": "off"}
        while answer["index"] in {"off", "building"}:
            answer = json.loads((await call(client, "find_symbols", name="total"))[0])
        assert [(symbol["name"], symbol["path"], symbol["startLine"]) for symbol in answer["symbols"]] == [
            ("total", "price.py", 1)
        ]
        text, failed = await call(client, "codebase_search", query="total of the items")
        assert (failed, "price.py" in text, "very-secret" in text) == (False, True, False)
        for arguments in (
            {"path": ".env", "old_string": "KEY", "new_string": "x"},
            {"path": "price.py", "delete": True},
        ):
            text, failed = await call(client, "propose_edit", **arguments)
            assert (failed, "Not run: " in text or "needs the user's approval" in text) == (True, True), text
        assert (await call(client, "propose_edit", path="a.txt"))[0].startswith("propose_edit takes one of")
        assert "Object missing required field `name`" in (await call(client, "find_symbols"))[0]
        assert "There is no tool 'rm'" in (await call(client, "rm"))[0]
    assert SessionStore(project).list_directories() == []
