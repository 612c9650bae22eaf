from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from core.arguments import ScreenArguments
from core.cli.arguments import parse
from core.cli.sessions import choose_session
from core.engine import Engine, EngineOptions
from core.errors import StateError
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.review import Bulk
from core.sessions.store import SessionStore
from tests.support.agent_case import says
from tests.support.program import ROOT, environment
from tests.support.scripted_client import ScriptedClient
from tests.support.session_log import scan
from tests.support.story import access, project_at
from tui.app import AgentApp, build_session_request
from tui.bridge import SessionRequest
from tui.notices import format_command_line, format_exit_summary, format_way_back
from tui.state import ViewState


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(project_at(tmp_path / "project"))
    return tmp_path / "project"


async def held(project: Path, *, interactive: bool = True) -> str:
    """A session with one turn, closed again."""
    options = EngineOptions(watch=False, interactive=interactive)
    engine = Engine(project, options=options, models=access([says("Done.")]))
    session = (await engine.submit(cmd.SessionOpen())).session
    await engine.submit(cmd.TurnSubmit(session=session, text="Do it"))
    await engine.wait_idle(session)
    await engine.close()
    return session


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (["-c"], "agent-tui: this workspace has no sessions yet. Start one: agent-tui\n"),
        (["--resume", "ses_none"], "agent-tui: there is no session 'ses_none' in this workspace."),
    ],
)
def test_a_session_that_is_not_there_is_told_before_the_screen_opens(project, said, problem):
    arguments = [sys.executable, "-I", str(ROOT / "agent_tui.py"), *said]
    with Terminal(arguments, cwd=project, env={**environment(None), "TERM": "xterm-256color"}) as screen:
        screen.wait_for(problem.strip().encode())
        assert b"Traceback" not in screen.output


async def test_in_the_home_directory_the_screen_says_why_nothing_can_be_opened_and_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    async def connect() -> Engine:
        return Engine(tmp_path, options=EngineOptions(watch=False))

    app = AgentApp(connect, SessionRequest())
    messages: list[str] = []
    leave = app.exit
    monkeypatch.setattr(app, "exit", lambda **how: (messages.append(how["message"]), leave(**how)))
    async with asyncio.timeout(30), app.run_test() as pilot:
        while app.return_code is None:
            await pilot.pause(0.01)
    assert app.return_code == 1
    assert "is your home directory, not a project. Start in a project's own directory" in messages[0]


async def test_a_session_that_is_open_elsewhere_is_told_and_one_that_is_free_is_named(project):
    session = await held(project)
    assert choose_session(parse(["-c"])).resume == session
    directory = SessionStore(project).open(session)
    for arguments in (["-c"], ["--resume", session]):
        with pytest.raises(StateError, match="is open in another agent-tui") as exception_info:
            choose_session(parse(arguments))
        assert exception_info.value.code == "session_locked"
    directory.close()


async def test_minus_c_goes_on_with_a_conversation_and_not_with_a_later_run_without_a_screen(project):
    session = await held(project)
    run = await held(project, interactive=False)
    latest = SessionStore(project).find_latest()
    assert latest == run != session
    assert choose_session(parse(["-c"])).resume == session
    again = Engine(project, options=EngineOptions(watch=False, interactive=False), models=access([]))
    await again.submit(cmd.SessionResume(session=session))
    await again.close()
    assert choose_session(parse(["-c"])).resume == session  # it went on without a screen, and stays a conversation


async def test_where_nothing_but_runs_without_a_screen_is_there_minus_c_takes_the_last_of_them(project):
    run = await held(project, interactive=False)
    assert choose_session(parse(["-c"])).resume == run


async def test_the_settings_tell_the_top_of_the_repository_that_a_project_is_a_part_of(project):
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(project)], check=True)
    (project / "packages" / "web").mkdir(parents=True)
    for place, above in ((project, ""), (project / "packages" / "web", str(project.resolve()))):
        engine = Engine(place, options=EngineOptions(watch=False), models=access([]))
        answer = await engine.query(q.SettingsQuery())
        assert isinstance(answer, q.SettingsAnswer)
        assert answer.above == above
        await engine.close()


async def test_a_log_that_the_engine_can_not_take_ends_the_screen_with_its_reason(capsys):
    def refuse(_: ScriptedClient, command: cmd.AnyCommand) -> cmd.Reply | None:
        return cmd.Reject(code="state_unusable", message="the log is damaged.")

    async def connect() -> ScriptedClient:
        return ScriptedClient(react=refuse)

    app = AgentApp(connect, build_session_request(parse(["-c"])))
    async with app.run_test() as pilot:
        while app.return_code is None:
            await pilot.pause(0.01)
    assert app.return_code == 1
    assert "agent-tui: the log is damaged." in capsys.readouterr().err


