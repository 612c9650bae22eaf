"""Checkpoints through the engine: a real session, real commands in the box, a model that a script directs."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.sessions.listing import list_sessions
from core.sessions.store import SessionStore
from tests.support.agent_case import Step, calls, says
from tests.support.folded import fold_events
from tests.support.history import faults
from tests.support.open_session import run_turn, session_in, submit
from tests.support.session_log import scan
from tests.support.story import access, project_at

OLD = "one\ntwo\nthree\n"


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / ".gitignore").write_text("out/\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=u", "-c", "user.email=u@example.org", *command], cwd=root, check=True)
    return root


def session_of(project: Path, *steps: Step, resume: str = ""):
    return session_in(project, access(steps), cmd.SessionResume(session=resume) if resume else None)


def write(path: str, text: str) -> Step:
    return calls(("write", {"file_path": path, "contents": text}))


def run(command: str, **more: Any) -> Step:
    return calls(("run_terminal_cmd", {"command": command, **more}))


async def approved_turn(engine: Engine, session: str, text: str) -> None:
    before = engine.state(session).seq
    await submit(engine, cmd.TurnSubmit(session=session, text=text))
    async with contextlib.aclosing(engine.events(session, after=before)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.ApprovalRequested):
                answer = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_once")
                await engine.submit(answer)
            if isinstance(envelope.event, ev.TurnFinished):
                assert envelope.event.reason == "done", envelope.event
                return


async def accept(engine: Engine, session: str) -> None:
    await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))


async def listed(engine: Engine, session: str) -> list[q.CheckpointInfo]:
    answer = await engine.query(q.CheckpointsQuery(session=session))
    assert isinstance(answer, q.CheckpointsAnswer)
    return list(answer.checkpoints)


async def restore(engine: Engine, session: str, name: str, what: Any = "both") -> None:
    await submit(engine, cmd.CheckpointRestore(session=session, id=name, what=what))


def view(engine: Engine, session: str) -> dict[str, bytes | None]:
    """Every file that the agent sees, but git's own."""
    shadow, contents, waiting = engine._find_session(session).shadow, dict[str, bytes | None](), ["."]
    while waiting:
        above = waiting.pop()
        for entry in shadow.list_dir(above):
            path = entry.name if above == "." else f"{above}/{entry.name}"
            if entry.kind == "directory" and path != ".git":
                waiting.append(path)
            elif entry.kind == "file":
                contents[path] = shadow.read(path)
    return contents


def disk(project: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(project.rglob("*")) if path.is_file())
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in paths}


def subjects(project: Path) -> str:
    done = subprocess.run(["git", "log", "--format=%s"], cwd=project, check=True, capture_output=True, text=True)
    return done.stdout


async def test_every_prompt_makes_a_checkpoint_before_its_first_message(project):
    async with session_of(project, says("Yes."), write("b", "b\n"), says("Done.")) as (engine, session):
        await run_turn(engine, session, "Hello")
        await run_turn(engine, session, "Write b")
        first, second = await listed(engine, session)
        assert (first.prompt, second.prompt) == ("Hello", "Write b")
        assert (first.files, second.files) == (1, 1)
        envelopes = scan(SessionStore(project).sessions_path / session / "log.jsonl").envelopes
        kinds = [type(envelope.event) for envelope in envelopes if envelope.seq > second.seq][:3]
        assert kinds == [ev.CheckpointCreated, ev.TurnStarted, ev.MessageAppended]
        assert fold_events(envelopes[: second.seq]).messages == engine.state(session).messages[:2]


async def test_d10_files_conversation_and_ignored_files_go_back_together(project):
    steps = (
        run("mkdir out; echo 1 > out/a; echo x > made"),
        says("Made."),
        run("echo 2 > out/a; echo 2 > out/b; rm a.txt; git add -A; git commit -qm inside"),
        says("Changed."),
    )
    before = disk(project)
    async with session_of(project, *steps) as (engine, session):
        await approved_turn(engine, session, "Make it")
        seen, bulks = view(engine, session), engine.state(session).review.bulks
        messages, turns = list(engine.state(session).messages), list(engine.state(session).turns)
        await approved_turn(engine, session, "Change it")
        assert view(engine, session) != seen
        await accept(engine, session)
        log = scan(SessionStore(project).sessions_path / session / "log.jsonl").envelopes
        message = next(envelope.event.message for envelope in reversed(log) if isinstance(envelope.event, ev.Notice))
        assert message.startswith("1 bulk is still pending: .git ")
        for bulk in engine.state(session).review.bulks:
            verdict = cmd.BulkResolve(session=session, root=bulk.root, verdict="accept", confirmed=True)
            await submit(engine, verdict)
        assert (project / "out/b").read_text() == "2\n"
        second = (await listed(engine, session))[1]
        answer = await engine.query(q.CheckpointPreviewQuery(session=session, id=second.id))
        assert isinstance(answer, q.CheckpointPreviewAnswer)
        preview = {
            restored_path.path: (restored_path.pending, restored_path.disk, restored_path.reason)
            for restored_path in answer.paths
        }
        assert preview["a.txt"] == ("", "create", "")
        assert preview["made"] == ("propose", "delete", "")
        assert "out" in answer.bulks
        await restore(engine, session, second.id)
        state = engine.state(session)
        assert view(engine, session) == seen
        assert disk(project) == before
        assert (state.messages, state.turns, state.review.bulks) == (messages, turns, bulks)
        assert faults(state.messages) == []
        assert subjects(project) == "first\n"
        left = [checkpoint.id for checkpoint in await listed(engine, session) if checkpoint.left]
        assert second.id not in left


