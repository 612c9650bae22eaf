"""Privacy: what is left on this machine, what the provider is told, and whom the program speaks to."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from core import crash_reports as faults
from core.engine import Engine, EngineOptions
from core.engine.session import session as runtime
from core.exits import ExitCode
from core.filesystem.overlay_support import SHARED_MEMORY
from core.permissions.saved_rules import SavedRules
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.sessions.private_directory import PREFIX, PrivateDirectory, find_abandoned
from core.sessions.store import SessionStore
from core.shadow.shadow import Shadow
from tests.integration.test_promotion_crash import crash_at
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.configured import configured
from tests.support.default_model import access_to
from tests.support.open_session import compact
from tests.support.program import PROGRAM, environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

WORD = f"walrus{os.getpid()}"  # other tests run beside this one, and places in memory are for all
EDIT = Step(text=f"{WORD} says", calls=[Call(name="write", arguments={"file_path": "new.txt", "contents": "made\n"})])
RUN = Step(calls=[Call(name="run_terminal_cmd", arguments={"command": f"echo {WORD}; echo made > ran.txt"})])
WATCH = """
import os, sys
def heard(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind"):
        where = arguments[1] if event in ("socket.connect", "socket.sendto", "socket.bind") else arguments[:2]
        with open(os.environ["HEARD"], "a") as file:
            file.write(f"{os.getpid()} {event} {where!r}\\n")
sys.addaudithook(heard)
"""


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


@pytest.fixture
def places(tmp_path, monkeypatch) -> list[Path]:
    """Where anything of a program could be left, but for the project itself."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    return [Path.home(), scratch]


@pytest.fixture
def own_memory(monkeypatch) -> Iterator[None]:
    """A place in memory that no engine of another test looks through, and mends, meanwhile."""
    if not SHARED_MEMORY.is_dir():
        yield
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as own:
        monkeypatch.setattr("core.sessions.private_directory.SHARED_MEMORY", Path(own))
        yield


def holding(places: list[Path], word: str = WORD) -> list[str]:
    """The files in which a word stands, and the private places that are left."""
    paths = [str(path) for place in places for path in files_below(place) if word.encode() in path.read_bytes()]
    return paths + [
        str(path) for place in SHARED_MEMORY.glob(f"{PREFIX}*") for path in files_below(place) if holds(path, word)
    ]


def holds(path: Path, word: str) -> bool:
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return False


def files_below(place: Path) -> Iterator[Path]:
    for above, _, names in os.walk(place):
        yield from (path for name in names if (path := Path(above) / name).is_file() and not path.is_symlink())


async def test_after_a_private_run_no_word_of_it_is_left_and_what_waits_is_kept_alone(project, places):
    async with provider_server([EDIT, RUN, f"{WORD} ends."]) as server:
        ended = await run(project, "-p", f"{WORD} begins", "--private", "--model", "openai/m", env=environment(server))
    assert (ended.code, f"{WORD} ends." in ended.out) == (ExitCode.DONE, True)
    assert (
        "the conversation is not saved. The changes pending review are saved, without the conversation"
    ) in ended.err
    assert holding(places) == []
    assert (project / "new.txt").exists() is False
    result = await run(project, "review", "--print", env=environment(None))
    assert ("+made" in result.out, WORD in result.out) == (True, False)
    assert {path.name for path in SessionStore(project).list_directories()[0].iterdir()} >= {"log.jsonl", "blobs"}


async def test_a_private_run_that_leaves_nothing_to_review_leaves_no_session(project, places):
    configured("privacy = true\n")
    async with provider_server([f"{WORD} ends."]) as server:
        ended = await run(project, "-p", f"{WORD} begins", "--model", "openai/m", env=environment(server))
    assert ended.code == ExitCode.DONE
    assert (holding(places), SessionStore(project).list_directories()) == ([], [])


async def test_what_a_killed_one_left_in_memory_is_gone_at_the_next_start(project, places):
    async with provider_server([EDIT, Step(text=f"{WORD} " * 200, hang="text")]) as server:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "-p", f"{WORD} begins", "--private", "--model", "openai/m", cwd=project,
            env=environment(server), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        hanging, ended = asyncio.create_task(server.hanging.wait()), asyncio.create_task(process.wait())
        await asyncio.wait({hanging, ended}, return_when=asyncio.FIRST_COMPLETED)
        assert not ended.done(), "it is killed in the middle"
        process.kill()
        await ended
    async with provider_server(["Hello."]) as server:
        assert (await run(project, "-p", "Go", "--model", "openai/m", env=environment(server))).code == ExitCode.DONE
    assert holding(places) == []


@pytest.mark.parametrize("wanted", [("-c",), ("--resume", "ses_1")])
async def test_a_kept_session_is_not_gone_on_with_in_private(project, wanted):
    both = await run(project, "-p", "Go", "--private", *wanted, env=environment(None))
    assert (both.code, "a private session can't be resumed" in both.err) == (ExitCode.USAGE, True)
    async with provider_server(["Hello."], repeat=True) as server:
        await run(project, "-p", "Go", "--model", "openai/m", env=environment(server))
        configured("privacy = true\n")
        refused = await run(project, "-p", "Go", *wanted, env=environment(server))
        assert (refused.code, "privacy is on" in refused.err, "--no-private" in refused.err) == (1, True, True)
        after = await run(project, "-p", "Go", "-c", "--no-private", env=environment(server))
    assert after.code == ExitCode.DONE


def private_engine(project: Path, *steps) -> tuple[Engine, DirectedModel]:
    model = DirectedModel(steps)
    access = access_to(lambda _id, _settings: (model, "m"), "directed/m", cost=0.0)
    return Engine(project, options=EngineOptions(watch=False, private=True), models=access), model


async def turn(engine: Engine, session: str, answer: ev.ApprovalDecision = "allow_always") -> None:
    stream = engine.events(session, after=engine.state(session).seq)
    await engine.submit(cmd.TurnSubmit(session=session, text=f"{WORD} begins"))
    async for envelope in stream:
        if isinstance(envelope.event, ev.ApprovalRequested):
            await engine.submit(cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision=answer))
        if isinstance(envelope.event, ev.TurnFinished):
            break
    await stream.aclose()


