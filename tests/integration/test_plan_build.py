"""A plan with a diamond, a chain and a proof, worked off by a model: in order, through a kill, and byte for byte."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.arguments import ScreenArguments
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client
from core.sessions.store import SessionStore
from core.transports.stdio_client import connect
from tests.support.box_tiers import offered
from tests.support.builder import GRAPH, PATH, access, plan_text
from tests.support.open_session import session_in, submit
from tests.support.session_log import scan
from tests.support.trust import trust

HOST = Path(__file__).parents[1] / "support" / "builder_host.py"
boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="a proof needs a box")


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    (root / ".cursor/plans").mkdir(parents=True)
    (root / PATH).write_text(plan_text())
    trust(root)
    return root


async def build(client: Client, session: str, *, until_done: int = 99, after: int = 0) -> list[ev.AnyEvent]:
    """Build, saying yes to commands, until so many todos are completed or the turn ends."""
    seen: list[ev.AnyEvent] = []
    async with contextlib.aclosing(client.events(session, after=after)) as stream:
        reply = await client.submit(cmd.PlanBuild(session=session, path=PATH))
        assert isinstance(reply, cmd.Ack), reply
        async for envelope in stream:
            seen.append(envelope.event)
            match envelope.event:
                case ev.ApprovalRequested(id=name):
                    await client.submit(cmd.ApprovalAnswer(session=session, id=name, decision="allow_once"))
                case ev.TodoChanged(todos=todos) if sum(todo.status == "completed" for todo in todos) >= until_done:
                    return seen
                case ev.TurnFinished():
                    return seen
                case _:
                    continue
    return seen


def begun(events: Sequence[ev.AnyEvent]) -> list[str]:
    """The todos in the order in which they were in progress."""
    keys: list[str] = []
    for event in events:
        if isinstance(event, ev.TodoChanged):
            working = [todo.id for todo in event.todos if todo.status == "in_progress"]
            assert len(working) <= 1
            keys += [key for key in working if key not in keys]
    return keys


@boxed
async def test_a_build_is_killed_in_the_middle_and_goes_on_where_it_was(project):
    client = await connect(ScreenArguments(directory=project, program=(sys.executable, str(HOST))))
    opened = await client.submit(cmd.SessionOpen())
    first = await build(client, opened.session, until_done=5)
    os.kill(client.pid, signal.SIGKILL)
    await client.close()
    engine = Engine(project, options=EngineOptions(watch=False), models=access(project))
    try:
        session = opened.session
        assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
        state = engine.state(session)
        assert state.current_turn is None
        assert sum(todo.status == "completed" for todo in state.todos) >= 5
        second = await build(engine, session, after=state.seq)
        assert isinstance(second[-1], ev.TurnFinished)
        assert second[-1].reason == "done"
        # The engine may have gone on for a moment after the last event that the client saw: the log knows all of it.
        log = scan(SessionStore(project).sessions_path / session / "log.jsonl")
        whole = [envelope.event for envelope in log.envelopes]
        assert len(begun(first)) >= 5
        order = begun(whole)
        assert sorted(order) == sorted(GRAPH)
        assert all(order.index(need) < order.index(key) for key, needs in GRAPH.items() for need in needs)
        proofs = [proof.exit_code for proof in whole if isinstance(proof, ev.TodoVerified)]
        assert proofs == [1, 0]
        assert (project / PATH).read_text() == plan_text().replace("status: pending", "status: completed")
        assert set(state.changes) == {*(f"out/{key}.txt" for key in GRAPH), "out/fixed.txt"}
        assert all(state.changes[f"out/{key}.txt"].origin.todo == key for key in GRAPH)
        reply = await engine.submit(cmd.PlanBuild(session=session, path=PATH))
        assert isinstance(reply, cmd.Reject)
        assert reply.code == "nothing_to_build"
    finally:
        await engine.close()


def opened(project: Path):
    return session_in(project, access(project), cmd.SessionOpen(mode="plan"))


async def test_one_todo_is_built_alone_and_not_before_its_time(project):
    async with opened(project) as (engine, session):
        early = await engine.submit(cmd.PlanBuild(session=session, path=PATH, todo="b"))
        assert isinstance(early, cmd.Reject)
        assert (early.code, early.message) == ("todo_blocked", "b depends on a.")
        unknown = await engine.submit(cmd.PlanBuild(session=session, path=PATH, todo="z"))
        assert isinstance(unknown, cmd.Reject)
        assert unknown.code == "todo_unknown"


async def test_a_build_with_a_fresh_context_sends_nothing_of_the_conversation(project):
    async with opened(project) as (engine, session):
        engine._find_session(session).emit(ev.PlanUpdated(plan=engine._find_session(session).plans.store.load(PATH)))
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="a word that is not to be sent again"))
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.TurnFinished):
                    break
        reply = await engine.submit(cmd.PlanBuild(session=session, path=PATH, fresh=True))
        assert isinstance(reply, cmd.Ack), reply
        await engine.wait_idle(session)
        await engine.submit(cmd.TurnInterrupt(session=session))
        messages = engine.state(session).messages
        assert not any("not to be sent again" in message.content for message in messages)
        assert engine.state(session).mode == "agent"


async def test_an_edit_outside_shows_and_a_broken_file_is_told(project):
    async with opened(project) as (engine, session):
        runtime = engine._find_session(session)
        plan = runtime.plans.store.load(PATH)
        runtime.emit(ev.PlanUpdated(plan=plan))
        runtime.emit(ev.TodoChanged(todos=plan.todos, plan=PATH))
        (project / PATH).write_text(plan_text().replace("'Make l'", "Make l well"))
        runtime.on_disk_changed((PATH,))
        assert engine.state(session).todos[0].content == "Make l well"
        (project / PATH).write_text(plan_text().replace("id: a", "id: b"))
        seq = engine.state(session).seq
        runtime.on_disk_changed((PATH,))
        runtime.on_disk_changed((PATH,))
        async with contextlib.aclosing(engine.events(session, after=seq)) as stream:
            envelope = await anext(stream)
        assert isinstance(envelope.event, ev.Notice)
        assert "the id b is already used by the todo on line" in envelope.event.message
        assert engine.state(session).seq == seq + 1
        assert engine.state(session).todos[0].content == "Make l well"


async def test_a_faulty_plan_is_not_built(project):
    (project / PATH).write_text(plan_text().replace("[ a ]", "[ a, zz ]"))
    async with opened(project) as (engine, session):
        reply = await engine.submit(cmd.PlanBuild(session=session, path=PATH))
        assert isinstance(reply, cmd.Reject)
        assert "which does not exist" in reply.message


@boxed
async def test_the_user_completes_a_todo_when_its_command_passes(project):
    async with opened(project) as (engine, session):
        for exists in (False, True):
            if exists:
                (project / "out").mkdir()
                (project / "out/fixed.txt").write_text("")
            before = engine.state(session).seq
            done = cmd.TodoSet(session=session, plan=PATH, id="g", status="completed", anyway=True)
            reply = await engine.submit(done)
            assert isinstance(reply, cmd.Ack), reply
            event_type = ev.PlanUpdated if exists else ev.ErrorRaised
            async with contextlib.aclosing(engine.events(session, after=before)) as stream:
                async for envelope in stream:
                    if isinstance(envelope.event, event_type):
                        break
        assert "status: completed" in (project / PATH).read_text()


async def test_comments_on_a_plan_survive_a_restart_follow_their_lines_and_go_as_one_message(project):
    text = (project / PATH).read_text()
    async with opened(project) as (engine, session):
        await submit(engine, cmd.PlanEdit(session=session, path=PATH))
        say = cmd.PlanComment(session=session, path=PATH, text="Which part?", start=3, excerpt="All of it.  ")
        title_comment = cmd.PlanComment(session=session, path=PATH, text="A better name", start=1, excerpt="# Shop\n")
        for command in (say, title_comment, replace(say, text="No.")):
            await submit(engine, command)
        comments = list(engine.state(session).review.comments.values())
        await submit(engine, cmd.PlanComment(session=session, path=PATH, id=comments[2].hunk, text=""))
        changed = cmd.PlanComment(session=session, path=PATH, id=comments[0].hunk, text="Which?")
        await submit(engine, changed)
        for wrong in (replace(changed, id="say_x"), replace(say, text=" "), replace(say, path="x.plan.md")):
            assert isinstance(await engine.submit(wrong), cmd.Reject)
    engine = Engine(project, options=EngineOptions(watch=False), models=access(project))
    try:
        assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
        assert [comment.text for comment in engine.state(session).review.comments.values()] == [
            "A better name",
            "Which?",
        ]
        (project / PATH).write_text(text.replace("# Shop\n", "# Till\n\nNew.\n"))
        await submit(engine, cmd.PlanEdit(session=session, path=PATH))
        before = engine.state(session).seq
        await engine.submit(cmd.CommentsSend(session=session))
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            prompt = [envelope.event.prompt async for envelope in _until_started(stream)][-1]
        assert prompt.startswith("My comments on the plan:")
        assert "on lines of the plan's text that have changed since:\n```markdown\n# Shop\n\n```\nA better" in prompt
        assert f"`{PATH}`, line 5 of the plan's text:\n```markdown\nAll of it.  \n```\nWhich?" in prompt
        assert engine.state(session).review.comments == {}
    finally:
        await engine.close()


async def _until_started(stream):
    async for envelope in stream:
        if isinstance(envelope.event, ev.TurnStarted):
            yield envelope
            return


async def test_an_edit_that_was_begun_before_the_plan_changed_is_merged(project):
    async with opened(project) as (engine, session):
        await submit(engine, cmd.PlanEdit(session=session, path=PATH))
        base = engine.state(session).plans[PATH]
        for body in ("# Shop\n\nAll of it.  \n\nTheirs.", "# My shop\n\nAll of it.  "):
            await submit(engine, cmd.PlanEdit(session=session, path=PATH, body=body, base=base))
        assert engine.state(session).plans[PATH].body == "# My shop\n\nAll of it.  \n\nTheirs."
        await submit(engine, cmd.TodoSet(session=session, plan=PATH, id="a", status="completed"))
        turned = tuple(reversed(base.todos))
        await submit(engine, cmd.PlanEdit(session=session, path=PATH, todos=turned, base=base))
        now = engine.state(session).plans[PATH].todos
        assert [todo.id for todo in now] == [todo.id for todo in turned]
        assert [todo.id for todo in now if todo.status == "completed"] == ["a"]


async def test_a_todo_that_waits_is_not_begun_by_the_user(project):
    async with opened(project) as (engine, session):
        early = cmd.TodoSet(session=session, plan=PATH, id="b", status="in_progress")
        for command in (early, replace(early, status="completed"), replace(early, anyway=True)):
            reply = await engine.submit(command)
            assert isinstance(reply, cmd.Reject)
            assert (reply.code, reply.message[-13:]) == ("todo_blocked", "depends on a.")
        done = replace(early, status="completed", anyway=True)
        await submit(engine, done)
        assert next(todo for todo in engine.state(session).plans[PATH].todos if todo.id == "b").status == "completed"