async def test_d10_a_restore_is_taken_back_with_the_conversation(project):
    async with session_of(project, write("b", "b\n"), says("Done."), says("More.")) as (engine, session):
        await run_turn(engine, session, "Write b")
        await accept(engine, session)
        messages, files = list(engine.state(session).messages), disk(project)
        first = (await listed(engine, session))[0]
        await restore(engine, session, first.id)
        assert engine.state(session).messages == []
        assert not (project / "b").exists()
        last = (await listed(engine, session))[-1]
        assert (last.before, last.prompt, last.left) == (first.id, "", True)
        await restore(engine, session, last.id)
        assert engine.state(session).messages == messages
        assert disk(project) == files
        await run_turn(engine, session, "Go on")
        assert len(engine.state(session).turns) == 2
        assert faults(engine.state(session).messages) == []


async def test_only_the_conversation_goes_back_and_only_the_files(project):
    async with session_of(project, write("b", "b\n"), says("Done."), says("Yes.")) as (engine, session):
        await run_turn(engine, session, "Write b")
        first = (await listed(engine, session))[0]
        await restore(engine, session, first.id, "conversation")
        assert engine.state(session).messages == []
        assert set(engine.state(session).changes) == {"b"}
        last = (await listed(engine, session))[-1]
        await restore(engine, session, last.id, "conversation")
        count = len(engine.state(session).messages)
        await restore(engine, session, first.id, "files")
        assert dict(engine.state(session).changes) == {}
        new_messages = engine.state(session).messages[count:]
        assert len(new_messages) == 1
        assert "\n- b\n" in new_messages[0].content


async def test_what_was_compacted_since_comes_back(project):
    async with session_of(project, says("One."), says("Two."), says("Sum.")) as (engine, session):
        await run_turn(engine, session, "First")
        await run_turn(engine, session, "Second")
        second, messages = (await listed(engine, session))[1], list(engine.state(session).messages)
        runtime = engine._find_session(session)
        runtime.emit(ev.ContextCompacted(messages=tuple(messages[:1]), before_tokens=9, after_tokens=1))
        await restore(engine, session, second.id, "conversation")
        assert engine.state(session).messages == messages[:2]


async def test_a_restore_is_refused_while_a_turn_or_a_job_runs(project):
    steps = (run("sleep 60", is_background=True), says("It runs."))
    async with session_of(project, *steps) as (engine, session):
        await approved_turn(engine, session, "Start it")
        first = (await listed(engine, session))[0]
        back = cmd.CheckpointRestore(session=session, id=first.id)
        for command in (back, cmd.SessionFork(session=session)):
            reply = await engine.submit(command)
            assert isinstance(reply, cmd.Reject)
            assert reply.code == "command_running"
        await submit(engine, cmd.JobStop(session=session))
        engine._find_session(session).turn_slot._is_reserved = True
        running = await engine.submit(back)
        engine._find_session(session).turn_slot._is_reserved = False
        assert isinstance(running, cmd.Reject)
        assert running.code == "turn_running"
        unknown = await engine.submit(cmd.CheckpointRestore(session=session, id="none"))
        assert isinstance(unknown, cmd.Reject)
        assert unknown.code == "checkpoint_unknown"
        await restore(engine, session, first.id)
        assert engine.state(session).messages == []