@pytest.mark.usefixtures("own_memory")
async def test_every_request_of_a_private_session_says_so_and_answers_for_good_end_with_it(project, places):
    configured('[commands]\npolicy = "confirm"\n[context]\nwindow = 100_000\n')
    steps = (calls(("run_terminal_cmd", {"command": f"echo {WORD}"})), says("A long story. " * 8_000))
    engine, model = private_engine(project, *steps, says("Done", usage=Usage(prompt_tokens=60_000)), says("Notes"))
    session = (await engine.submit(cmd.SessionOpen())).session
    assert engine.state(session).is_private
    await turn(engine, session)
    await turn(engine, session)
    await compact(engine, session)
    assert faults.save_crash_report(RuntimeError(WORD), "a test") == ""
    await engine.close()
    assert len(model.requests) == 4
    assert all(request.private for request in model.requests)
    assert SavedRules(project).load() == ()
    assert holding(places) == []
    assert (Path(faults.save_crash_report(RuntimeError("x"), "a test")).name != "", find_abandoned()) == (True, [])


async def test_what_waits_is_dropped_with_a_private_session_unless_it_is_to_be_kept(project):
    write = calls(("write", {"file_path": "new.txt", "contents": "made\n"}), ("delete_file", {"target_file": "a.txt"}))
    for keep in (False, True):
        engine, _ = private_engine(project, write, says("Done"))
        session = (await engine.submit(cmd.SessionOpen())).session
        await turn(engine, session)
        reply = await engine.submit(cmd.PendingKeep(session=session)) if keep else None
        await engine.close()
        directories = SessionStore(project).list_directories()
        assert [directory.name for directory in directories] == ([reply.session] if reply else [])
    again = Engine(project, options=EngineOptions(watch=False))
    await again.submit(cmd.SessionResume(session=reply.session))
    state = again.state(reply.session)
    assert {path: change.pending.kind for path, change in state.changes.items()} == {
        "new.txt": "file",
        "a.txt": "absent",
    }
    assert (state.turns, state.messages, state.is_private) == ([], [], False)
    await again.close()


