from __future__ import annotations

import pytest

from core.agent import fallback, model_calls, retry
from core.config import ModeSettings, ModeTable, ProviderSettings, RouteSettings, RouteTable, Settings
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step

BUSY = Step(status=529, error="Overloaded")


@pytest.fixture
def waited(monkeypatch):
    """The pauses that the loop makes, none of which takes time."""
    pauses: list[float] = []
    now = [1000.0]

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(model_calls, "pause", pause)
    monkeypatch.setattr(retry, "monotonic", lambda: now[0])
    return pauses


def served(server, *names: str) -> dict[str, ProviderSettings]:
    return {name: ProviderSettings(base_url=each.openai_url) for name, each in zip(names, server, strict=True)}


async def engine_of(project, settings: Settings) -> tuple[Engine, str]:
    engine = Engine(project, options=EngineOptions(model=settings.route("chat").model, watch=False))
    house = engine._ready()
    engine._take_settings(house, type("Loaded", (), {"settings": settings, "notices": ()})())
    opened = await engine.submit(cmd.SessionOpen())
    assert isinstance(opened, cmd.Ack), opened
    return engine, opened.session


async def turn(engine: Engine, session: str, text: str = "Do it") -> list[ev.AnyEvent]:
    after = engine.state(session).seq
    reply = await engine.submit(cmd.TurnSubmit(session=session, text=text))
    assert isinstance(reply, cmd.Ack), reply
    found: list[ev.AnyEvent] = []
    async for envelope in engine.events(session, after=after):
        found.append(envelope.event)
        if isinstance(envelope.event, ev.TurnFinished):
            break
    return found


def of(events: list[ev.AnyEvent], kind: type) -> list:
    return [each for each in events if isinstance(each, kind)]


def chat(*fallback: str) -> RouteTable:
    return RouteTable(chat=RouteSettings(model="first/m", fallback=fallback))


async def test_an_overloaded_model_gives_way_to_the_next_within_the_step_and_is_asked_first_again(tmp_path, waited):
    async with provider_server([BUSY] * 40) as first, provider_server(["From the second.", "Again."]) as second:
        settings = Settings(providers=served((first, second), "first", "second"), routes=chat("second/n"))
        engine, session = await engine_of(tmp_path, settings)
        events = await turn(engine, session)
        assert of(events, ev.TurnFinished)[0].reason == "done"
        (taken,) = of(events, ev.RouteTaken)
        assert (taken.model, taken.instead_of) == ("second/n", "first/m")
        assert "verloaded" in taken.reason
        assert any("second/n goes on with this turn" in each.message for each in of(events, ev.Notice))
        assert round(sum(waited), 6) <= fallback.PATIENCE
        assert [each.model for each in of(events, ev.StepFinished)] == ["second/n"]
        asked = len(first.answered)
        events = await turn(engine, session)
        assert of(events, ev.RouteTaken)[0].model == "first/m"
        assert len(first.answered) > asked
        taken = engine.state(session).chosen.taken
        assert set(taken) == {"chat second/n"}
        assert taken["chat second/n"].completion_tokens > 0
        await engine.close()


async def test_a_model_that_is_not_known_there_gives_way_at_once(tmp_path, waited):
    missing = Step(status=404, error="The model `m` does not exist")
    async with provider_server([missing]) as first, provider_server(["Hello."]) as second:
        settings = Settings(providers=served((first, second), "first", "second"), routes=chat("second/n"))
        engine, session = await engine_of(tmp_path, settings)
        events = await turn(engine, session)
        assert of(events, ev.TurnFinished)[0].reason == "done"
        assert waited == []
        await engine.close()


async def test_each_fallback_is_asked_in_its_turn_and_the_last_error_ends_the_turn(tmp_path, waited):
    gone = ProviderSettings(base_url="http://127.0.0.1:9/v1")
    async with provider_server([Step(status=401, error="bad key")]) as second:
        settings = Settings(
            providers={"first": gone, "second": ProviderSettings(base_url=second.openai_url), "third": gone},
            routes=chat("second/n", "third/o"),
        )
        engine, session = await engine_of(tmp_path, settings)
        events = await turn(engine, session)
        assert [each.model for each in of(events, ev.RouteTaken)] == ["second/n", "third/o"]
        assert {each.instead_of for each in of(events, ev.RouteTaken)} == {"first/m"}
        assert of(events, ev.TurnFinished)[0].reason == "failed"
        assert "third" in of(events, ev.TurnFinished)[0].message
        await engine.close()


async def test_a_request_that_is_wrong_is_not_sent_to_another_model(tmp_path, waited):
    wrong = Step(status=400, error="messages.3 is not allowed here")
    async with provider_server([wrong]) as first, provider_server(["Hello."]) as second:
        settings = Settings(providers=served((first, second), "first", "second"), routes=chat("second/n"))
        engine, session = await engine_of(tmp_path, settings)
        events = await turn(engine, session)
        assert of(events, ev.TurnFinished)[0].reason == "failed"
        assert second.answered == []
        await engine.close()


async def test_a_fallback_that_can_not_be_used_is_told_once_and_passed_over(tmp_path, waited):
    async with provider_server(["One.", "Two."]) as first:
        settings = Settings(providers=served((first,), "first"), routes=chat("nobody/x"))
        engine, session = await engine_of(tmp_path, settings)
        said = of(await turn(engine, session) + await turn(engine, session), ev.Notice)
        said += of([each.event async for each in _all(engine, session)], ev.Notice)
        told = {each.message for each in said if "nobody/x" in each.message}
        assert [each.startswith("The fallback model nobody/x can't be used") for each in told] == [True]
        await engine.close()


async def _all(engine: Engine, session: str):
    last = engine.state(session).seq
    async for envelope in engine.events(session):
        yield envelope
        if envelope.seq >= last:
            return


async def test_a_mode_has_a_model_and_an_effort_of_its_own_and_switching_back_restores_the_users(tmp_path, waited):
    async with provider_server(["a", "b", "c", "d"]) as first, provider_server(["p", "q"]) as second:
        settings = Settings(
            providers=served((first, second), "first", "second"),
            routes=RouteTable(chat=RouteSettings(model="first/gpt-5.4", effort="low")),
            modes=ModeTable(plan=ModeSettings(model="second/gpt-5.4-mini", effort="high")),
        )
        engine, session = await engine_of(tmp_path, settings)
        await turn(engine, session)
        await engine.submit(cmd.ModeSet(session=session, mode="plan"))
        await engine.settled(session)
        route = engine.state(session).chosen.route
        assert (route.model, route.effort) == ("second/gpt-5.4-mini", "high")
        await turn(engine, session)
        await engine.submit(cmd.ModeSet(session=session, mode="agent"))
        await turn(engine, session)
        assert [each.json.get("reasoning_effort") for each in (*first.answered, *second.answered)] == [
            "low",
            "low",
            "high",
        ]
        assert set(engine.state(session).chosen.taken) == {"chat first/gpt-5.4", "chat second/gpt-5.4-mini"}
        await engine.close()
