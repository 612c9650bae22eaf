"""Turns that no model of ours answers have the same frame as any other: hooks run, and a fault leaves a report."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.crash_reports import FOLDER
from core.engine import Engine
from core.engine.hosted.agent_process import AgentProcess
from core.engine.session.session import Session
from core.engine.subagents import best_of
from core.engine.subagents.best_of import BestOf
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from core.user_dirs import get_state_dir
from tests.integration.test_best_of import MODELS, PLAYS, follow, has_ended, opened
from tests.integration.test_hooks import write_hooks
from tests.integration.test_hosted_agents import configure
from tests.support.box_tiers import offered
from tests.support.open_session import run_turn, session_in
from tests.support.subagents import project_at

boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")
GO_ON = """grep -q '"loop_count": *0' && echo '{"followup_message": "edit it too"}'; true"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_at(tmp_path / "project")


@asynccontextmanager
async def best_of_turn(project: Path) -> AsyncIterator[tuple[Engine, str, list[Any]]]:
    async with opened(project, PLAYS) as (engine, session):
        asked = cmd.BestRun(session=session, text="Make the prices right", models=MODELS)
        yield engine, session, await follow(engine, asked, has_ended)


def hook_runs(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.event, event.outcome) for event in events if isinstance(event, ev.HookRan)]


def program_texts(engine: Engine, session: str) -> str:
    messages = engine.state(session).messages
    return "\n".join(message.content for message in messages if isinstance(message, UserMessage))


def crash_reports() -> list[Path]:
    return sorted((get_state_dir() / FOLDER).glob("*.txt"))


def break_down(*_: object, **__: object) -> None:
    raise KeyError("nobody expected this")


def ending(events: list[Any]) -> tuple[str, str]:
    finished = [event for event in events if isinstance(event, ev.TurnFinished)]
    assert len(finished) == 1
    return finished[0].reason, finished[0].message


@boxed
async def test_a_hosted_agent_continues_with_what_a_stop_hook_wants(tmp_path, project):
    hooks = {"beforeSubmitPrompt": [{"command": "cat > /dev/null"}], "stop": [{"command": GO_ON}]}
    write_hooks(project, hooks)
    async with session_in(project, model=configure(tmp_path)) as (engine, session):
        events = await run_turn(engine, session, "think")
        assert ending(events) == ("done", "")
        assert [name for name, _ in hook_runs(events)] == ["beforeSubmitPrompt", "stop", "stop"]
        assert "A hook says:\nedit it too" in program_texts(engine, session)
        assert "a.txt" in engine.state(session).changes  # the agent worked on the follow-up


@boxed
async def test_a_hosted_agent_is_not_sent_a_prompt_that_a_hook_refuses(tmp_path, project):
    write_hooks(project, {"beforeSubmitPrompt": [{"command": "echo not today >&2; exit 2"}]})
    async with session_in(project, model=configure(tmp_path)) as (engine, session):
        events = await run_turn(engine, session, "edit")
        reason, message = ending(events)
        assert (reason, "not today" in message) == ("failed", True)
        assert not engine.state(session).messages
        assert not engine.state(session).changes


async def test_a_fault_in_the_turn_of_a_hosted_agent_leaves_a_report(tmp_path, project, monkeypatch):
    monkeypatch.setattr(AgentProcess, "start", break_down)
    async with session_in(project, model=configure(tmp_path), trust=True) as (engine, session):
        reason, message = ending(await run_turn(engine, session, "edit"))
    [report] = crash_reports()
    assert (reason, str(report) in message) == ("failed", True)
    assert "in break_down" in report.read_text()


@boxed
async def test_hooks_run_around_a_turn_of_subagents(project, monkeypatch):
    candidates: list[Session] = []
    copy_conversation = BestOf._copy_conversation

    def copy_and_record(turn: BestOf, child: Session) -> None:
        candidates.append(child)
        copy_conversation(turn, child)

    monkeypatch.setattr(BestOf, "_copy_conversation", copy_and_record)
    add = {"command": f"echo {json.dumps(json.dumps({'additional_context': 'Cents are whole.'}))}"}
    write_hooks(project, {"beforeSubmitPrompt": [add], "stop": [{"command": GO_ON}], "subagentStop": [add]})
    async with best_of_turn(project) as (engine, session, events):
        assert ending(events) == ("done", "")
        assert [name for name, _ in hook_runs(events)] == ["beforeSubmitPrompt", "stop"]
        assert "A hook says:\nedit it too" in program_texts(engine, session)
    assert len(candidates) == len(MODELS)
    for candidate in candidates:
        assert any("Cents are whole." in message.content for message in candidate.state.messages)
        assert [run.event for run in candidate.state.hook_results.values()] == ["subagentStop"]


async def test_a_fault_in_a_turn_of_subagents_leaves_a_report(project, monkeypatch):
    monkeypatch.setattr(best_of, "create_subagent_session", break_down)
    async with best_of_turn(project) as (_, _, events):
        reason, message = ending(events)
    [report] = crash_reports()
    assert (reason, str(report) in message) == ("failed", True)
    assert "in break_down" in report.read_text()
