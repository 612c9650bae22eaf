"""Commands that work in the project itself: however one ends, its changes stay, and are recorded and undone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sandbox.box import Tier
from tests.integration.test_permissions import engine_of, results
from tests.support.agent_case import says
from tests.support.boxes import command
from tests.support.open_session import read_until, submit
from tests.support.story import project_at

STAY = "changes that it had already made stay in the project"
HALF = "echo two > new; echo more >> a.txt; echo begun; "
FOREVER = "sleep 600"


@pytest.fixture
def project(tmp_path) -> Path:
    directory = project_at(tmp_path / "project")
    (directory / "a.txt").write_text("one\n")
    return directory


async def effects_of(
    engine: Engine, session: str, do: cmd.AnyCommand, *, stops: bool = False, kills: bool = False
) -> ev.EffectsRecorded:
    """What is recorded of a command. `stops`: it is stopped as soon as it has begun; `kills`: its supervisor is, whose
    number it has printed."""
    before = engine.state(session).seq
    assert isinstance(await engine.submit(do), cmd.Ack)
    async with asyncio.timeout(60), contextlib.aclosing(engine.events(session, after=before)) as stream:
        async for envelope in stream:
            match envelope.event:
                case ev.ToolOutput(text=text) if stops and "begun" in text:
                    assert isinstance(await engine.submit(cmd.TurnInterrupt(session=session)), cmd.Ack)
                case ev.ToolOutput(text=text) if kills and (match := re.search(r"begun (\d+)\n", text)):
                    os.kill(int(match[1]), signal.SIGKILL)
                case ev.EffectsRecorded() as effects:
                    return effects
    raise AssertionError("nothing was recorded")


def check_record(project: Path, effects: ev.EffectsRecorded) -> None:
    assert (project / "new").read_text() == "two\n"
    assert (project / "a.txt").read_text() == "one\nmore\n"
    assert not effects.discarded
    assert effects.in_place
    assert (effects.created, effects.edited) == (("new",), ("a.txt",))


async def check_undo(engine: Engine, session: str, project: Path) -> None:
    await engine.wait_idle(session)
    checkpoint = list(engine.state(session).checkpoints)[-1]
    await submit(engine, cmd.CheckpointRestore(session=session, id=checkpoint))
    assert not (project / "new").exists()
    assert (project / "a.txt").read_text() == "one\n"


async def test_what_a_stopped_command_has_changed_stays_and_is_undone_by_a_checkpoint(project):
    async with engine_of(project, command(HALF + FOREVER), tier=Tier.IN_PLACE) as (engine, session):
        effects = await effects_of(engine, session, cmd.TurnSubmit(session=session, text="go"), stops=True)
        check_record(project, effects)
        [note] = effects.notes
        assert STAY in note
        [result] = results(engine, session)
        assert STAY in result
        assert "dropped" not in result
        await check_undo(engine, session, project)


async def test_without_a_sandbox_a_stopped_command_is_not_said_to_be_dropped_either(project):
    async with engine_of(project, command(HALF + FOREVER), tier=Tier.NONE) as (engine, session):
        seen: list[ev.AnyEvent] = []
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="go")), cmd.Ack)
        async with asyncio.timeout(60), contextlib.aclosing(engine.events(session)) as stream:
            async for envelope in stream:
                seen.append(envelope.event)
                match envelope.event:
                    case ev.ApprovalRequested(id=identity):
                        yes = cmd.ApprovalAnswer(session=session, id=identity, decision="allow_once")
                        assert isinstance(await engine.submit(yes), cmd.Ack)
                    case ev.ToolOutput(text=text) if "begun" in text:
                        assert isinstance(await engine.submit(cmd.TurnInterrupt(session=session)), cmd.Ack)
                    case ev.TurnFinished():
                        break
        assert (project / "new").read_text() == "two\n"
        assert STAY in results(engine, session)[0]
        assert not any(isinstance(event, ev.EffectsRecorded) and event.discarded for event in seen)


async def test_so_does_what_the_users_own_stopped_command_has_changed(project):
    async with engine_of(project, says("ok"), tier=Tier.IN_PLACE) as (engine, session):
        assert engine.state(session).accepts_at_once
        typed = cmd.CommandRun(session=session, command=HALF + FOREVER)
        effects = await effects_of(engine, session, typed, stops=True)
        check_record(project, effects)
        assert STAY in effects.notes[0]
        seen = await read_until(engine, session, ev.CommandRan)
        assert [event.tool for event in seen if isinstance(event, ev.ToolRequested)] == ["project_command"]


async def test_so_does_what_a_command_has_changed_whose_sandbox_was_killed(project):
    text = f"{HALF} echo begun $PPID; {FOREVER}"
    async with engine_of(project, command(text), says("ok"), tier=Tier.IN_PLACE) as (engine, session):
        effects = await effects_of(engine, session, cmd.TurnSubmit(session=session, text="go"), kills=True)
        check_record(project, effects)
        assert effects.notes == (f"The sandbox ended before the command did; {STAY}.",)


async def test_so_does_what_a_command_has_changed_that_was_ended_for_want_of_space(project, monkeypatch):
    monkeypatch.setattr("core.shell.disk_guard.MIN_FREE_BYTES", 1 << 60)
    async with engine_of(project, command(HALF + FOREVER), says("ok"), tier=Tier.IN_PLACE) as (engine, session):
        effects = await effects_of(engine, session, cmd.TurnSubmit(session=session, text="go"))
        check_record(project, effects)
        [note] = effects.notes
        assert note.startswith("Ended because the disk was nearly full")
        assert note.endswith(f"; {STAY}.")
