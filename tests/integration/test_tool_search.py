"""A model that may search for tools by its API: what a server has is loaded where it is found, and called by name."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.user_dirs import get_config_dir
from tests.support import wires
from tests.support.makers import makers_own
from tests.support.open_session import engine_in, run_turn, submit
from tests.support.program import environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Say, Step, Think

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


MAY = '[permissions]\nallow = ["Mcp(small:*)"]\n[commands]\npolicy = "auto"\n'


def project_with_a_server(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(SERVER, project / "server.py")
    entry = {"command": "python3", "args": ["${workspaceFolder}/server.py"]}
    (get_config_dir() / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))
    return project


async def test_a_tool_that_a_search_finds_is_loaded_by_the_api_and_called_by_its_name(tmp_path, monkeypatch):
    steps = [
        Step(calls=[Call(name="", arguments={"query": "says something"}, is_search=True)]),
        Step(calls=[Call(name="mcp__small__say", arguments={"text": "hello"})]),
        Step(calls=[Call(name="", arguments={"query": "zzzz"}, is_search=True)]),
        "Done.",
    ]
    async with provider_server(steps, strict=True) as server:
        wires.configure(monkeypatch, server, MAY)
        project = project_with_a_server(tmp_path)
        arguments = ("-p", "Do it", "--model", wires.MODELS["responses"], "--trust")
        ended = await run(project, *arguments, env=environment(server), seconds=100)
        assert server.rules.refusals == []
        bodies = [request.json for request in server.answered]
    assert (ended.code, ended.out.strip()) == (0, "Done."), ended.err
    assert [tool["type"] for tool in bodies[0]["tools"]][-1] == "tool_search"
    assert all(body["tools"] == bodies[0]["tools"] for body in bodies)
    call, found = [item for item in bodies[1]["input"] if item["type"].startswith("tool_search")]
    assert (call["type"], call["arguments"]) == ("tool_search_call", {"query": "says something"})
    assert (found["type"], found["call_id"], found["execution"]) == ("tool_search_output", call["call_id"], "client")
    assert "mcp__small__say" in {tool["name"] for tool in found["tools"]}
    assert {(tool["type"], tool["defer_loading"]) for tool in found["tools"]} == {("function", True)}
    for shorter, longer in pairwise(bodies):
        assert longer["input"][: len(shorter["input"])] == shorter["input"]
    [said] = [item for item in bodies[2]["input"] if item["type"] == "function_call_output"]
    assert "hello" in json.dumps(said)
    nothing, words = bodies[3]["input"][-2:]
    assert (nothing["type"], nothing["tools"]) == ("tool_search_output", [])
    assert "No tool of a server matches" in json.dumps(words)


def thoughtful(*calls: Call, text: str = "") -> Step:
    return Step(parts=[Think(text="Hm. " * 10), *([Say(text=text)] if text else []), *calls])


SEARCHING = (
    thoughtful(Call(name="search_tools", arguments={"query": "says something"})),
    thoughtful(Call(name="mcp__small__say", arguments={"text": "hello"})),
    thoughtful(Call(name="search_tools", arguments={"query": "zzzz"})),
    thoughtful(text="Done."),
)


async def played(tmp_path, monkeypatch, model: str, *steps: Step):
    """The server after a prompt to a model of Anthropic's own service."""
    async with makers_own(monkeypatch, *steps, models=(model,)) as server:
        wires.configure(monkeypatch, server, MAY)
        async with engine_in(project_with_a_server(tmp_path), trust=True) as engine:
            session = await submit(engine, cmd.SessionOpen(model=f"anthropic/{model}"))
            await run_turn(engine, session, "Do it")
    return server


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5"])
async def test_claude_is_named_the_tools_that_it_searched_and_nothing_before_them_changes(tmp_path, monkeypatch, model):
    server = await played(tmp_path, monkeypatch, model, *SEARCHING)
    assert server.rules.refusals == []
    bodies = [request.json for request in server.answered]
    assert len(bodies) == 4
    own = bodies[0]["tools"]
    assert "search_tools" in {tool["name"] for tool in own}
    assert not any("defer_loading" in tool for tool in own)
    found = bodies[1]["tools"][len(own) :]
    assert "mcp__small__say" in {tool["name"] for tool in found}
    assert all(tool["defer_loading"] for tool in found)
    assert [body["tools"] for body in bodies[1:]] == [own + found] * 3
    [result] = bodies[1]["messages"][-1]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": tool["name"]} for tool in found]
    for shorter, longer in pairwise(bodies):
        assert longer["messages"][: len(shorter["messages"])] == shorter["messages"]
    assert "hello" in json.dumps(bodies[2]["messages"][-1])
    assert "No tool of a server matches" in json.dumps(bodies[3]["messages"][-1])
    counts = wires.cached(server)
    assert all(cached > 0.95 * before for (before, _), (_, cached) in pairwise(counts))


async def test_where_claude_may_not_load_a_tool_the_words_of_the_search_are_sent_instead(tmp_path, monkeypatch):
    error = "tools.24.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    refused = Step(status=400, error=error, error_type="invalid_request_error")
    call = Call(name="call_tool", arguments={"name": "mcp__small__say", "arguments": {"text": "hello"}})
    steps = (SEARCHING[0], refused, thoughtful(call), thoughtful(text="Done."))
    server = await played(tmp_path, monkeypatch, "claude-opus-5-5", *steps)
    assert server.rules.refusals == []
    assert len(server.answered) == 4
    again = server.answered[2].json
    assert not any("defer_loading" in tool for tool in again["tools"])
    assert "mcp__small__say" in again["messages"][-1]["content"][0]["content"]
    assert "hello" in json.dumps(server.answered[3].json["messages"][-1])
