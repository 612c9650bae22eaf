"""Agents of others through the real engine, in a real box: whatever they do to the project waits for the review."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from core.engine.session.verification import plan_verification
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import FileEditDocument, TerminalCommandDocument
from core.state.receipt import build_receipt
from core.user_dirs import get_config_dir
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.processes import list_processes

AGENT = Path(__file__).parents[1] / "support" / "acp_agent.py"


@pytest.fixture
def login(tmp_path: Path, monkeypatch: Any) -> Path:
    place = tmp_path / "login"
    place.mkdir()
    (place / "token").write_text("old")
    (place / "hooks.json").write_text("the user's")
    monkeypatch.setenv("ACP_AGENT_HOME", str(place))
    return place


def configure(
    tmp_path: Path, *options: str, policy: str = "auto", login: str = "", name: str = "small", more: str = ""
) -> str:
    """The user's own configuration of the agent; returns the id that stands in the place of a model's."""
    script = tmp_path / "agent" / "acp_agent.py"
    script.parent.mkdir(exist_ok=True)
    shutil.copy(AGENT, script)
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    command = json.dumps([sys.executable, str(script), *options])
    text = f'[commands]\npolicy = "{policy}"\n[agent_servers.{name}]\ncommand = {command}\n'
    text += 'env = ["ACP_AGENT_HOME", "SMALL_API_KEY"]\n'
    text += f'login = [{json.dumps(login)}]\ntokens = ["token"]\n' if login else ""
    (place / "config.toml").write_text(text + more)
    return f"acp/{name}"


def text_of(events: list[Any]) -> str:
    texts = [event.document for event in events if isinstance(event, ev.DocumentFinished)]
    return "".join(str(document.content or "") for document in texts)


def documents_of(events: list[Any], kind: type) -> list[Any]:
    documents = [event.document for event in events if isinstance(event, ev.DocumentFinished)]
    return [document for document in documents if isinstance(document, kind)]


async def test_what_an_agent_writes_is_hunks_and_the_disk_is_untouched_until_they_are_accepted(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "edit command")
        changes = engine.state(session).changes
        assert sorted(changes) == ["a.txt", "b.txt", "made.txt"]
        assert all(change.origin is not None and change.origin.tool == "acp/small" for change in changes.values())
        assert [path.name for path in project.iterdir()] == ["a.txt"]
        assert (project / "a.txt").read_text() == "one\n"
        edits = documents_of(events, FileEditDocument)
        assert [(edit.metadata.file_path, edit.metadata.operation) for edit in edits] == [
            ("a.txt", "edit"),
            ("b.txt", "create"),
        ]
        [ran] = documents_of(events, TerminalCommandDocument)
        assert ran.metadata.output == "written by the agent in a.txt\n"
        assert "hunk" not in text_of(events)
        hunk = changes["a.txt"].hunks[0].id
        await submit(engine, cmd.HunkResolve(session=session, path="a.txt", hunks=(hunk,), verdict="accept"))
        assert (project / "a.txt").read_text() == "written by the agent in a.txt\n"
        assert not (project / "b.txt").exists()
    assert list_processes(str(tmp_path)) == []


async def test_n25_what_an_agent_says_of_its_tests_is_its_word_and_no_evidence(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "edit claim")
        [ran] = documents_of(events, TerminalCommandDocument)
        assert (ran.metadata.command, ran.metadata.exit_code) == ("pytest -q", 0)
        assert ran.metadata.is_reported
        assert ran.metadata.tests == ""
        state = engine.state(session)
        assert [change.check for change in state.changes.values()] == [None, None]
        assert build_receipt(state, state.turns[-1]).checks == ()
        plan = plan_verification(state, (), cmd.ChangesVerify(session=session))
        assert plan.refused


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_plan_and_ask_throw_away_what_an_agent_wrote(tmp_path, project, mode):
    model = configure(tmp_path)
    async with session_in(project, model=model, mode=mode, trust=True) as (engine, session):
        events = await run_turn(engine, session, "edit command delete")
        assert engine.state(session).changes == {}
        assert "[plan] heard" in text_of(events)  # it was told by its own mode as well
        assert "was dropped" in text_of(events)
    assert [path.name for path in project.iterdir()] == ["a.txt"]


async def test_an_edit_that_an_agent_could_not_make_is_not_told_as_thrown_away(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, mode="plan", trust=True) as (engine, session):
        assert "dropped" not in text_of(await run_turn(engine, session, "read forbidden"))
        assert "dropped" in text_of(await run_turn(engine, session, "read forbidden edit"))


async def test_an_agent_sees_what_is_pending_and_is_told_of_verdicts(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session, "edit")
        await submit(engine, cmd.HunkResolve(session=session, path="b.txt", verdict="reject", reason="not that"))
        events = await run_turn(engine, session, "command")
        [ran] = documents_of(events, TerminalCommandDocument)
        assert ran.metadata.output == "written by the agent in a.txt\n"  # pending, and not on disk
        assert "rejected: b.txt (not that)" in text_of(events)
        assert "REPLAYED" not in text_of(events)  # what it said when its session was loaded
        assert "The conversation so far" not in text_of(events)


async def test_the_output_of_a_command_is_what_it_printed_and_nothing_that_is_drawn_around_it(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "drawn")
        ran = documents_of(events, TerminalCommandDocument)
        assert [document.metadata.output for document in ran] == ["made", "(no output)", "built"]


async def test_a_plan_is_shown_thoughts_are_kept_and_a_long_line_or_garbage_ends_nothing(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "plan think garbage long")
        todos = engine.state(session).todos
        assert [(todo.content, todo.status) for todo in todos] == [("Look", "completed"), ("Write", "in_progress")]
        assert len(text_of(events)) > 1 << 20
        assert engine.state(session).turns[-1].reason == "done"


async def test_edits_and_contained_commands_need_nobodys_leave_and_nobody_answering_is_no_refusal(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True, interactive=False) as (engine, session):
        events = await run_turn(engine, session, "ask other")
        assert "edit: yes" in text_of(events)
        assert "execute: yes" in text_of(events)
        assert "other: cancelled" in text_of(events)


async def test_a_command_is_asked_about_where_the_policy_says_so(tmp_path, project):
    model = configure(tmp_path, policy="confirm")
    async with session_in(project, model=model, trust=True) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="ask"))
        asked = (await read_until(engine, session, ev.ApprovalRequested, after=before))[-1]
        assert (asked.kind, asked.subject) == ("command", "ls")
        await engine.submit(cmd.ApprovalAnswer(session=session, id=asked.id, decision="reject_once"))
        events = await read_until(engine, session, ev.TurnFinished, after=before)
        assert "execute: no" in text_of(events)


async def test_an_agent_changes_its_login_and_nothing_else_outside_and_reaches_no_other_host(tmp_path, project, login):
    model = configure(tmp_path, login=str(login))
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "login outside network")
        assert (login / "token").read_text() == "refreshed"
        assert (login / "hooks.json").read_text() == "the user's"  # it would be run outside of the box
        assert "no network" in text_of(events)
        assert not (project.parent / "outside.txt").exists()
        assert "wrote /etc" not in text_of(events)
        assert engine.state(session).changes == {}


async def test_an_agent_that_dies_is_told_with_its_last_words_and_its_work_is_kept(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session, "edit die")
        turn = engine.state(session).turns[-1]
        assert turn.reason == "failed"
        assert "small ended with code 7. It said: about to die" in turn.message
        assert sorted(engine.state(session).changes) == ["a.txt", "b.txt"]
    assert list_processes(str(tmp_path)) == []


async def test_escape_ends_an_agent_that_does_not_listen(tmp_path, project, monkeypatch):
    monkeypatch.setattr("core.engine.hosted.agent_process.CANCEL_SECONDS", 0.2)
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="edit hang"))
        await read_until(engine, session, ev.DocumentStarted, after=before)
        await engine.submit(cmd.TurnInterrupt(session=session))
        await read_until(engine, session, ev.TurnFinished, after=before)
        await engine.wait_idle(session)
        assert engine.state(session).turns[-1].reason == "interrupted"
    assert list_processes(str(tmp_path)) == []


async def test_what_is_said_while_an_agent_works_is_its_next_prompt(tmp_path, project):
    model = configure(tmp_path, policy="confirm")
    async with session_in(project, model=model, trust=True) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="ask"))
        asked = (await read_until(engine, session, ev.ApprovalRequested, after=before))[-1]
        await engine.submit(cmd.TurnSteer(session=session, text="think"))
        await engine.submit(cmd.ApprovalAnswer(session=session, id=asked.id, decision="allow_once"))
        events = await read_until(engine, session, ev.TurnFinished, after=before)
        assert "heard: think" in text_of(events)
        assert not any(isinstance(event, ev.SteerReturned) for event in events)


async def test_a_session_goes_on_after_a_restart_and_an_agent_that_forgot_is_told(tmp_path, project):
    for options, remembered in (((), True), (("--forgetful",), False)):
        model = configure(tmp_path, *options)
        async with session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session, "plan")
        async with session_in(project, opening=cmd.SessionResume(session=session), trust=True) as (engine, _):
            events = await run_turn(engine, session, "think")
            assert ("The conversation so far" not in text_of(events)) is remembered


async def test_a_rewind_takes_back_files_and_the_agents_own_session(tmp_path, project):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session, "plan")
        await run_turn(engine, session, "edit")
        second = list(engine.state(session).checkpoints)[1]
        await submit(engine, cmd.CheckpointRestore(session=session, id=second, what="both"))
        assert engine.state(session).changes == {}
        events = await run_turn(engine, session, "think")
        assert "The conversation so far" in text_of(events)
        assert "edit" not in text_of(events).replace("[default]", "")


async def test_what_keeps_an_agent_from_working_is_said_plainly(tmp_path, project):
    model = configure(tmp_path, "--login")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session, "edit")
        assert "small needs a login." in engine.state(session).turns[-1].message
        await submit(engine, cmd.ModelSet(session=session, model="acp/gemini"))
        await run_turn(engine, session, "edit")
        assert "gemini is not installed" in engine.state(session).turns[-1].message
        reply = await engine.submit(cmd.ModelSet(session=session, model="acp/nobody"))
        await asyncio.sleep(0)
        refused = (
            reply
            if isinstance(reply, cmd.Reject)
            else await engine.submit(cmd.TurnSubmit(session=session, text="edit"))
        )
        assert isinstance(refused, cmd.Reject)
        assert "Known: claude, codex, gemini, opencode, small" in refused.hint
