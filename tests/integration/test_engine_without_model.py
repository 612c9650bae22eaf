from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import Plan, Todo

OPTIONS = EngineOptions(model="scripted/none.yaml", watch=False)


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("one\ntwo\nthree\n")
    (root / "build").mkdir()
    (root / "build" / "out.js").write_text("x")
    (root / ".gitignore").write_text("build/\n")
    (root / "data.bin").write_bytes(b"\0\1\2")
    return root


@pytest.fixture
async def engine(project):
    new_engine = Engine(project, options=OPTIONS)
    yield new_engine
    await new_engine.close()


async def opened(engine: Engine) -> str:
    reply = await engine.submit(cmd.SessionOpen())
    assert isinstance(reply, cmd.Ack), reply
    return reply.session


async def effect_of(engine: Engine, command: cmd.AnyCommand) -> None:
    reply = await engine.submit(command)
    assert isinstance(reply, cmd.Ack), reply
    await engine.wait_idle(command.session)


async def code_of(engine: Engine, command: cmd.AnyCommand) -> str:
    reply = await engine.submit(command)
    assert isinstance(reply, cmd.Reject), reply
    return reply.code


def propose(engine: Engine, session: str, path: str, text: str) -> None:
    engine._find_session(session).shadow.write(path, text.encode())


async def events_of(engine: Engine, session: str) -> list[ev.AnyEvent]:
    last, envelopes = engine.state(session).seq, []
    stream = engine.events(session)
    while not envelopes or envelopes[-1].seq < last:
        envelopes.append(await anext(stream))
    await stream.aclose()
    return [envelope.event for envelope in envelopes]


async def test_an_ack_comes_before_the_effect(engine):
    session = await opened(engine)
    known = engine.state(session).seq
    reply = await engine.submit(cmd.ModeSet(session=session, mode="plan"))
    assert reply == cmd.Ack(session=session, seq=known)
    assert engine.state(session).mode == "agent"
    await engine.wait_idle(session)
    assert engine.state(session).mode == "plan"


async def test_wrong_commands_are_rejected_with_a_code_and_change_nothing(engine):
    session = await opened(engine)
    propose(engine, session, "src/main.py", "one\n2\nthree\n")
    seq = engine.state(session).seq
    wrong = {
        "session_unknown": cmd.ModeSet(session="ses_x", mode="ask"),
        "empty_text": cmd.TurnSubmit(session=session, text="  \n"),
        "no_turn": cmd.TurnInterrupt(session=session),
        "approval_unknown": cmd.ApprovalAnswer(session=session, id="a", decision="allow_once"),
        "question_unknown": cmd.QuestionReply(session=session, id="q"),
        "change_unknown": cmd.HunkResolve(session=session, path="nope", verdict="accept"),
        "hunk_unknown": cmd.HunkResolve(session=session, path="src/main.py", verdict="accept", hunks=("h",)),
        "nothing_to_undo": cmd.VerdictUndo(session=session),
        "todo_unknown": cmd.TodoSet(session=session, id="t", status="completed"),
        "nothing_to_compact": cmd.ContextCompact(session=session),
    }
    assert {code: await code_of(engine, command) for code, command in wrong.items()} == {code: code for code in wrong}
    assert engine.state(session).seq == seq


async def test_accept_reject_and_undo_change_exactly_the_hunks_named(engine, project):
    session = await opened(engine)
    lines = [f"line {number}" for number in range(30)]
    (project / "long.txt").write_text("\n".join(lines) + "\n")
    propose(engine, session, "long.txt", "\n".join(["first", *lines[1:29], "last"]) + "\n")
    first, last = (hunk.id for hunk in engine.state(session).changes["long.txt"].hunks)
    await effect_of(engine, cmd.HunkResolve(session=session, path="long.txt", verdict="accept", hunks=(first,)))
    assert (project / "long.txt").read_text().splitlines() == ["first", *lines[1:]]
    await effect_of(
        engine, cmd.HunkResolve(session=session, path="long.txt", verdict="reject", hunks=(last,), reason="no")
    )
    assert not engine.state(session).changes
    assert [verdict.reason for verdict in engine.state(session).unreported_verdicts.values()] == ["", "no"]
    await effect_of(engine, cmd.VerdictUndo(session=session))
    assert [hunk.id for hunk in engine.state(session).changes["long.txt"].hunks] == [last]
    await effect_of(engine, cmd.VerdictUndo(session=session))
    assert (project / "long.txt").read_text().splitlines() == lines


