"""Every event of hooks by where it comes from: the agent, a build, a subagent, `-p`, the user's own hands."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.engine import Engine
from core.hooks.dialect_names import HookEvent
from core.mcp import session_servers
from core.plans.plan_store import PlanStore
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage, Usage
from core.sessions.store import SessionStore
from core.workspace import Workspace
from core.workspace.plan_folder import PlanFolder
from tests.integration.test_best_of import MODELS, follow, has_ended, opened
from tests.integration.test_mcp_servers import SERVER, configure, script, small
from tests.support import builder
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.configured import ASKS, configured
from tests.support.open_session import compact, read_until, run_turn, session_in, submit
from tests.support.session_log import scan
from tests.support.story import access
from tests.support.subagents import converse, open_build
from tests.support.subagents import project_at as build_project
from tests.support.trust import trust

pytestmark = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")

CALLS = {
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "beforeShellExecution",
    "afterShellExecution",
    "beforeReadFile",
    "afterFileEdit",
    "afterAgentResponse",
}
SESSION = {"sessionStart", "sessionEnd", "beforeSubmitPrompt", "stop"}
PROMOTION = {"beforePromote", "afterPromote"}
TABLE: dict[str, set[str]] = {
    "agent": CALLS | SESSION | PROMOTION,
    "-p": CALLS | SESSION | PROMOTION,
    "build": SESSION
    | {
        "preToolUse",
        "postToolUse",
        "beforeShellExecution",
        "afterShellExecution",
        "afterFileEdit",
        "afterAgentResponse",
    },
    "candidate": {"subagentStart", "subagentStop", "afterAgentResponse", "preToolUse", "postToolUse", "afterFileEdit"},
    "server": SESSION | {"preToolUse", "postToolUse", "beforeMCPExecution", "afterMCPExecution", "afterAgentResponse"},
    "question": SESSION
    | {"preToolUse", "postToolUseFailure", "permissionRequest", "notification"}
    | {"beforeShellExecution", "afterAgentResponse"},
    "compaction": SESSION | {"preCompact", "postCompact", "afterAgentResponse"},
    "proof": {"beforeShellExecution", "afterShellExecution"},
    "subagent": {"subagentStart", "subagentStop", "preToolUse", "postToolUse", "afterFileEdit", "afterAgentResponse"}
    | {"beforeShellExecution", "afterShellExecution"},
    "task": {"subagentStart", "subagentStop", "preToolUse", "postToolUse", "afterFileEdit", "afterAgentResponse"},
    "user": {"beforeShellExecution", "afterShellExecution"},
}
STEPS = [
    calls(("read_file", {"target_file": "a.txt"}), text="I look."),
    calls(("run_terminal_cmd", {"command": "true"})),
    calls(("write", {"file_path": "b.txt", "contents": "x\n"})),
    calls(("read_file", {"target_file": "gone.txt"})),
    says("Done."),
]


def hook_everything(project: Path, events: Any = HookEvent) -> None:
    place = project / ".agent-tui" / "hooks.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps({"version": 1, "hooks": {event: [{"command": "cat > /dev/null"}] for event in events}}))
    trust(project)


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    hook_everything(root)
    return root


def raised(log: Path) -> set[str]:
    """The events whose hooks ran by a session's log; each of them ended well."""
    ran = [envelope.event for envelope in scan(log).envelopes if isinstance(envelope.event, ev.HookRan)]
    assert {event.outcome for event in ran} <= {"passed"}, ran
    return {event.event for event in ran}


def log_of(project: Path) -> Path:
    return max(SessionStore(project).path.glob("sessions/*/log.jsonl"))


def test_every_event_stands_in_the_table():
    assert set().union(*TABLE.values()) == set(HookEvent)


async def test_the_agents_own_session_raises_its_events(project):
    async with session_in(project, access(STEPS)) as (engine, session):
        await run_turn(engine, session)
        await submit(engine, cmd.HunkResolve(session=session, path="b.txt", verdict="accept"))
    assert raised(log_of(project)) == TABLE["agent"]
    assert (project / "b.txt").read_text() == "x\n"


