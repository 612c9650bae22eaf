"""Hosted agents through the real engine: their own modes and logins, and turns in which they could do nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import TerminalCommandDocument
from tests.integration.test_hosted_agents import configure, documents_of, text_of
from tests.support.open_session import read_until, run_turn, session_in

CODEX = "--modes=agent,read-only,workspace-write,agent-full-access"


@pytest.fixture
def login(tmp_path: Path, monkeypatch) -> Path:
    place = tmp_path / "login"
    place.mkdir()
    monkeypatch.setenv("ACP_AGENT_HOME", str(place))
    return place


@pytest.fixture
def repository(project: Path) -> Path:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for rest in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *rest], cwd=project, check=True)
    return project


@pytest.mark.parametrize(
    ("options", "mode", "own"),
    [
        ((CODEX,), "agent", "agent-full-access"),
        ((CODEX,), "plan", "agent-full-access"),
        (("--modes=auto,read-only,full-access",), "ask", "full-access"),
        (("--modes=auto,default,plan,bypassPermissions",), "agent", "default"),
        (("--modes=auto,default,plan,bypassPermissions",), "ask", "plan"),
        (("--modes=build,plan", "--as-option"), "plan", "plan"),
        (("--modes=plan,build", "--as-option"), "agent", "build"),
        (("--modes=",), "plan", ""),
    ],
)
async def test_an_agent_works_in_the_mode_that_leaves_decisions_to_the_box_and_the_rules(
    tmp_path, project, options, mode, own
):
    model = configure(tmp_path, *options)
    async with session_in(project, model=model, mode=mode, trust=True) as (engine, session):
        events = await run_turn(engine, session, "command")
        assert f"[{own}] heard" in text_of(events)
        assert engine.state(session).turns[-1].reason == "done"


@pytest.mark.parametrize(("name", "modes"), [("small", "auto,yolo"), ("codex", "read-only,agent")])
async def test_an_agent_that_offers_no_fitting_mode_is_refused_and_the_user_can_name_one(
    tmp_path, project, name, modes
):
    model = configure(tmp_path, f"--modes={modes}", name=name)
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "edit")
        turn = engine.state(session).turns[-1]
        assert turn.reason == "failed"
        assert f"its modes: {modes.replace(',', ', ')}" in turn.message
        assert f'[agent_servers."{name}"] mode' in turn.message
        assert "heard" not in text_of(events)
    chosen = modes.partition(",")[2]
    model = configure(tmp_path, f"--modes={modes}", name=name, more=f'mode = "{chosen}"\n')
    async with session_in(project, model=model, trust=True) as (engine, session):
        assert f"[{chosen}] heard" in text_of(await run_turn(engine, session, "think"))


async def test_an_agent_that_leaves_its_mode_is_set_back(tmp_path, project):
    model = configure(tmp_path, "--modes=default,yolo")
    async with session_in(project, model=model, trust=True) as (engine, session):
        assert "set back" in text_of(await run_turn(engine, session, "wander"))


async def test_an_agent_that_wants_a_login_gets_it_by_a_key_which_is_put_on_no_disk(
    tmp_path, project, login, monkeypatch
):
    model = configure(tmp_path, "--key=small-api-key", login=str(login))
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session, "edit")
        assert "small needs a login." in engine.state(session).turns[-1].message
        assert "or set SMALL_API_KEY" in engine.state(session).turns[-1].message
        monkeypatch.setenv("SMALL_API_KEY", "secret")
        await run_turn(engine, session, "edit")
        assert engine.state(session).turns[-1].reason == "done"
        assert list(login.iterdir()) == []
        (login / "token").write_text("the user's")
        await run_turn(engine, session, "edit")
        assert (login / "token").read_text() == "the user's"


async def test_a_command_that_only_the_title_names_is_decided_by_the_rules(tmp_path, project):
    model = configure(tmp_path, policy="confirm")
    async with session_in(project, model=model, trust=True) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="titled"))
        asked = (await read_until(engine, session, ev.ApprovalRequested, after=before))[-1]
        assert (asked.kind, asked.subject) == ("command", "git push origin main")
        await engine.submit(cmd.ApprovalAnswer(session=session, id=asked.id, decision="allow_once"))
        events = await read_until(engine, session, ev.TurnFinished, after=before)
        assert "execute: yes" in text_of(events)


@pytest.mark.parametrize(
    ("words", "reason", "said"),
    [
        ("stuck", "failed", "small could not start the one command of this turn"),
        ("stuck missing", "failed", "could not start all 2 commands"),
        ("missing", "failed", "could not start the one command"),
        ("broken", "failed", "the key is not known"),
        ("giveup", "failed", "ended its turn: 'exhausted'"),
        ("decline", "failed", "The agent refused to continue."),
        ("stuck read", "done", ""),
        ("stuck edit", "done", ""),
        ("failing", "done", ""),
        ("think", "done", ""),
    ],
)
async def test_a_turn_in_which_an_agent_could_do_nothing_is_told_as_such(tmp_path, project, words, reason, said):
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, words)
        turn = engine.state(session).turns[-1]
        assert turn.reason == reason, turn.message
        assert said in turn.message
        commands = {
            document.metadata.command: document.metadata for document in documents_of(events, TerminalCommandDocument)
        }
        if "stuck" in words:
            assert commands["ls"].exit_code == 1
            assert commands["ls"].output.startswith("bwrap: No permissions")
        if "missing" in words:
            assert commands["nix"].exit_code == 127


@pytest.mark.parametrize(("words", "waits"), [("private", False), ("private branch", True)])
async def test_a_file_that_an_agent_keeps_in_gits_directory_waits_for_nobody(tmp_path, repository, words, waits):
    project = repository
    model = configure(tmp_path)
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session, words)
        [bulk] = engine.state(session).review.bulks
        assert (bulk.root, bulk.needs_verdict) == (".git", waits)
        reply = await engine.submit(cmd.BulkResolve(session=session, root=".git", verdict="accept", confirmed=True))
        assert isinstance(reply, cmd.Ack)
        await engine.wait_idle(session)
    assert not (project / ".git" / "small").exists()


@pytest.mark.parametrize("rule", ["Shell(echo*)", "Shell(git push*)"])
async def test_an_agent_that_runs_unasked_what_a_rule_denies_is_ended(tmp_path, project, rule):
    model = configure(tmp_path, more=f'[permissions]\ndeny = ["{rule}"]\n')
    async with session_in(project, model=model, trust=True) as (engine, session):
        events = await run_turn(engine, session, "command think")
        turn = engine.state(session).turns[-1]
        if rule == "Shell(git push*)":
            assert turn.reason == "done"
            return
        assert turn.reason == "failed"
        assert "small ran a command without asking, and was stopped: echo made" in turn.message
        assert "The rule Shell(echo*)" in turn.message
        assert {document.metadata.command for document in documents_of(events, TerminalCommandDocument)}


@pytest.mark.parametrize(
    ("words", "code"), [("stuck", ExitCode.FAILED), ("titled", ExitCode.REFUSED), ("command", ExitCode.DONE)]
)
def test_a_run_without_a_screen_ends_with_the_code_of_what_became_of_it(tmp_path, project, monkeypatch, words, code):
    monkeypatch.setattr("sys.stdin", None)
    model = configure(tmp_path, more='[permissions]\ndeny = ["Shell(git push*)"]\n')
    assert run_print(PrintArguments(directory=project, prompt=words, model=model, trust=True)) == code