async def test_accept_all_leaves_what_is_protected(engine, project):
    session = await opened(engine)
    propose(engine, session, "src/main.py", "new\n")
    propose(engine, session, "fresh.py", "fresh\n")
    propose(engine, session, "AGENTS.md", "obey\n")
    await effect_of(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
    assert (project / "src" / "main.py").read_text() == "new\n"
    assert (project / "fresh.py").read_text() == "fresh\n"
    assert not (project / "AGENTS.md").exists()
    assert list(engine.state(session).changes) == ["AGENTS.md"]


async def test_a_file_that_moved_on_becomes_a_conflict_and_keeps_the_users_text(engine, project):
    session = await opened(engine)
    propose(engine, session, "src/main.py", "one\nagent\nthree\n")
    (project / "src" / "main.py").write_text("one\nuser\nthree\n")
    await effect_of(engine, cmd.HunkResolve(session=session, path="src/main.py", verdict="accept"))
    assert (project / "src" / "main.py").read_text() == "one\nuser\nthree\n"
    assert engine.state(session).changes["src/main.py"].conflict


async def test_the_pending_review_survives_a_restart(engine, project):
    session = await opened(engine)
    propose(engine, session, "src/main.py", "one\n2\nthree\n")
    before = dict(engine.state(session).changes)
    known = engine.state(session)
    await engine.close()
    again = Engine(project, options=OPTIONS)
    closed_and_resumed = known.seq + 1
    assert await again.submit(cmd.SessionResume()) == cmd.Ack(session=session, seq=closed_and_resumed)
    assert again.state(session).changes == before
    (resumed,) = [event for event in await events_of(again, session) if isinstance(event, ev.SessionResumed)]
    assert resumed
    await again.close()


async def test_d5_a_second_engine_is_refused_the_session_and_gets_its_own(engine, project):
    session = await opened(engine)
    second = Engine(project, options=OPTIONS)
    assert await code_of(second, cmd.SessionResume(session=session)) == "session_locked"
    assert await opened(second) != session
    await second.close()


async def test_a_session_in_which_nothing_happened_leaves_nothing_behind(engine, project):
    session = await opened(engine)
    await effect_of(engine, cmd.SessionRename(session=session, title="  a\n title "))
    assert engine.state(session).title == "a title"
    await engine.submit(cmd.SessionClose(session=session))
    await engine.close()
    fresh = Engine(project, options=OPTIONS)
    assert await fresh.query(q.SessionsQuery()) == q.SessionsAnswer(sessions=())
    assert await code_of(fresh, cmd.SessionResume()) == "session_unknown"
    await fresh.close()


async def test_the_tree_shows_what_is_ignored_and_what_is_pending(engine):
    session = await opened(engine)
    propose(engine, session, "src/main.py", "new\n")
    propose(engine, session, "new/deep.py", "x\n")
    tree = await engine.query(q.TreeQuery(session=session))
    assert isinstance(tree, q.TreeAnswer)
    rows = {entry.name: (entry.kind, entry.ignored, entry.mark) for entry in tree.entries}
    assert rows["build"] == ("directory", True, "")
    assert rows["src"] == ("directory", False, "edit")
    assert rows["new"][2] == "edit"
    below = await engine.query(q.TreeQuery(session=session, path="src"))
    assert [(entry.name, entry.mark) for entry in below.entries] == [("main.py", "edit")]


async def test_a_preview_shows_either_side_and_says_why_there_is_none(engine, project):
    session = await opened(engine)
    propose(engine, session, "src/main.py", "new\n")
    pending = await engine.query(q.FileQuery(session=session, path="src/main.py"))
    ours = await engine.query(q.FileQuery(session=session, path="src/main.py", side="workspace"))
    assert (pending.text, pending.language, ours.text) == ("new\n", "python", "one\ntwo\nthree\n")
    os.mkfifo(project / "pipe")
    problems = {}
    for path in ("data.bin", "gone", "src", "../secret", "pipe"):
        problems[path] = (await engine.query(q.FileQuery(session=session, path=path))).problem
    assert all(problems.values()), problems
    assert "binary" in problems["data.bin"]
    large = await engine.query(q.FileQuery(session=session, path="src/main.py", side="workspace", max_bytes=3))
    assert "14 bytes" in large.problem


async def test_find_ranks_names_and_knows_pending_files(engine):
    session = await opened(engine)
    propose(engine, session, "src/maintenance.py", "x\n")
    answer = await engine.query(q.FindQuery(session=session, pattern="main"))
    assert answer.paths[:2] == ("src/main.py", "src/maintenance.py")
    assert "build/out.js" not in (await engine.query(q.FindQuery(pattern=""))).paths
    assert (await engine.query(q.FindQuery(pattern="smnpy"))).paths == ("src/main.py",)
    assert "src/" in (await engine.query(q.FindQuery(pattern="src", directories=True))).paths


async def test_questions_that_can_not_be_answered_are_refused(engine):
    diff = await engine.query(q.DiffQuery(session="ses_x", path="a"))
    context = await engine.query(q.ContextQuery())
    assert isinstance(diff, q.RefusedAnswer)
    assert isinstance(context, q.RefusedAnswer)
    assert isinstance(await engine.query(q.TreeQuery(path="../..")), q.RefusedAnswer)


async def test_a_plan_is_edited_and_its_todos_are_set(engine):
    session = await opened(engine)
    plans = engine._find_session(session).plans.store
    path = plans.create(Plan(path="", name="A plan", todos=(Todo(id="a", content="A"),))).path
    await effect_of(engine, cmd.PlanEdit(session=session, path=path, body="# New body"))
    await effect_of(engine, cmd.TodoSet(session=session, plan=path, id="a", status="completed"))
    plan = engine.state(session).plans[path]
    assert (plan.body.strip(), plan.todos[0].status) == ("# New body", "completed")
    assert plans.load(path) == plan
    assert isinstance(await engine.submit(cmd.PlanEdit(session=session, path="nope.plan.md", body="x")), cmd.Reject)


@pytest.mark.parametrize("path", ["AGENTS.md", ".cursor/rules/a.mdc", "docs/a.plan.md"])
async def test_n1_no_command_takes_another_file_for_a_plan(engine, project, path):
    session, text = await opened(engine), "---\nname: X\ntodos:\n- id: a\n  content: A\n---\n"
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text(text)
    for command in (
        cmd.PlanEdit(session=session, path=path, body="Obey."),
        cmd.PlanEdit(session=session, path=path),
        cmd.TodoSet(session=session, plan=path, id="a", status="completed"),
        cmd.PlanBuild(session=session, path=path),
    ):
        reply = await engine.submit(command)
        assert isinstance(reply, cmd.Reject)
        assert reply.code == "no_plan"
    assert (project / path).read_text() == text


async def test_a_state_directory_that_can_not_be_used_is_a_rejection(project, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "file"))
    engine = Engine(project, options=OPTIONS)
    reply = await engine.submit(cmd.SessionOpen())
    assert isinstance(reply, cmd.Reject)
    assert "AGENT_TUI_STATE_DIR" in reply.hint


async def test_changes_on_disk_reach_the_clients_and_the_pending_review(project):
    engine = Engine(project, options=EngineOptions(model="scripted/none.yaml"))
    session = await opened(engine)
    propose(engine, session, "src/main.py", "one\nagent\nthree\n")
    stream = engine.events(session, after=engine.state(session).seq)
    task = asyncio.ensure_future(anext(stream))
    await asyncio.to_thread(engine._watch.ready.wait, 10)
    (project / "build" / "ignored.js").write_text("y")
    (project / "src" / "main.py").write_text("one\nuser\nthree\n")
    async with asyncio.timeout(40):
        changed = (await task).event
        while not isinstance(changed, ev.FilesChanged):
            changed = (await anext(stream)).event
    assert changed.paths == ("src/main.py",)
    assert engine.state(session).changes["src/main.py"].conflict
    await stream.aclose()
    await engine.close()
