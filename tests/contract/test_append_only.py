"""What was sent is sent again, byte for byte, as the beginning of what is sent next: on every wire, come what may."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from core.arguments import ScreenArguments
from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.transports.stdio_client import connect
from tests.integration.test_engine_provider import opened
from tests.integration.test_questions import ANSWERS, ASKS, reply
from tests.support import wires
from tests.support.open_session import engine_in, read_until, run_turn, submit
from tests.support.provider_server import ProviderServer, provider_server
from tests.support.provider_streams import Call, Say, Step, Think
from tests.support.story import project_at
from tests.support.trust import trust

PROGRAM = (sys.executable, str(Path(__file__).parents[2] / "agent_tui.py"))
READ = Call(name="read_file", arguments={"target_file": "a.txt"})
READ_RULED = Call(name="read_file", arguments={"target_file": "src/b.py"})
EDIT = Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
RULE = "---\ndescription: \nglobs: src/**\nalwaysApply: false\n---\nIn src, be careful.\n"
LONG = "I think about it for quite a while. " * 4
on_every_wire = pytest.mark.parametrize("wire", wires.MODELS)


@pytest.fixture
def project(tmp_path) -> Path:
    directory = project_at(tmp_path / "project")
    for path, text in ((".cursor/rules/src.mdc", RULE), ("src/b.py", "b = 1\n"), ("AGENTS.md", "Be brief.\n")):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    trust(directory)
    return directory


@contextlib.asynccontextmanager
async def strict(monkeypatch, *steps: Step | str, more: str = ""):
    async with provider_server(steps, strict=True, models=wires.NAMES) as server:
        wires.configure(monkeypatch, server, more)
        yield server


def thought(*parts: Say | Call, text: str = LONG, **fields: Any) -> Step:
    """A step that thinks before it says or calls what `parts` are."""
    return Step(parts=[Think(text=text), *parts], **fields)


def assert_only_appended(server: ProviderServer) -> None:
    broken = wires.breaks(server.answered)
    where = [wires.difference(server.answered[index - 1], server.answered[index]) for index in broken[:1]]
    assert broken == [], where[0]
    assert server.rules is not None
    assert (server.rules.refusals, server.rules.remarks) == ([], [])


def opaque(server: ProviderServer) -> int:
    """How many pieces of reasoning went with the last request."""
    sent = server.answered[-1].raw
    return sum(sent.count(mark) for mark in (b'"signature":', b'"encrypted_content":', b'"reasoning_content":'))


@on_every_wire
async def test_steps_turns_modes_efforts_verdicts_and_rules_only_append(project, monkeypatch, wire):
    steps = (
        thought(Say(text="I look.", phase="commentary"), READ, Call(name="grep", arguments={"pattern": "o"})),
        thought(READ_RULED, Call(name="read_file", arguments={"target_file": "none.txt"})),
        Step(parts=[Think(redacted=True, text="hidden"), EDIT, Think(text="And now?"), READ]),
        thought(Say(text="Changed.", phase="final_answer")),
        thought(READ),
        "Planned.",
        thought(Say(text="There is nothing to plan.")),
        thought(Say(text="After all.")),
    )
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, wires.MODELS[wire])
        await run_turn(engine, session, "Change it @a.txt")
        rejected = cmd.HunkResolve(session=session, path="a.txt", verdict="reject", reason="No")
        await submit(engine, rejected)
        await submit(engine, cmd.ModeSet(session=session, mode="plan"))
        (project / "AGENTS.md").write_text("Be long.\n")
        await run_turn(engine, session, "And now? @src/b.py")
        await submit(engine, cmd.EffortSet(session=session, effort="low"))
        await submit(engine, cmd.ModeSet(session=session, mode="debug"))
        assert (await run_turn(engine, session, "Why?"))[-1].reason == "done"
    assert len(server.answered) == 8
    assert_only_appended(server)
    assert opaque(server) >= 5
    assert b"rejected: a.txt" in server.answered[-1].raw


@on_every_wire
async def test_what_is_said_meanwhile_and_what_is_answered_late_only_append(project, monkeypatch, wire):
    steps = (
        thought(Say(text="Half of it and more. " * 5), READ, hold="text"),
        thought(Say(text="So be it.")),
        thought(Say(text="There is nothing to plan.")),
        thought(ASKS.calls[0]),
        thought(Say(text="SQLite it is.")),
        thought(Say(text="Yes.")),
    )
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, wires.MODELS[wire], mode="plan")
        before = engine.state(session).seq
        await submit(engine, cmd.TurnSubmit(session=session, text="Go"))
        await server.hanging.wait()
        await submit(engine, cmd.TurnSteer(session=session, text="And be quick"))
        server.released.set()
        await read_until(engine, session, ev.TurnFinished, after=before)
        before = engine.state(session).seq
        await submit(engine, cmd.TurnSubmit(session=session, text="Plan it"))
        asked = (await read_until(engine, session, ev.QuestionAsked, after=before))[-1]
        await run_turn(engine, session, cmd.TurnInterrupt(session=session))
        await run_turn(engine, session, reply(session, asked, *ANSWERS))
        assert (await run_turn(engine, session, "Sure?"))[-1].reason == "done"
    assert len(server.answered) == 6
    assert b"And be quick" in server.answered[1].raw
    assert_only_appended(server)


@on_every_wire
@pytest.mark.parametrize("place", ["before", "text", "tool"])
async def test_what_was_interrupted_or_cut_and_tried_again_only_appends(project, monkeypatch, wire, place):
    half = thought(Say(text="Half of it and more. " * 5), READ, EDIT)
    steps = (
        thought(READ),
        Step(**{**half.__dict__, "cut": place}),
        thought(READ),
        Step(**{**half.__dict__, "hang": place}),
        thought(Say(text="Whole.")),
        "And more.",
    )
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, wires.MODELS[wire])
        before = engine.state(session).seq
        await submit(engine, cmd.TurnSubmit(session=session, text="one"))
        await server.hanging.wait()
        await submit(engine, cmd.TurnInterrupt(session=session))
        await read_until(engine, session, ev.TurnFinished, after=before)
        await run_turn(engine, session, "two")
        assert (await run_turn(engine, session, "three"))[-1].reason == "done"
    sent = [request for number, request in enumerate(server.answered) if number != 2]  # the same once more
    assert wires.grown(server.answered[2]) == wires.grown(server.answered[1])
    server.requests[:] = sent
    assert_only_appended(server)


async def killed_in_a_step(project: Path, server: ProviderServer, model: str, text: str = "Change it @a.txt") -> str:
    """The session of an engine process that was killed while the server was answering."""
    client = await connect(ScreenArguments(directory=project, program=PROGRAM))
    session: str = (await client.submit(cmd.SessionOpen(model=model))).session
    await client.submit(cmd.TurnSubmit(session=session, text=text))
    await server.hanging.wait()
    os.kill(client.pid, signal.SIGKILL)
    await client.close()
    return session


async def resumed(engine: Engine, session: str, text: str) -> ev.TurnFinished:
    await submit(engine, cmd.SessionResume(session=session))
    finished: ev.TurnFinished = (await run_turn(engine, session, text))[-1]
    return finished


@pytest.mark.slow
@on_every_wire
@pytest.mark.parametrize("place", ["before", "text", "tool"])
async def test_d1_after_a_kill_the_session_begins_with_the_bytes_of_before(project, monkeypatch, wire, place):
    steps = (
        thought(READ, READ_RULED),
        thought(EDIT),
        thought(Say(text="Half of it and more. " * 5), READ, hang=place),
        thought(READ),
        thought(Say(text="There.")),
        thought(Say(text="And there.")),
    )
    async with strict(monkeypatch, *steps) as server:
        session = await killed_in_a_step(project, server, wires.MODELS[wire])
        for text in ("Go on", "And on"):
            async with engine_in(project) as engine:
                assert (await resumed(engine, session, text)).reason == "done"
    assert len(server.answered) == 6
    assert_only_appended(server)
    assert opaque(server) >= 4


IN_TAGS = '<tool_call>\n{"name": "read_file", "arguments": {"target_file": "a.txt"}}\n</tool_call>'


@on_every_wire
async def test_calls_that_stand_in_the_text_only_append(project, monkeypatch, wire):
    look = thought(Say(text=f"I look.\n{IN_TAGS}"))
    steps = (look, thought(Say(text="<chat>So it is.</chat>")), look, look, thought(Say(text="Done.")))
    more = f'[models."{wires.MODELS[wire]}"]\ndialect = "tags"\n'
    async with strict(monkeypatch, *steps, more=more) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, wires.MODELS[wire])
            await run_turn(engine, session, "What is it? @a.txt")
        async with engine_in(project) as engine:
            assert (await resumed(engine, session, "And now? @src/b.py")).reason == "done"
    assert len(server.answered) == 5
    assert b"three" in server.answered[1].raw
    assert opaque(server) == 4
    assert_only_appended(server)
