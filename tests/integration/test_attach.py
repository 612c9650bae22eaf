"""Engines that several clients use, and that outlive the one that started them: real processes, real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from core.arguments import ScreenArguments
from core.cli.attach import choose_running, list_running, parse
from core.engine import Engine, EngineOptions
from core.errors import StateError
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client, EngineGone
from core.sessions.store import SessionStore, is_locked
from core.text.well_formed import encode_record
from core.transports import session_sockets
from core.transports.engine_host import share_engine
from core.transports.engines import Engines
from core.transports.line_client import LineClient
from core.transports.session_client import SessionView
from core.transports.session_sockets import connect_to_session
from core.transports.stdio_client import StdioClient, connect, reach_engine
from core.user_dirs import list_socket_dirs
from tests.support.open_session import session_in
from tests.support.program import PROGRAM, environment, run
from tests.support.trust import trust

SCRIPT = """
turns:
  - repeat: true
    steps:
      - text: First I run it.
        tool_calls: [{name: run_terminal_cmd, arguments: {command: "true"}}]
      - Done with it.
"""
WITH_JOB = """
turns:
  - steps:
      - tool_calls: [{name: run_terminal_cmd, arguments: {command: "exec sleep 600", is_background: true, timeout: 0}}]
      - It runs.
  - steps: [It has ended.]
