"""An engine with routes over model servers of this machine, and turns in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from core.config.settings import LoadedSettings, ProviderSettings, RouteSettings, RouteTable, Settings
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.provider_streams import Step

BUSY = Step(status=529, error="Overloaded")


def served(server, *names: str) -> dict[str, ProviderSettings]:
    return {
        name: ProviderSettings(base_url=model_server.openai_url)
        for name, model_server in zip(names, server, strict=True)
    }


async def engine_of(project, settings: Settings, *, trust: bool = False) -> tuple[Engine, str]:
    options = EngineOptions(model=settings.resolve_route("chat").model, watch=False, trust=trust)
    engine = Engine(project, options=options)
    house = engine._load().services
    engine._apply_settings(house, LoadedSettings(settings=settings))
    opened = await engine.submit(cmd.SessionOpen())
    assert isinstance(opened, cmd.Ack), opened
    return engine, opened.session


def of(events: list[ev.AnyEvent], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def chat(*fallback: str) -> RouteTable:
    return RouteTable(chat=RouteSettings(model="first/m", fallback=fallback))


async def all_of(engine: Engine, session: str) -> AsyncIterator[ev.Envelope]:
    last = engine.state(session).seq
    async for envelope in engine.events(session):
        yield envelope
        if envelope.seq >= last:
            return


EFFORTFUL = RouteTable(chat=RouteSettings(model="first/gpt-5.4"))


async def told(engine: Engine, session: str, kind: type) -> list:
    return of([envelope.event async for envelope in all_of(engine, session)], kind)
