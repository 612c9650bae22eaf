"""A model that may search for tools by its API: what a server has is loaded where it is found, and called by name."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

from core.user_dirs import get_config_dir
from tests.support import wires
from tests.support.program import environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


async def test_a_tool_that_a_search_finds_is_loaded_by_the_api_and_called_by_its_name(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(SERVER, project / "server.py")
    steps = [
        Step(calls=[Call(name="", arguments={"query": "says something"}, is_search=True)]),
        Step(calls=[Call(name="mcp__small__say", arguments={"text": "hello"})]),
        Step(calls=[Call(name="", arguments={"query": "zzzz"}, is_search=True)]),
        "Done.",
    ]
    async with provider_server(steps, strict=True) as server:
        wires.configure(monkeypatch, server, '[permissions]\nallow = ["Mcp(small:*)"]\n[commands]\npolicy = "auto"\n')
        entry = {"command": "python3", "args": ["${workspaceFolder}/server.py"]}
        (get_config_dir() / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))
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