async def test_mode_and_model_of_the_command_line_hold_in_the_session_that_is_resumed(project):
    session = await held(project)
    arguments = parse(["--resume", session, "--mode", "ask", "--model", "scripted/other"])
    engine = Engine(project, options=EngineOptions(watch=False), models=access([]))

    async def connect() -> Engine:
        return engine

    app = AgentApp(connect, build_session_request(arguments))
    async with app.run_test() as pilot:
        while (app.main.state.mode, app.main.state.model) != ("ask", "scripted/other"):
            await pilot.pause(0.01)
    log = scan(SessionStore(project).sessions_path / session / "log.jsonl").envelopes
    changed = [envelope.event for envelope in log if isinstance(envelope.event, ev.ModeChanged | ev.ModelChanged)]
    assert [type(event) for event in changed] == [ev.ModeChanged, ev.ModelChanged]


@pytest.mark.parametrize(
    ("called", "make", "arguments", "line"),
    [
        ("/x/agent_tui.py", "make run", ["--demo", "-c"], 'make run ARGS="--demo -c"'),
        ("/x/agent_tui.py", 'make -C "/a b" run', ["-c"], 'make -C "/a b" run ARGS="-c"'),
        ("/x/agent_tui.py", "make run", ["/my shop", "-c"], """make run ARGS="'/my shop' -c\""""),
        ("/x/agent_tui.py", "make run", ["/a$b", "-c"], """make run ARGS=''"'"'/a$$b'"'"' -c'"""),
        ("/x/agent_tui.py", "", ["-c"], f"{sys.executable} /x/agent_tui.py -c"),
        ("/opt/agent-tui", "make run", ["-c"], "/opt/agent-tui -c"),
    ],
)
def test_the_line_that_starts_it_again_is_that_by_which_it_was_started(monkeypatch, called, make, arguments, line):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", [called])
    monkeypatch.setenv("AGENT_TUI_MAKE", make)
    assert format_command_line(arguments) == line


def test_a_name_that_leads_to_another_program_is_not_left_on_the_terminal(monkeypatch, tmp_path):
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "agent-tui").write_text("")
        (tmp_path / place / "agent-tui").chmod(0o700)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "here" / "agent-tui")])
    monkeypatch.setenv("PATH", str(tmp_path / "here"))
    assert format_command_line(["-c"]) == "agent-tui -c"
    monkeypatch.setenv("PATH", str(tmp_path / "there"))
    assert format_command_line(["-c"]) == f"{tmp_path}/here/agent-tui -c"


@pytest.mark.parametrize("is_demo", [False, True])
@pytest.mark.parametrize("session", ["", "ses_1"])
def test_each_line_that_goes_on_is_taken_by_the_command_line(project, monkeypatch, is_demo, session):
    monkeypatch.setattr("sys.argv", ["bin/agent-tui"])
    monkeypatch.setenv("PATH", "")
    state = ViewState(session_id="ses_1", workspace=str(project), is_demo=is_demo)
    arguments = parse(shlex.split(format_way_back(state, project, session))[1:])
    assert isinstance(arguments, ScreenArguments)
    assert (arguments.resume or "", arguments.continue_last) == (session, not session)


def test_after_make_run_the_line_can_be_pasted_as_it_stands():
    root = Path(__file__).parents[2]
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", "run", "ARGS=--demo -c"]
    line = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert line.endswith("agent_tui.py --demo -c")
    start = next(word for word in shlex.split(line) if word.startswith("AGENT_TUI_MAKE="))
    assert start.endswith((" run", "=make run"))


def test_the_terminal_is_left_with_the_way_back_and_what_waits(project, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bin/agent-tui"])
    monkeypatch.setenv("PATH", "")
    assert format_exit_summary(ViewState(session_id="ses_1", workspace=str(project)), project) == ""
    waits = (
        Bulk(root="out", kind="generated", files=1, bytes=1),
        Bulk(root="big", kind="large", files=1, bytes=1),
    )
    here = ViewState(session_id="ses_1", workspace=str(project), turn_numbers={"trn_1": 1})
    here.review.bulks = waits
    assert format_exit_summary(here, project) == (
        "Resume: bin/agent-tui -c\nThis session, any time: bin/agent-tui --resume ses_1\n1 hunk to review.\n"
    )
    there = ViewState(session_id="ses_1", workspace="/copy", is_demo=True, turn_numbers={"trn_1": 1})
    assert format_exit_summary(there, project) == (
        "Resume: bin/agent-tui --demo -c\nThis session, any time: bin/agent-tui --resume ses_1\nDemo project: /copy\n"
    )
    monkeypatch.chdir(project.parent)
    assert format_exit_summary(here, project).startswith(f"Resume: bin/agent-tui {project} -c\n")
