"""Permissions through a whole engine: what is asked, what an answer binds, what is kept, and what is never read."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from core.agent.base.call_lease import CallLease
from core.agent.context.project_facts import describe_git_status
from core.agent.gate.capabilities import CommandRunner, build_capabilities
from core.cli import permissions
from core.engine import Engine
from core.errors import ToolFailed
from core.exits import ExitCode
from core.modes import Access
from core.permissions.audit import find_log_fault, read_entries
from core.permissions.saved_rules import SavedRules
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage
from core.protocol.review import Origin
from tests.support.agent_case import Case, calls, says
from tests.support.configured import ASKS, configured
from tests.support.open_session import session_in
from tests.support.story import access, project_at
from tui.screens.controllers.editor import drop_api_keys


@pytest.fixture
def project(tmp_path) -> Path:
    configured(ASKS)
    return project_at(tmp_path / "project")


def command(text: str, name: str = "run_terminal_cmd"):
    return calls((name, {"command": text}))


def reading(path: str):
    return calls(("read_file", {"target_file": path}))


def engine_of(project: Path, *steps, mode: ev.ModeName = "agent", **options):
    return session_in(project, access(steps), cmd.SessionOpen(mode=mode), **options)


async def turn(engine: Engine, session: str, *answers: ev.ApprovalDecision, pattern: str = "") -> list[ev.AnyEvent]:
    """One turn; the approvals get these answers in order, and a no after them."""
    waiting = list(answers)
    before = engine.state(session).seq
    await engine.submit(cmd.TurnSubmit(session=session, text="go"))
    seen: list[ev.AnyEvent] = []
    async with contextlib.aclosing(engine.events(session, after=before)) as stream:
        async for envelope in stream:
            seen.append(envelope.event)
            match envelope.event:
                case ev.ApprovalRequested(id=identity):
                    decision = waiting.pop(0) if waiting else "reject_once"
                    typed = pattern if decision == "allow_always" else ""
                    answer = cmd.ApprovalAnswer(session=session, id=identity, decision=decision, pattern=typed)
                    assert isinstance(await engine.submit(answer), cmd.Ack)
                case ev.TurnFinished():
                    return seen
    raise AssertionError("the stream ended before the turn")


def asked(seen) -> list[ev.ApprovalRequested]:
    return [event for event in seen if isinstance(event, ev.ApprovalRequested)]


def results(engine: Engine, session: str) -> list[str]:
    return [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]


# answers and what they bind


async def test_m6_always_is_for_exactly_this_and_asks_again_for_anything_else(project):
    steps = [command("echo 1"), says("ok"), command("echo 1"), command("echo 1 "), command("echo 2"), says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        assert len(asked(await turn(engine, session, "allow_always"))) == 1
        assert [request.subject for request in asked(await turn(engine, session))] == ["echo 1 ", "echo 2"]
        assert [rule.shown for rule in SavedRules(project).load()] == ["echo 1"]


async def test_m5_an_answer_for_good_does_not_hold_in_another_mode_directory_or_environment(project):
    (project / "sub").mkdir()
    (project / "sub" / "b.txt").write_text("b\n")
    again = command("echo 1")
    steps = [again, again, command("cd sub"), again, command("cd .. && export X=1"), again, says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        seen = asked(await turn(engine, session, "allow_always", "allow_once", "reject_once", "allow_once"))
        assert [request.subject for request in seen] == ["echo 1", "cd sub", "echo 1", "cd .. && export X=1", "echo 1"]
        assert (seen[2].directory, seen[4].environment) == ("sub", ("X",))
    async with engine_of(project, again, says("ok"), mode="debug") as (engine, session):
        assert [request.mode for request in asked(await turn(engine, session))] == ["debug"]


async def test_n16_m5_an_answer_for_good_does_not_hold_for_another_value_of_a_variable(project):
    again = command("echo 1")
    one, two = command("export X=1"), command("export X=2")
    steps = [one, again, again, two, again, one, again, says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        answers = ("allow_once", "allow_always", "allow_once", "allow_once", "allow_once")
        seen = asked(await turn(engine, session, *answers))
        subjects = ["export X=1", "echo 1", "export X=2", "echo 1", "export X=1"]
        assert [request.subject for request in seen] == subjects
        assert seen[1].environment == seen[3].environment == ("X",)
        assert seen[1].digest != seen[3].digest


async def test_m6_a_typed_pattern_is_kept_for_the_next_session(project):
    steps = [command("echo 1"), command("echo 2 && echo 3"), command("echo 4; ls"), says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        seen = asked(await turn(engine, session, "allow_always", pattern="echo *"))
        assert [request.subject for request in seen] == ["echo 1", "echo 4; ls"]
    async with engine_of(project, command("echo 5"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
        answer = await engine.query(q.PermissionsQuery(session=session))
        assert [(permission.rule, permission.exactly) for permission in answer.kept] == [("Shell(echo *)", False)]
        removed = cmd.PermissionRemove(session=session, id=answer.kept[0].id)
        assert isinstance(await engine.submit(removed), cmd.Ack)
        await engine.wait_idle(session)
        assert (await engine.submit(removed)).code == "permission_unknown"
        assert SavedRules(project).load() == ()


async def test_a_pattern_that_does_not_speak_of_the_command_is_refused_and_the_question_stays(project):
    async with engine_of(project, command("echo 1 && rm a.txt"), says("ok")) as (engine, session):
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        async with contextlib.aclosing(engine.events(session)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.ApprovalRequested):
                    break
        answer = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_always", pattern="echo *")
        assert (await engine.submit(answer)).code == "pattern_does_not_match"
        query = q.PatternQuery(session=session, pattern="echo *", command="echo 1 && rm a.txt")
        assert "does not allow every part" in (await engine.query(query)).problem
        query = q.PatternQuery(session=session, pattern="echo *", command="echo 1")
        assert (await engine.query(query)) == q.PatternAnswer(example="echo anything")
        assert engine.state(session).approvals
        await engine.submit(cmd.TurnInterrupt(session=session))


async def test_a_no_for_good_is_a_no_the_next_time(project):
    async with engine_of(project, command("echo 1"), command("echo 1"), says("ok")) as (engine, session):
        assert len(asked(await turn(engine, session, "reject_always"))) == 1
        assert "always denies exactly this command" in results(engine, session)[1]


def build_runner(case: Case, lease: CallLease) -> CommandRunner:
    approved = case.session.permissions.build_approval("touch x")
    runner = build_capabilities(case.session).build(Access.EXEC, Origin(), approved, lease)
    assert isinstance(runner, CommandRunner)
    return runner


async def test_m4_m5_the_launcher_runs_only_what_was_approved_as_it_was_approved(tmp_path):
    case = Case(tmp_path)
    session = case.session
    await session.terminal.find_box()

    def runner(lease: CallLease | None = None) -> CommandRunner:
        return build_runner(case, lease or CallLease())

    approved = runner()
    with pytest.raises(ToolFailed, match="not the approved command"):
        await approved.run_command("touch y", time_limit=9)
    with pytest.raises(ToolFailed, match="not the approved command"):
        await approved.run_command("touch x", time_limit=9)
    approved = runner()
    case.emit(ev.ModeChanged(mode="debug"))
    with pytest.raises(ToolFailed, match="The mode"):
        await approved.run_command("touch x", time_limit=9)
    assert case.tree() == {}


async def test_m14_a_call_that_is_over_runs_nothing(tmp_path):
    case = Case(tmp_path)
    lease = CallLease()
    runner = build_runner(case, lease)
    lease.end()
    with pytest.raises(ToolFailed, match="over"):
        await runner.run_command("touch x", time_limit=9)
    assert case.tree() == {}


async def test_m13_without_a_user_and_a_box_no_command_runs(tmp_path):
    configured('[commands]\npolicy = "auto"\n[permissions]\nallow = ["Shell(*)"]\n')
    case = Case(tmp_path, command("touch x"))
    case.session.user.is_interactive = False
    await case.turn()
    assert "The program refused this call" in case.results()[0]
    assert case.tree() == {}


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_m1_no_rule_and_no_answer_gives_a_mode_what_it_has_not(project, mode):
    configured(ASKS + '[permissions]\nallow = ["Write(**)", "Shell(*)"]\n')
    write = calls(("write", {"file_path": "b.txt", "contents": "x"}))
    async with engine_of(project, write, says("ok"), mode=mode) as (engine, session):
        assert asked(await turn(engine, session)) == []
        assert f"{mode} mode does not allow" in results(engine, session)[0]
        assert not engine.state(session).changes


async def test_everything_that_was_allowed_and_run_is_in_the_audit_log(project):
    async with engine_of(project, command("echo 1 > b.txt"), says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        await engine.submit(cmd.HunkResolve(session=session, path="b.txt", verdict="accept"))
        await engine.wait_idle(session)
        path = engine._find_session(session).directory.path / "audit.jsonl"
        kinds = [line.kind for line in read_entries(path)]
        assert kinds == ["approval.asked", "approval.answered", "command.ended", "file.written"]
        assert find_log_fault(path) is None


async def test_the_audit_logs_of_a_project_are_verified_by_a_command(project, capsys):
    arguments = permissions.parse([str(project), "--verify"])
    assert permissions.run(arguments) == ExitCode.DONE
    assert capsys.readouterr().out == "No session here has an audit log.\n"
    async with engine_of(project, command("echo 1 > b.txt"), says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        path = engine._find_session(session).directory.path / "audit.jsonl"
    assert permissions.run(arguments) == ExitCode.DONE
    assert capsys.readouterr().out == f"{session}  intact\n"
    path.write_bytes(path.read_bytes().replace(b"allow_once", b"reject_once"))
    assert permissions.run(arguments) == ExitCode.FAILED
    assert capsys.readouterr().out == f"{session}  line 2 was changed\n"


# paths


async def test_p20_a_secret_is_read_only_after_a_yes_and_never_found_by_a_search(project):
    (project / ".env").write_text("TOKEN=hunter2\n")
    (project / ".gitignore").write_text(".env\nserver.pem\n")
    (project / "server.pem").write_text("hunter2\n")
    (project / "link").symlink_to(".env")
    search = calls(("grep", {"pattern": "hunter\\d"}))
    at = calls(("grep", {"pattern": "hunter\\d", "path": ".env"}))
    steps = [search, at, reading("link"), reading("server.pem"), reading(".env"), says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        answers: list[ev.ApprovalDecision] = ["reject_once", "reject_once", "reject_once", "allow_once"]
        seen = asked(await turn(engine, session, *answers))
        assert [request.kind for request in seen] == ["tool"] * 4
        outputs = results(engine, session)
        assert all("hunter2" not in output for output in outputs[:4])
        assert "hunter2" in outputs[4]


async def test_p20_a_command_can_not_read_a_secret_unless_a_rule_allows_it(project):
    (project / ".env").write_text("TOKEN=hunter2\n")
    (project / "sub").mkdir()
    (project / "sub" / "id_ed25519").write_text("hunter2\n")
    look = command("cat .env sub/*")
    async with engine_of(project, look, says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        assert "hunter2" not in results(engine, session)[0]
    configured(ASKS + '[permissions]\nallow = ["Read(**/.env)"]\n')
    async with engine_of(project, look, reading(".env"), says("ok")) as (engine, session):
        assert len(asked(await turn(engine, session, "allow_once"))) == 1
        assert results(engine, session)[0].count("hunter2") == 1
        assert "hunter2" in results(engine, session)[1]


async def test_rules_on_paths_bind_every_file_tool_and_commands(project):
    configured(ASKS + '[permissions]\ndeny = ["Read(private/**)", "Write(vendor/**)"]\nask = ["Write(*.lock)"]\n')
    (project / "private").mkdir()
    (project / "private" / "x").write_text("hunter2\n")
    steps = [
        reading("private/x"),
        calls(("grep", {"pattern": "hunter\\d"})),
        calls(("write", {"file_path": "vendor/a", "contents": "x"})),
        calls(("write", {"file_path": "a.lock", "contents": "x"})),
        command("cat private/x"),
        says("ok"),
    ]
    async with engine_of(project, *steps) as (engine, session):
        seen = asked(await turn(engine, session, "allow_once", "allow_once"))
        assert [request.subject for request in seen] == ["a.lock", "cat private/x"]
        outputs = results(engine, session)
        assert "hunter2" not in "".join(outputs[:2] + outputs[4:])
        assert "off limits to the agent" in outputs[0]
        assert "off limits to the agent" in outputs[2]
        assert list(engine.state(session).changes) == ["a.lock"]


# keys


async def test_k1_no_child_is_given_a_key(project, monkeypatch):
    key = "sk-planted-0123456789abcdef"
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "WORK_API_KEY", "GITHUB_TOKEN", "LC_SECRET"):
        monkeypatch.setenv(name, key)
    look = command("env; cat /proc/*/environ | tr '\\0' '\\n'")
    async with engine_of(project, look, says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        assert "exit code" in results(engine, session)[0]
        assert key not in results(engine, session)[0]
    environment = drop_api_keys(os.environ)
    assert "PATH" in environment
    assert not {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "WORK_API_KEY", "GITHUB_TOKEN", "LC_SECRET"} & set(environment)


def test_k1_git_and_rg_are_given_no_key(project, monkeypatch, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "rg"):
        (programs / name).write_text(f"#!/bin/sh\nenv >> {tmp_path}/{name}.env\n")
        (programs / name).chmod(0o755)
    subprocess.run(["git", "init", "-q", project], check=True)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("core.engine.shared.project_files.find_program", lambda: str(programs / "rg"))
    from core.engine.shared.project_files import _list_files

    describe_git_status(project)
    _list_files(project)
    for name in ("git", "rg"):
        assert "PATH=" in (tmp_path / f"{name}.env").read_text()
        assert "sk-planted" not in (tmp_path / f"{name}.env").read_text()


# the network


FETCH = (
    "exec 3<>/dev/tcp/127.0.0.1/3128 && "
    "printf 'GET http://example.test:{}/ HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3 | tail -1; echo x >> ran.txt"
)


async def test_s5_the_network_is_asked_about_afterwards_and_the_command_runs_again(project, outside):
    fetch = command(FETCH.format(outside.port))
    async with engine_of(project, fetch, fetch, says("ok")) as (engine, session):
        seen = asked(await turn(engine, session, "allow_once", "allow_once", "allow_once", "reject_once"))
        assert [request.kind for request in seen] == ["command", "network", "command", "network"]
        assert seen[1].subject == f"example.test:{outside.port}"
        assert seen[1].options == ("allow_once", "allow_session", "allow_always", "reject_once")
        first, second = results(engine, session)
        assert first.startswith("[Run again with network access to example.test")
        assert "hello" in first
        assert "hello" not in second
        assert "which was not allowed." in second
        lines = read_entries(engine._find_session(session).directory.path / "audit.jsonl")
        network = [line.data["host"] for line in lines if line.kind.startswith("network.")]
        assert network == ["example.test"] * 3


async def test_a_host_that_is_granted_for_good_is_not_asked_about_again(project, outside):
    fetch = command(FETCH.format(outside.port))
    async with engine_of(project, fetch, says("ok")) as (engine, session):
        await turn(engine, session, "allow_once", "allow_always")
        assert [str(rule) for rule in SavedRules(project).parse_rules()] == ["WebFetch(example.test)"]
    async with engine_of(project, fetch, says("ok")) as (engine, session):
        seen = asked(await turn(engine, session, "allow_once"))
        assert [request.kind for request in seen] == ["command"]
        assert seen[0].network == ("example.test",)
        assert "hello" in results(engine, session)[0]


async def test_i8_after_secrets_and_foreign_data_a_standing_grant_is_asked_about_again(project, outside):
    configured(ASKS + '[permissions]\nallow = ["WebFetch(example.test)"]\n')
    (project / ".env").write_text("K=1\n")
    fetch = command(FETCH.format(outside.port))
    async with engine_of(project, fetch, reading(".env"), fetch, says("ok")) as (engine, session):
        seen = asked(await turn(engine, session, "allow_once", "allow_once", "allow_once", "reject_once"))
        assert [request.kind for request in seen] == ["command", "tool", "command", "network"]
        assert seen[2].network == ()
        assert "has read secrets" in seen[3].reason
        assert "hello" not in results(engine, session)[2]


async def test_m10_a_host_that_a_rule_refuses_is_not_even_asked_about(project, outside):
    configured(ASKS + '[permissions]\ndeny = ["WebFetch(*.test)"]\nallow = ["WebFetch(*)"]\n')
    async with engine_of(project, command(FETCH.format(outside.port)), says("ok")) as (engine, session):
        assert [request.kind for request in asked(await turn(engine, session, "allow_once"))] == ["command"]
        assert outside.heard == b""