async def test_d10_what_the_user_changed_meanwhile_is_kept_and_named(project):
    look = calls(("read_file", {"target_file": "a.txt"}))
    async with session_of(project, look, write("a.txt", "ONE\ntwo\nthree\n"), says("Done.")) as (engine, session):
        await run_turn(engine, session, "Shout")
        await accept(engine, session)
        (project / "a.txt").write_text("mine\ntwo\nthree\n")
        first, since = (await listed(engine, session))[0], engine.state(session).seq
        answer = await engine.query(q.CheckpointPreviewQuery(session=session, id=first.id))
        assert isinstance(answer, q.CheckpointPreviewAnswer)
        assert [bool(restored_path.reason) for restored_path in answer.paths if restored_path.path == "a.txt"] == [True]
        await restore(engine, session, first.id, "files")
        assert (project / "a.txt").read_text() == "mine\ntwo\nthree\n"
        log = engine._find_session(session).log.read(after=since)
        restored = next(envelope.event for envelope in log if isinstance(envelope.event, ev.CheckpointRestored))
        assert [skipped_path.path for skipped_path in restored.left] == ["a.txt"]
        assert any(isinstance(envelope.event, ev.Notice) and "a.txt" in envelope.event.message for envelope in log)


async def test_the_log_folds_to_the_live_state_after_restores(project):
    async with session_of(project, write("b", "b\n"), says("Done."), says("Yes.")) as (engine, session):
        await run_turn(engine, session, "Write b")
        await accept(engine, session)
        await restore(engine, session, (await listed(engine, session))[0].id)
        await run_turn(engine, session, "Again")
        live = engine.state(session)
        state = fold_events(scan(SessionStore(project).sessions_path / session / "log.jsonl").envelopes)
        assert (state.messages, state.checkpoints, state.changes) == (
            live.messages,
            live.checkpoints,
            dict(live.changes),
        )
        assert state.review.checkpoints == live.review.checkpoints
    async with session_of(project, resume=session) as (engine, again):
        assert engine.state(again).messages == live.messages
        assert [checkpoint.prompt for checkpoint in await listed(engine, again)] == ["Write b", "", "Again"]


# Forks.


async def test_a_fork_is_a_session_of_its_own_and_both_go_on(project):
    steps = (run("mkdir out; echo 1 > out/a; echo x > made"), says("Made."), says("Here."))
    async with session_of(project, *steps) as (engine, session):
        await approved_turn(engine, session, "Make it")
        seen, messages = view(engine, session), list(engine.state(session).messages)
        reply = await engine.submit(cmd.SessionFork(session=session))
        assert isinstance(reply, cmd.Ack), reply
        other = reply.session
        assert other != session
        assert view(engine, other) == seen
        assert engine.state(other).messages == messages
        assert engine.state(other).title.endswith("(fork)")
        assert engine.state(other).session_id == other
        await submit(engine, cmd.HunkResolve(session=other, path="", verdict="reject"))
        await submit(engine, cmd.BulkResolve(session=other, root="out", verdict="reject"))
        assert "made" not in view(engine, other)
        assert view(engine, session) == seen
        await run_turn(engine, session, "Go on")
        await run_turn(engine, other, "Use it there")
        assert engine.state(other).turns[-1].prompt == "Use it there"
        assert engine.state(session).turns[-1].prompt == "Go on"
        await submit(engine, cmd.BulkResolve(session=session, root="out", verdict="accept"))
        assert (project / "out/a").read_text() == "1\n"
    log = SessionStore(project).sessions_path / other / "log.jsonl"
    naming = [line for line in log.read_bytes().splitlines() if session.encode() in line]
    assert [b'"type":"session.forked"' in line for line in naming] == [
        True
    ]  # nowhere else does it stand for the source
    assert {
        session_info.id: session_info.forked_from for session_info in list_sessions(SessionStore(project), limit=9)
    }[other] == session
    assert scan(log).whole


async def test_a_fork_at_a_checkpoint_ends_there(project):
    steps = (run("mkdir out; echo 1 > out/a"), says("Made."), run("echo 2 > out/a; echo y > later"), says("Changed."))
    async with session_of(project, *steps) as (engine, session):
        await approved_turn(engine, session, "Make it")
        seen, messages = view(engine, session), list(engine.state(session).messages)
        await approved_turn(engine, session, "Change it")
        changed = view(engine, session)
        second = (await listed(engine, session))[1]
        reply = await engine.submit(cmd.SessionFork(session=session, at=second.id))
        assert isinstance(reply, cmd.Ack), reply
        assert view(engine, reply.session) == seen
        assert engine.state(reply.session).messages == messages
        assert [checkpoint.prompt for checkpoint in await listed(engine, reply.session)] == ["Make it"]
        assert view(engine, session) == changed
        await restore(engine, reply.session, (await listed(engine, reply.session))[0].id)
        assert "out/a" not in view(engine, reply.session)
        assert view(engine, session) == changed
