"""MCP servers of subagents: each has its own over its own shadow, and of their tools those that it was given."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage, UserMessage
from core.sessions.store import SessionStore
from core.state.session import SessionState
from core.user_dirs import get_config_dir
from tests.support.agent_case import Step, calls, says
from tests.support.box_tiers import offered
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tests.support.subagents import converse, open_build, project_at

boxed = pytest.mark.skipif(not any(tier.can_run_unasked for tier in offered()), reason="servers need a strong box")
SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = project_at(tmp_path / "project")
    shutil.copy(SERVER, root / "server.py")
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text('[commands]\npolicy = "auto"\n')
    entry = {"command": "python3", "args": ["${workspaceFolder}/server.py"]}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))
    return root


def small(tool: str, **arguments: Any) -> Step:
    return calls(("call_tool", {"name": f"mcp__small__{tool}", "arguments": json.dumps(arguments)}))


def read(path: str) -> Step:
    return small("read", path=path)


def write(path: str, text: str) -> Step:
    return small("write", path=path, text=text)


def give(*parts: str, **more: str) -> Step:
    return calls(*(("task", {"description": f"Do {part}", "prompt": f"[part {part}]", **more}) for part in parts))


def read_children(engine: Engine, project: Path, session: str) -> list[SessionState]:
    home = SessionStore(project).sessions_path / session / "children"
    return [fold_events(scan(home / subagent / "log.jsonl").envelopes) for subagent in engine.state(session).subagents]


def list_answers(state: SessionState) -> list[str]:
    return [message.content for message in state.messages if isinstance(message, ToolMessage)]


@boxed
async def test_i4_what_a_server_writes_for_a_subagent_is_its_own_until_it_is_merged(project):
    meet = [asyncio.Event(), asyncio.Event()]
    plays = {
        "parent": [write("mine.txt", "mine"), give("one", "two"), read("one.txt"), says("So.")],
        "one": [read("mine.txt"), write("one.txt", "one"), [meet[0].set, meet[1], *says("Written.")]],
        "two": [[meet[0], *read("one.txt")], write("two.txt", "two"), [meet[1].set, *says("Written.")]],
    }
    async with open_build(project, plays) as (engine, team):
        seen = await converse(engine, team.session, "[part parent]")
        kinds = [type(event) for event in seen]
        until_end = seen[: kinds.index(ev.SubagentFinished)]
        proposed = {event.change.path for event in until_end if isinstance(event, ev.ChangeProposed)}
        assert proposed == {"mine.txt"}, "the parent has nothing of it before it is merged"
        one, two = (list_answers(child) for child in read_children(engine, project, team.session))
        assert one == ["mine", "written\n[changed: created one.txt; pending review]"]
        assert "No such file" in two[0], "what the other one wrote does not exist"
        state = engine.state(team.session)
        assert list_answers(state)[-1] == "one", "the parent's server sees what was merged"
        assert {path: change.origin.tool for path, change in state.changes.items()} == {
            "mine.txt": "mcp__small__write",
            "one.txt": "subagent",
            "two.txt": "subagent",
        }
        assert not any((project / path).exists() for path in state.changes)


@boxed
async def test_m12_who_explores_calls_what_reads_and_what_it_writes_is_thrown_away(project):
    plays = {
        "parent": [give("looks", subagent_type="explore"), says("So.")],
        "looks": [write("no.txt", "x"), small("lie"), read("calc.py"), says("Seen.")],
    }
    async with open_build(project, plays) as (engine, team):
        await converse(engine, team.session, "[part parent]")
        [[refused, lied, seen]] = (list_answers(child) for child in read_children(engine, project, team.session))
        assert "calls only tools that declare themselves read-only" in refused
        assert (lied, seen.splitlines()[0]) == ("read", '"""Prices."""')
        assert not engine.state(team.session).changes
        assert not (project / "lied.txt").exists()


OWN = """---
name: {name}
description: Does a part.
{keys}
---
You do a part.
"""


@boxed
@pytest.mark.parametrize(
    ("keys", "can_read", "can_write"),
    [
        ("tools: Read", False, False),
        ("tools: Read, mcp__small__read", True, False),
        ("tools: Read, mcp__small", True, True),
        ("disallowedTools: mcp__small__write", True, False),
        ("disallowedTools: mcp__small__*", False, False),
    ],
)
async def test_m12_an_agent_of_the_users_has_the_tools_of_servers_that_it_names(project, keys, can_read, can_write):
    folder = project / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "part.md").write_text(OWN.format(name="part", keys=keys))
    plays = {
        "parent": [give("it", subagent_type="part"), says("So.")],
        "it": [read("calc.py"), write("new.txt", "x"), says("Done.")],
    }
    async with open_build(project, plays, trust=True) as (engine, team):
        await converse(engine, team.session, "[part parent]")
        [child] = read_children(engine, project, team.session)
        prompt = "\n".join(message.content for message in child.messages if isinstance(message, UserMessage))
        assert ("mcp__small__read" in prompt, "mcp__small__write" in prompt) == (can_read, can_write)
        answers = list_answers(child)
        withheld = ["is not among the tools you have" in answer for answer in answers]
        assert withheld == [not can_read, not can_write], answers
        assert ("new.txt" in engine.state(team.session).changes) == can_write


@boxed
async def test_m12_a_turn_that_is_switched_to_looking_takes_the_writing_tools_from_its_subagents(project):
    switched = asyncio.Event()
    plays = {
        "parent": [give("it"), says("So.")],
        "it": [read("calc.py"), [switched, *write("late.txt", "x")], says("Done.")],
    }
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if isinstance(event, ev.ModeChanged):
                switched.set()
            is_at_work = isinstance(event, ev.SubagentStarted)
            return cmd.ModeSet(session=team.session, mode="ask") if is_at_work else None

        await converse(engine, team.session, "[part parent]", on=on)
        [child] = read_children(engine, project, team.session)
        assert "Not run: mcp__small__write" in list_answers(child)[-1]
        assert not engine.state(team.session).changes
