"""An engine over a project, a session opened in it, what is submitted there and what its events say."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from core.engine import Engine, EngineOptions
from core.engine.shared.models import ModelAccess
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.program import KEY


def set_keys(monkeypatch: Any) -> None:
    """Keys of both providers, as a user's environment has them."""
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)


@contextlib.asynccontextmanager
async def engine_in(project: Path, models: ModelAccess | None = None, **options: Any) -> AsyncIterator[Engine]:
    engine = Engine(project, options=EngineOptions(watch=False, **options), models=models)
    try:
        yield engine
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def session_in(
    project: Path, models: ModelAccess | None = None, opening: cmd.AnyCommand | None = None, **options: Any
) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_in(project, models, **options) as engine:
        yield engine, await submit(engine, opening or cmd.SessionOpen())


async def submit(engine: Engine, command: cmd.AnyCommand) -> str:
    """The session of a command that was taken, after all of it is done."""
    reply = await engine.submit(command)
    assert isinstance(reply, cmd.Ack), reply
    await engine.wait_idle(reply.session)
    return reply.session


async def read_until(engine: Engine, session: str, kind: type, *, after: int = 0) -> list[Any]:
    """The events up to the first of a kind, with it."""
    seen: list[Any] = []
    async with contextlib.aclosing(engine.events(session, after=after)) as stream:
        async for envelope in stream:
            seen.append(envelope.event)
            if isinstance(envelope.event, kind):
                return seen
    raise AssertionError(f"the stream ended without {kind.__name__}")


async def compact(engine: Engine, session: str) -> int:
    """Have the conversation summarised; returns the number of the event before."""
    before = engine.state(session).seq
    await submit(engine, cmd.ContextCompact(session=session))
    await read_until(engine, session, ev.ContextCompacted, after=before)
    return before


async def run_turn(engine: Engine, session: str, command: str | cmd.AnyCommand = "Do it") -> list[ev.AnyEvent]:
    """The events of a turn, begun by a prompt or a command."""
    before = engine.state(session).seq
    if isinstance(command, str):
        command = cmd.TurnSubmit(session=session, text=command)
    reply = await engine.submit(command)
    assert isinstance(reply, cmd.Ack), reply
    seen = await read_until(engine, session, ev.TurnFinished, after=before)
    await engine.wait_idle(session)
    return seen