"""


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    (tmp_path / "script.yaml").write_text(SCRIPT)
    trust(root)
    return root


@pytest.fixture
async def screen(project):
    client = await start(project)
    yield client
    await client.close()


async def start(project: Path, **options) -> StdioClient:
    model = f"scripted/{project.parent / 'script.yaml'}"
    return await connect(ScreenArguments(directory=project, program=PROGRAM, model=model, **options))


async def opened(client: Client) -> str:
    reply = await client.submit(cmd.SessionOpen())
    assert isinstance(reply, cmd.Ack), reply
    return reply.session


async def attach(session: str) -> LineClient:
    client = await connect_to_session(session)
    assert client is not None
    assert isinstance(await client.submit(cmd.SessionResume(session=session)), cmd.Ack)
    return client


async def asked_for_approval(client: Client, session: str) -> SessionView:
    """A session whose turn waits for a yes to a command."""
    assert isinstance(await client.submit(cmd.PolicySet(session=session, policy="confirm")), cmd.Ack)
    assert isinstance(await client.submit(cmd.TurnSubmit(session=session, text="Do it")), cmd.Ack)
    view = SessionView(client, session)
    await view.wait_until(lambda: bool(view.state.approvals))
    return view


async def ended(pid: int) -> None:
    """Wait until a process is gone; its parent may be this one."""
    with contextlib.suppress(ProcessLookupError):
        watching = os.pidfd_open(pid)
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(watching, over.set)
        async with asyncio.timeout(40):
            await over.wait()
        asyncio.get_running_loop().remove_reader(watching)
        os.close(watching)


async def test_two_clients_see_one_session_and_the_second_answer_is_told_so(screen):
    session = await opened(screen)
    second = await attach(session)
    view = await asked_for_approval(screen, session)
    other = SessionView(second, session)
    await other.wait_until(lambda: bool(other.state.approvals))
    (approval,) = view.state.approvals
    assert list(other.state.approvals) == [approval]
    answer = cmd.ApprovalAnswer(session=session, id=approval, decision="allow_once")
    first, late = await asyncio.gather(second.submit(answer), screen.submit(answer))
    assert sorted(type(reply).__name__ for reply in (first, late)) == ["Ack", "Reject"]
    assert {reply.code for reply in (first, late) if isinstance(reply, cmd.Reject)} == {"already_answered"}
    for session_view in (view, other):
        await session_view.wait_until(
            lambda bound_view=session_view: bool(bound_view.state.turns and bound_view.state.turns[-1].reason)
        )
        assert session_view.state.turns[-1].reason == "done"
    await second.close()


async def test_each_is_told_how_many_there_are_and_one_that_closes_the_session_leaves_it_to_the_others(screen):
    session = await opened(screen)
    counts = (
        envelope.event.count
        async for envelope in screen.events(session)
        if isinstance(envelope.event, ev.ClientsChanged)
    )
    second = await attach(session)
    assert await anext(counts) == 2
    stream = second.events(session)
    assert (await anext(stream)).event == ev.ClientsChanged(count=2)
    refused = await second.submit(cmd.SessionClose(session=session, discard=True))
    assert refused.code == "session_shared"
    assert isinstance(await second.submit(cmd.SessionClose(session=session)), cmd.Ack)
    assert [envelope async for envelope in stream if isinstance(envelope.event, ev.SessionClosed)] == []
    assert await anext(counts) == 1
    assert isinstance(await screen.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
    await second.close()


async def test_a_detached_session_goes_on_and_whoever_comes_back_answers_and_ends_it(screen, project):
    session = await opened(screen)
    view = await asked_for_approval(screen, session)
    (approval,) = view.state.approvals
    assert isinstance(await screen.submit(cmd.SessionDetach(session=session)), cmd.Ack)
    await screen.close()
    assert screen.stays
    assert [running_session.info.id for running_session in list_running()] == [session]
    assert choose_running(parse(["--dir", str(project)])) == (session, project)
    back = await reach_engine(ScreenArguments(directory=project, program=("/nowhere",)), session)
    assert isinstance(await back.submit(cmd.SessionResume(session=session)), cmd.Ack)
    again = SessionView(back, session)
    await again.wait_until(lambda: approval in again.state.approvals)
    await back.submit(cmd.ApprovalAnswer(session=session, id=approval, decision="allow_once"))
    await again.wait_until(lambda: bool(again.state.turns and again.state.turns[-1].reason))
    assert again.state.turns[-1].reason == "done"
    await back.close()
    await ended(screen.pid)
    assert list_running() == []
    assert not is_locked(SessionStore(project).sessions_path / session)


async def test_a_background_command_of_a_detached_session_runs_until_whoever_comes_back_ends_it(project):
    (project.parent / "script.yaml").write_text(WITH_JOB)
    screen = await start(project)
    session = await opened(screen)
    view = SessionView(screen, session)
    assert isinstance(await screen.submit(cmd.TurnSubmit(session=session, text="Serve it")), cmd.Ack)
    await view.wait_until(lambda: bool(view.state.turns and view.state.turns[-1].reason))
    assert list(view.state.jobs) == ["job_1"]
    assert isinstance(await screen.submit(cmd.SessionDetach(session=session)), cmd.Ack)
    await screen.close()
    assert screen.stays
    back = await attach(session)
    answer = await back.query(q.JobsQuery(session=session))
    assert isinstance(answer, q.JobsAnswer)
    assert [(job.id, job.ended) for job in answer.jobs] == [("job_1", "")]
    again = SessionView(back, session)
    assert isinstance(await back.submit(cmd.JobStop(session=session)), cmd.Ack)
    await again.wait_until(lambda: again.state.job_count == 1 and not again.state.jobs)
    assert [turn.cause for turn in again.state.turns] == ["prompt"]
    await back.close()
    await ended(screen.pid)


async def test_a_screen_that_is_killed_takes_the_engine_along_but_for_what_another_screen_shows(project):
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(PROGRAM[1].rpartition("/")[0])!r})
from pathlib import Path
from core.arguments import ScreenArguments
from core.protocol import commands as cmd
from core.transports.stdio_client import connect

async def main():
    arguments = ScreenArguments(directory=Path({str(project)!r}), program={PROGRAM!r}, model="scripted/none.yaml")
    client = await connect(arguments)
    print((await client.submit(cmd.SessionOpen())).session, client.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    host = await asyncio.create_subprocess_exec(PROGRAM[0], "-c", code, stdout=asyncio.subprocess.PIPE)
    session, pid = (await host.stdout.readline()).decode().split()
    second = await attach(session)
    counts = (
        envelope.event.count
        async for envelope in second.events(session)
        if isinstance(envelope.event, ev.ClientsChanged)
    )
    assert await anext(counts) == 2
    host.kill()
    await host.wait()
    assert await anext(counts) == 1
    assert isinstance(await second.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
    await second.close()
    await ended(int(pid))


async def test_an_engine_that_is_killed_is_told_and_its_session_goes_on_from_the_log(screen, project):
    session = await opened(screen)
    second = await attach(session)
    stream = second.events(session)
    await anext(stream)
    os.kill(screen.pid, signal.SIGKILL)
    with pytest.raises(EngineGone):
        async for _ in stream:
            pass
    assert second.is_gone
    await second.close()
    path = session_sockets.choose_socket_path(session)
    assert path.is_socket()  # nobody was there to remove it
    async with asyncio.timeout(40):  # the system may take connections until it has closed all that was open
        while (late := await connect_to_session(session)) is not None:
            await late.close()
    again = await start(project)
    assert isinstance(await again.submit(cmd.SessionResume(session=session)), cmd.Ack)
    third = await attach(session)  # at a socket in the place of the stale one
    await third.close()
    await again.close()
    assert not path.exists()


async def test_a_detached_session_ends_when_it_has_been_idle(project, tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("[detach]\nidle_minutes = 0\n")
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path / "config"))
    screen = await start(project)
    session = await opened(screen)
    await asked_for_approval(screen, session)
    await screen.submit(cmd.SessionDetach(session=session))
    await screen.close()
    back = await attach(session)
    assert isinstance(await back.submit(cmd.TurnInterrupt(session=session)), cmd.Ack)
    assert isinstance(await back.submit(cmd.SessionDetach(session=session)), cmd.Ack)
    await back.close()
    await ended(screen.pid)


async def test_an_idle_session_stays_open_while_another_client_has_it_open(project, tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("[detach]\nidle_minutes = 0\n")
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path / "config"))
    rounds, looked = iter(range(3)), asyncio.Event()

    async def pause(_seconds: float) -> None:
        if next(rounds) == 2:
            looked.set()
            await asyncio.Event().wait()

    monkeypatch.setattr("core.transports.engine_host.pause", pause)
    engine = Engine(project, options=EngineOptions(preload=False, watch=False))
    owner = share_engine(engine)
    session = await opened(owner)
    tab = await attach(session)
    assert isinstance(await tab.submit(cmd.SessionDetach(session=session)), cmd.Ack)
    async with asyncio.timeout(30):
        await looked.wait()
    assert engine.state(session).session_id == session
    await tab.close()
    await owner.close()


async def test_a_hangup_keeps_what_runs_where_the_line_was_one_of_ssh(project, monkeypatch):
    screen = await start(project)
    session = await opened(screen)
    refused = await screen.submit(cmd.SessionDetach(session=session, by_hangup=True))
    assert refused.code == "detach_refused"  # nothing runs
    await asked_for_approval(screen, session)
    assert (await screen.submit(cmd.SessionDetach(session=session, by_hangup=True))).code == "detach_refused"
    await screen.close()
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22")
    screen = await start(project)
    session = await opened(screen)
    await asked_for_approval(screen, session)
    assert isinstance(await screen.submit(cmd.SessionDetach(session=session, by_hangup=True)), cmd.Ack)
    await screen.close()
    os.kill(screen.pid, signal.SIGTERM)
    await ended(screen.pid)
    assert not is_locked(SessionStore(project).sessions_path / session)


async def test_a_private_session_has_no_socket_and_can_t_be_detached(project):
    screen = await start(project, private=True)
    session = await opened(screen)
    assert await connect_to_session(session) is None
    assert (await screen.submit(cmd.SessionDetach(session=session))).code == "private"
    await screen.close()


async def test_a_server_drives_a_session_that_a_screen_has_open(screen):
    session = await opened(screen)
    engines = Engines(EngineOptions(watch=False))
    client = await engines.find(session)
    assert isinstance(client, LineClient)
    assert isinstance(await client.query(q.TreeQuery(session=session)), q.TreeAnswer)
    assert await engines.find(session) is client
    await engines.close()
    assert isinstance(await screen.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)


async def test_the_command_line_says_what_runs_and_how_to_reach_it(screen, project):
    session = await opened(screen)
    await (await asked_for_approval(screen, session)).close()
    listed = await run(project, "sessions", env=environment(None))
    assert "(running)" in listed.out
    assert "agent-tui attach SESSION" in listed.out
    assert session in (await run(project, "attach", "--list", env=environment(None))).out
    renamed = await run(project, "sessions", "rename", session, "Told from outside", env=environment(None))
    assert renamed.code == 0, renamed.err
    listed = await run(project, "sessions", "--json", env=environment(None))
    assert [(entry["title"], entry["running"]) for entry in json.loads(listed.out)] == [("Told from outside", True)]
    refused = await run(project, "-p", "Hello", "-c", env=environment(None))
    assert refused.code == 1
    assert f"agent-tui attach {session}" in refused.err


async def test_the_screen_of_a_tab_attaches_without_a_terminal_and_leaves_the_session_open(screen, project):
    session = await opened(screen)
    tab = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "attach",
        session,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(None, TEXTUAL_DRIVER="textual.drivers.web_driver:WebDriver", COLUMNS="100", ROWS="30"),
    )
    assert await tab.stdout.readline() == b"__GANGLION__\n"
    output = b""
    async with asyncio.timeout(40):
        while b"2 clients" not in output:
            kind, size = await tab.stdout.readexactly(1), int.from_bytes(await tab.stdout.readexactly(4), "big")
            output += await tab.stdout.readexactly(size) if kind in b"DM" else pytest.fail(f"{kind!r} is no packet")
    assert isinstance(await screen.submit(cmd.SessionDetach(session=session)), cmd.Ack)
    tab.terminate()
    await tab.stdout.read()
    assert await tab.wait() == 0
    back = await attach(session)
    await back.close()


async def test_the_terminal_of_a_screen_hangs_up_over_ssh_and_its_turn_waits_for_the_next_screen(project):
    argv = [*PROGRAM, str(project), "--model", f"scripted/{project.parent / 'script.yaml'}"]
    env = environment(None, SSH_CONNECTION="192.0.2.1 50000 192.0.2.2 22", AGENT_TUI_CONFIG_DIR=str(project.parent))
    (project.parent / "config.toml").write_text('[commands]\npolicy = "confirm"\n')
    with Terminal(argv, columns=100, rows=30, cwd=project, env=env) as screen:
        screen.wait_for(b"Ask for a change")
        screen.write(b"Do it\r")
        screen.wait_for(b"waiting for you")
        screen.signal(signal.SIGHUP)
        screen.process.wait(40)
        ((session, workspace),) = [
            (running_session.info.id, running_session.workspace) for running_session in list_running()
        ]
        assert workspace == project
        back = await attach(session)
        view = SessionView(back, session)
        await view.wait_until(lambda: bool(view.state.approvals))
        assert isinstance(await back.submit(cmd.TurnInterrupt(session=session)), cmd.Ack)
        await view.wait_until(lambda: not view.state.approvals)
        await back.close()


async def test_who_does_not_read_is_dropped_and_holds_up_nobody(project, monkeypatch):
    monkeypatch.setattr("core.transports.line_server.MAX_UNREAD", 1_000_000)
    (project / "long.txt").write_text("x" * 60 * 1024)
    owner = share_engine(Engine(project, options=EngineOptions(watch=False)))
    session = await opened(owner)
    path = session_sockets.find_socket(session)
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(encode_record({"id": 1, "submit": cmd.SessionResume(session=session)}) + b"\n")
    assert b"ack" in await reader.readline()
    reader._transport.pause_reading()
    question = encode_record({"id": 2, "query": q.FileQuery(session=session, path="long.txt")}) + b"\n"
    counts = (
        envelope.event.count
        async for envelope in owner.events(session)
        if isinstance(envelope.event, ev.ClientsChanged)
    )
    assert await anext(counts) == 2
    writer.writelines([question] * 100)
    async with asyncio.timeout(40):
        assert await anext(counts) == 1
    assert isinstance(await owner.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
    writer.transport.abort()
    await owner.close()
    assert not path.exists()


async def test_commands_of_the_agent_do_not_see_the_places_of_sockets(project):
    async with session_in(project) as (engine, session):
        assert set(list_socket_dirs()) <= set(engine.terminal(session).host.hidden)


def test_a_place_of_others_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "state"))
    place = tmp_path / "agent-tui"
    assert session_sockets.choose_socket_path("ses_1") == place / "ses_1"
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o755)
    assert session_sockets.choose_socket_path("ses_1") == tmp_path / "state" / "run" / "ses_1"
    place.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "ses_1"))
        listening.listen()
        assert session_sockets.find_socket("ses_1") == place / "ses_1"
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
        assert session_sockets.find_socket("ses_1") is None
        with pytest.raises(StateError, match="belongs to another user"):
            session_sockets.choose_socket_path("ses_1")