async def test_what_waits_in_a_private_session_that_was_closed_can_be_kept_too(project):
    engine, _ = private_engine(project, calls(("write", {"file_path": "new.txt", "contents": "made\n"})), says("Done"))
    first = (await engine.submit(cmd.SessionOpen())).session
    await turn(engine, first)
    await engine.submit(cmd.SessionClose(session=first))
    while engine._closing:
        await engine._closing.pop().tasks.wait_idle()
    reply = await engine.submit(cmd.PendingKeep(session=first))
    await engine.close()
    assert isinstance(reply, cmd.Ack), reply
    assert [directory.name for directory in SessionStore(project).list_directories()] == [reply.session]


async def test_a_session_that_is_kept_anyway_is_not_kept_twice(project):
    engine = Engine(project, options=EngineOptions(watch=False))
    session = (await engine.submit(cmd.SessionOpen())).session
    reply = await engine.submit(cmd.PendingKeep(session=session))
    await engine.close()
    assert isinstance(reply, cmd.Reject)
    assert reply.code == "not_private"


async def test_nothing_to_keep_is_said(project):
    engine, _ = private_engine(project)
    session = (await engine.submit(cmd.SessionOpen())).session
    reply = await engine.submit(cmd.PendingKeep(session=session))
    await engine.close()
    assert isinstance(reply, cmd.Reject)
    assert reply.code == "nothing_pending"


def test_a_place_that_is_in_use_is_left_alone():
    place = PrivateDirectory.create()
    assert place.path not in find_abandoned()
    assert place.path.stat().st_mode & 0o777 == 0o700
    place.remove()
    assert not place.path.exists()


async def test_no_socket_opens_but_the_providers_over_a_session_on_the_screen(project, tmp_path):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(WATCH)
    heard = tmp_path / "heard"
    heard.touch()
    async with provider_server([EDIT, RUN, "All of it."], models=["m"]) as server:
        env = environment(server, PYTHONPATH=str(hooks), HEARD=str(heard), TERM="xterm-256color")
        argv = [*PROGRAM, str(project), "--private", "--model", "openai/m"]
        await asyncio.to_thread(_use, argv, project, env)
        assert len(server.answered) == 3
        port = server.port
    opened = [line.split(" ", 2)[1:] for line in heard.read_text().splitlines()]
    bound = [where for event, where in opened if event == "socket.bind"]
    assert [where for event, where in opened if event != "socket.bind" and str(port) not in where] == []
    assert [
        where for where in bound if where.startswith("(") and "127.0.0.1" not in where
    ] == []  # the box tries itself
    assert any(event == "socket.connect" for event, _ in opened)


def _use(argv: list[str], project: Path, env: dict[str, str]) -> None:
    with Terminal(argv, cwd=project, env=env) as screen:
        screen.wait_for(lambda screen: b"private" in screen.text() and b"Ask for a change" in screen.text())
        screen.send("mend it")
        screen.wait_for(b"All of it.")
        screen.wait_for(lambda screen: b"working" not in screen.output.rpartition(b"\x1b]2;")[2].partition(b"\x07")[0])
        screen.write(b"\x11")  # ctrl+q
        screen.wait_for(b"Drop the changes")
        screen.write(b"\x1b[B\r")
        screen.wait_for(b"the conversation was not kept")


async def accept_two(project: Path) -> None:
    """In a private engine: two files are proposed, and accepted together."""
    writes = calls(*(("write", {"file_path": name, "contents": "new\n"}) for name in ("b.txt", "c.txt")))
    engine, _ = private_engine(project, writes, says("Done"))
    session = (await engine.submit(cmd.SessionOpen())).session
    await turn(engine, session)
    await engine.submit(cmd.HunkResolve(session=session, path="", verdict="accept"))
    await engine.wait_idle(session)


@pytest.mark.usefixtures("own_memory")
@pytest.mark.parametrize("step", range(1, 9))
def test_a_write_that_a_kill_cut_off_is_whole_or_undone_after_the_next_start(project, monkeypatch, step):
    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(runtime, "Shadow", partial(Shadow, step=crash_at(step)))
            asyncio.run(accept_two(project))
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    asyncio.run(opened_once(project))
    files = sorted((path.name, path.read_bytes()) for path in project.iterdir() if path.name != "a.txt")
    assert files in ([], [("b.txt", b"new\n"), ("c.txt", b"new\n")])
    assert find_abandoned() == []


async def opened_once(project: Path) -> None:
    engine = Engine(project, options=EngineOptions(watch=False))
    await engine.submit(cmd.SessionOpen())
    await engine.close()
