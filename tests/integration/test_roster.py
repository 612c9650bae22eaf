"""The roster on a real engine: who is at work, what one says, one that is stopped, one that asks, one that clashes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from core.errors import AgentTuiError
from core.protocol import commands as cmd
from core.protocol.messages import UserMessage
from core.protocol.queries import AgentsAnswer, AgentsQuery, CompletionAnswer, CompletionQuery
from tests.support.agent_case import calls, says
from tests.support.roster_screen import mark, open_screen, read_rows, until
from tests.support.subagents import KNOWN, ROUNDED, converse, edit, open_build, project_at
from tests.support.trust import trust
from tui.app import AgentApp
from tui.ask.question_bar import QuestionBar
from tui.chat.transcript import Transcript
from tui.dialogs.listings.agents import SubagentDialog

GROSS = "    return price * (1 + RATE)"
ASKS = {"questions": [{"id": "q", "prompt": "Which one?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def give(part: str, **more: str) -> tuple[str, dict[str, object]]:
    return "task", {"description": f"Do {part}", "prompt": f"[part {part}]", **more}


def read_dialog(app: AgentApp) -> str:
    transcript = app.screen.query_one(Transcript)
    return "\n".join(transcript.render_line(y).text.rstrip() for y in range(transcript.size.height))


@contextlib.asynccontextmanager
async def open_team(project: Path) -> AsyncIterator[tuple[AgentApp, Pilot[Any], asyncio.Event]]:
    """A screen on an engine with four at work: one is done, one waits for the event, one never ends, one asks."""
    gate, held = asyncio.Event(), asyncio.Event()
    plays = {
        "parent": [calls(*map(give, ("rounding", "rate", "docs", "asks"))), says("All are done.")],
        "rounding": [edit(GROSS, ROUNDED), says("It is rounded.")],
        "rate": [edit(GROSS, KNOWN), [gate, *says("It knows.")]],
        "docs": [calls(("list_dir", {"target_directory": "."})), [held, *says("never said")]],
        "asks": [calls(("ask_question", ASKS)), says("Blue it is.")],
    }
    async with open_build(project, plays) as (engine, team), open_screen(engine, team.session) as (app, pilot):
        app.main.context.prompt.text = "[part parent]"
        app.main.context.prompt.action_send()
        state, panes = app.main.state, app.main.controllers.panes
        await until(pilot, lambda: len(state.transcript.subagents) == 4 and len(state.questions))
        await until(pilot, lambda: panes.side is not None and panes.side.current == "review")  # it came by itself
        await pilot.press("f9")
        await until(pilot, lambda: "waiting for you" in read_rows(app) and "✓" in read_rows(app))
        yield app, pilot, gate


async def test_one_is_read_while_it_works_and_stopped_and_what_it_has_is_kept(project):
    async with open_team(project) as (app, pilot, _):
        rows = read_rows(app)
        assert "✓ generalPurpose · Do rounding" in rows
        assert all(f"generalPurpose · Do {name}" in rows for name in ("rate", "docs", "asks"))
        docs = mark(app, "Do docs")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SubagentDialog) and "Listed" in read_dialog(app))
        await pilot.press("x")
        await until(pilot, lambda: "⊘ generalPurpose · Do docs" in read_rows(app))
        assert app.screen is app.main
        assert "its changes stay in its own shadow" in read_rows(app)
        assert app.main.state.subagents[docs].reason == "interrupted"
        mark(app, "Do rate")
        await pilot.press("x")
        await until(pilot, lambda: "⊘ generalPurpose · Do rate" in read_rows(app))
        await pilot.press("x")
        assert "Agents 1" in str(app.main.query_one("#side-title", Static).content)


async def test_a_question_reaches_the_user_a_clash_is_told_and_what_has_ended_can_be_read(project, monkeypatch):
    monkeypatch.setattr("tui.ask.question_bar.GRACE", 0.0)
    async with open_team(project) as (app, pilot, gate):
        mark(app, "Do docs")
        await pilot.press("x")
        await until(pilot, lambda: "⊘ generalPurpose · Do docs" in read_rows(app))
        await pilot.press("f2")
        await until(pilot, lambda: app.main.query_one(QuestionBar).has_focus)
        await pilot.press("2")
        gate.set()
        await until(pilot, lambda: not app.main.state.is_running)
        await pilot.press("f9")
        await until(pilot, lambda: "! generalPurpose · Do rate" in read_rows(app))
        assert "in conflict: calc.py" in read_rows(app)
        assert "✓ generalPurpose · Do asks" in read_rows(app)
        mark(app, "Do asks")
        await pilot.press("enter")  # it has ended: what is shown comes from its log
        await until(pilot, lambda: isinstance(app.screen, SubagentDialog) and "Blue it is." in read_dialog(app))
        await pilot.press("x")
        assert isinstance(app.screen, SubagentDialog), "there is nothing to stop"
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)


async def test_the_user_names_the_subagent_and_the_model_is_told(project):
    async with open_build(project, {"parent": [says("I shall.")]}) as (engine, team):
        await converse(engine, team.session, "[part parent] @agent-explore where is the rate?")
        [sent] = [message for message in engine.state(team.session).messages if isinstance(message, UserMessage)]
        assert "The user wants the subagent `explore` for this" in sent.content
        refused = await engine.submit(cmd.TurnSubmit(session=team.session, text="@agent:explorer look"))
        assert isinstance(refused, cmd.Reject)
        assert "there is no subagent 'explorer'" in refused.message
        assert "generalPurpose, explore" in refused.hint
        answer = await engine.query(CompletionQuery(session=team.session, pattern="agent-e"))
        assert isinstance(answer, CompletionAnswer)
        assert [completion.word for completion in answer.completions] == ["agent-explore"]


async def test_the_kinds_say_what_keeps_one_from_starting(project):
    agents = project / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "good.md").write_text(
        "---\nname: good\ndescription: Reads.\ntools: Read, Grep\nmodel: sonnet\n---\nRead.\n"
    )
    (agents / "odd.md").write_text("---\nname: odd\ndescription: Odd.\nallowed-tools: Read\n---\nOdd.\n")
    (agents / "none.md").write_text("no front matter\n")
    trust(project)
    async with open_build(project, {}) as (engine, team):
        answer = await engine.query(AgentsQuery(session=team.session))
        assert isinstance(answer, AgentsAnswer)
        good, odd, general, explore, browser = answer.agents
        assert (good.model, good.other_model) == ("", "sonnet")
        assert (good.name, good.tools, good.refusal) == ("good", ("grep", "read_file"), "")
        assert "allowed-tools" in odd.refusal
        assert (general.name, general.tools, explore.is_readonly) == ("generalPurpose", None, True)
        assert browser.name == "browser-use"
        assert [extension.path for extension in answer.skipped] == [".claude/agents/none.md"]


async def test_a_subagent_that_was_never_there_has_no_events(project):
    async with open_build(project, {}) as (engine, _):
        with pytest.raises(AgentTuiError, match="no session"):
            [envelope async for envelope in engine.events("sub_0000000000000000")]