def test_a_run_without_a_screen_raises_them_too(project, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    run_print(PrintArguments(directory=project, prompt="Do it", accept=("all",)), models=access(STEPS))
    assert raised(log_of(project)) == TABLE["-p"]
    assert (project / "b.txt").read_text() == "x\n"


async def until_hook(engine: Engine, session: str, event: str, *, after: int) -> None:
    """Wait until a hook of an event has run."""
    async with contextlib.aclosing(engine.events(session, after=after)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.HookRan) and envelope.event.event == event:
                return


async def hooks_of_a_typed_command(project: Path, *, until: int) -> list[ev.AnyEvent]:
    """The events of a session in which the user types a command, until so many hooks have run."""
    async with session_in(project, access(STEPS)) as (engine, session):
        await submit(engine, cmd.CommandRun(session=session, command="touch typed"))
        seen: list[ev.AnyEvent] = []
        async with contextlib.aclosing(engine.events(session)) as stream:
            async for envelope in stream:
                seen.append(envelope.event)
                if sum(isinstance(event, ev.HookRan) for event in seen) == until:
                    break
        await engine.terminal(session).close()
        await engine.wait_idle(session)
        return [*seen, *(log_envelope.event for log_envelope in scan(log_of(project)).envelopes[len(seen) :])]


async def test_a_command_that_the_user_types_raises_its_events(project):
    events = await hooks_of_a_typed_command(project, until=2)
    order = [type(event).__name__ for event in events if isinstance(event, ev.HookRan | ev.CommandRan)]
    assert order == ["HookRan", "CommandRan", "HookRan"]
    assert {event.event for event in events if isinstance(event, ev.HookRan)} == TABLE["user"]


async def test_a_command_that_the_user_types_can_be_refused(project):
    refusing = {"version": 1, "hooks": {"beforeShellExecution": [{"command": "echo not here >&2; exit 2"}]}}
    (project / ".agent-tui" / "hooks.json").write_text(json.dumps(refusing))
    trust(project)
    events = await hooks_of_a_typed_command(project, until=1)
    assert not [event for event in events if isinstance(event, ev.CommandRan)]


async def test_a_build_raises_the_events_of_a_session(tmp_path):
    root = tmp_path / "project"
    (root / ".cursor/plans").mkdir(parents=True)
    (root / builder.PATH).write_text(builder.plan_text())
    hook_everything(root)
    async with session_in(root, builder.access(root)) as (engine, session):
        await run_turn(engine, session, cmd.PlanBuild(session=session, path=builder.PATH))
    assert raised(log_of(root)) == TABLE["build"]


async def test_a_subagent_raises_its_events_in_its_own_session(tmp_path):
    root = build_project(tmp_path / "project")
    hook_everything(root)
    async with open_build(root) as (_, team):
        await team.build(workers=2)
    logs = list(SessionStore(root).path.glob("sessions/*/children/*/log.jsonl"))
    assert len(logs) == 5
    for log in logs:
        assert {"subagentStart", "subagentStop", "preToolUse", "afterAgentResponse"} <= raised(log)
    assert set().union(*map(raised, logs)) - {"postToolUseFailure"} == TABLE["subagent"]


async def test_a_task_raises_its_events_in_its_own_session_with_its_kind(tmp_path):
    root = build_project(tmp_path / "project")
    hook_everything(root)
    only_others = {
        "subagentStart": [{"command": "exit 2", "matcher": "explore"}, {"command": "true", "matcher": "general"}]
    }
    (root / ".agent-tui" / "hooks.json").write_text(
        json.dumps(
            {
                "version": 1,
                "hooks": only_others | {name: [{"command": "true"}] for name in TABLE["task"] - {"subagentStart"}},
            }
        )
    )
    trust(root)
    arguments = {"description": "Write it", "prompt": "[part docs]"}
    plays = {
        "parent": [calls(("task", arguments), ("task", {**arguments, "subagent_type": "explore"})), says("So.")],
        "docs": [calls(("write", {"file_path": "docs/use.md", "contents": "x\n"})), says("Written.")],
    }
    async with open_build(root, plays) as (engine, team):
        await converse(engine, team.session, "[part parent]")
        results = [
            message.content for message in engine.state(team.session).messages if isinstance(message, ToolMessage)
        ]
        assert results[0].startswith("Written.")
        assert "explore" in results[1]
        assert "did not finish" in results[1]
        [done] = [
            subagent for subagent in engine.state(team.session).subagents.values() if subagent.agent == "generalPurpose"
        ]
    log = next(SessionStore(root).path.glob(f"sessions/*/children/{done.id}/log.jsonl"))
    assert raised(log) == TABLE["task"]


async def test_a_candidate_raises_its_events_in_its_own_session(tmp_path):
    root = build_project(tmp_path / "project")
    hook_everything(root)
    plays = {model: [calls(("write", {"file_path": "b.txt", "contents": model})), says("So.")] for model in MODELS[:2]}
    async with opened(root, plays) as (engine, session):
        await follow(engine, cmd.BestRun(session=session, text="Do it", models=MODELS[:2]), has_ended)
        await engine.wait_idle(session)
    logs = list(SessionStore(root).path.glob("sessions/*/children/*/log.jsonl"))
    assert [raised(log) for log in logs] == [TABLE["candidate"]] * 2


async def test_a_tool_of_a_server_raises_its_events(project, tmp_path, monkeypatch):
    monkeypatch.setattr(session_servers, "FIRST_WAIT", 60.0)
    shutil.copy(SERVER, project / "server.py")
    configure()
    model = script(tmp_path, small("write", path="b.txt", text="x"), "Done.")
    async with session_in(project, model=model) as (engine, session):
        await run_turn(engine, session)
    assert raised(log_of(project)) == TABLE["server"]


async def test_a_question_to_the_user_raises_its_events(project):
    configured(ASKS)
    steps = [calls(("run_terminal_cmd", {"command": "touch made"})), says("Done.")]
    async with session_in(project, access(steps), interactive=False) as (engine, session):
        await run_turn(engine, session)
        await engine.wait_idle(session)
    assert raised(log_of(project)) == TABLE["question"]


async def test_a_compaction_raises_its_events_and_those_of_a_beginning(project):
    configured("[context]\nwindow = 100_000\n")
    steps = [says("A long story. " * 8_000), says("Brief.", usage=Usage(prompt_tokens=60_000)), says("Notes.")]
    async with session_in(project, access(steps)) as (engine, session):
        for _ in range(2):
            await run_turn(engine, session)
        await until_hook(engine, session, "sessionStart", after=await compact(engine, session))
    ran = [
        envelope.event.event for envelope in scan(log_of(project)).envelopes if isinstance(envelope.event, ev.HookRan)
    ]
    assert ran[-4:] == ["preCompact", "postCompact", "sessionStart", "sessionEnd"]
    assert raised(log_of(project)) == TABLE["compaction"]


PLAN = """---
name: Proof
todos:
  - id: a
    content: First
    status: pending
    verify: test -e a.txt
---
Do it.
"""
PLACE = ".cursor/plans/proof_1.plan.md"


async def prove(engine: Engine, session: str, until: type) -> list[ev.AnyEvent]:
    """Complete a todo of a plan as the user does, until an event of a kind."""
    (engine.terminal(session).host.workspace.root / PLACE).parent.mkdir(parents=True)
    (engine.terminal(session).host.workspace.root / PLACE).write_text(PLAN)
    before = engine.state(session).seq
    await submit(engine, cmd.TodoSet(session=session, plan=PLACE, id="a", status="completed"))
    return await read_until(engine, session, until, after=before)


def status_of_proved(project: Path) -> str:
    [todo] = PlanStore(PlanFolder(Workspace(project))).load(PLACE).todos
    return todo.status


async def test_the_proof_of_a_todo_that_the_user_completes_raises_its_events(project):
    async with session_in(project, access([])) as (engine, session):
        await prove(engine, session, ev.PlanUpdated)
        assert status_of_proved(project) == "completed"
    assert raised(log_of(project)) == TABLE["proof"]


async def test_a_hook_can_refuse_the_proof_of_a_todo_and_it_is_not_completed(project):
    refusing = {"version": 1, "hooks": {"beforeShellExecution": [{"command": "echo not here >&2; exit 2"}]}}
    (project / ".agent-tui" / "hooks.json").write_text(json.dumps(refusing))
    trust(project)
    async with session_in(project, access([])) as (engine, session):
        *_, error = await prove(engine, session, ev.ErrorRaised)
        assert (error.code, "not here" in error.message) == ("hook_refused", True)
        assert status_of_proved(project) == "pending"
