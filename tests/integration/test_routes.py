from __future__ import annotations

import json

import pytest

from core.agent.base import routes
from core.agent.turn import model_calls
from core.config.settings import (
    LoadedSettings,
    ModeSettings,
    ModeTable,
    ProviderSettings,
    RouteSettings,
    RouteTable,
    Settings,
)
from core.engine import Engine, EngineOptions
from core.engine.session.model_routes import clamp_effort
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.providers.catalog.capabilities import Capabilities
from tests.support.open_session import run_turn, submit
from tests.support.program import environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step
from tests.support.routed import BUSY, EFFORTFUL, all_of, chat, engine_of, of, served, told


@pytest.fixture
def waited(monkeypatch):
    """The pauses that the loop makes, none of which takes time."""
    pauses: list[float] = []
    now = [1000.0]

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(model_calls, "pause", pause)
    monkeypatch.setattr(model_calls, "monotonic", lambda: now[0])
    return pauses


def falling_back(first, second) -> Settings:
    return Settings(providers=served((first, second), "first", "second"), routes=chat("second/n"))


async def test_an_overloaded_model_gives_way_to_the_next_within_the_step_and_is_asked_first_again(tmp_path, waited):
    async with provider_server([BUSY] * 40) as first, provider_server(["From the second.", "Again."]) as second:
        engine, session = await engine_of(tmp_path, falling_back(first, second))
        events = await run_turn(engine, session)
        assert of(events, ev.TurnFinished)[0].reason == "done"
        (taken,) = of(events, ev.RouteTaken)
        assert (taken.model, taken.instead_of) == ("second/n", "first/m")
        assert "verloaded" in taken.reason
        assert any("second/n continues this turn" in notice.message for notice in of(events, ev.Notice))
        assert round(sum(waited), 6) <= routes.FALLBACK_BUDGET
        assert [event.model for event in of(events, ev.StepFinished)] == ["second/n"]
        asked = len(first.answered)
        events = await run_turn(engine, session)
        assert of(events, ev.RouteTaken)[0].model == "first/m"
        assert len(first.answered) > asked
        taken = engine.state(session).model_choices.usage
        assert set(taken) == {"chat second/n"}
        assert taken["chat second/n"].completion_tokens > 0
        await engine.close()


@pytest.mark.parametrize(
    ("refusal", "reason", "asked"),
    [
        (Step(status=404, error="The model `m` does not exist"), "done", 1),
        (Step(status=400, error="messages.3 is not allowed here"), "failed", 0),
    ],
)
async def test_a_model_that_is_not_there_gives_way_at_once_and_a_wrong_request_goes_to_no_other(
    tmp_path, waited, refusal, reason, asked
):
    async with provider_server([refusal]) as first, provider_server(["Hello."]) as second:
        engine, session = await engine_of(tmp_path, falling_back(first, second))
        events = await run_turn(engine, session)
        assert of(events, ev.TurnFinished)[0].reason == reason
        assert len(second.answered) == asked
        assert waited == []
        await engine.close()


async def test_each_fallback_is_asked_in_its_turn_and_the_last_error_ends_the_turn(tmp_path, waited):
    dead_provider = ProviderSettings(base_url="http://127.0.0.1:9/v1")
    async with provider_server([Step(status=401, error="bad key")]) as second:
        settings = Settings(
            providers={
                "first": dead_provider,
                "second": ProviderSettings(base_url=second.openai_url),
                "third": dead_provider,
            },
            routes=chat("second/n", "third/o"),
        )
        engine, session = await engine_of(tmp_path, settings)
        events = await run_turn(engine, session)
        assert [event.model for event in of(events, ev.RouteTaken)] == ["second/n", "third/o"]
        assert {event.instead_of for event in of(events, ev.RouteTaken)} == {"first/m"}
        assert of(events, ev.TurnFinished)[0].reason == "failed"
        assert "third" in of(events, ev.TurnFinished)[0].message
        await engine.close()


async def test_a_fallback_that_can_not_be_used_is_told_once_and_passed_over(tmp_path, waited):
    async with provider_server(["One.", "Two."]) as first:
        settings = Settings(providers=served((first,), "first"), routes=chat("nobody/x"))
        engine, session = await engine_of(tmp_path, settings)
        notices = of(await run_turn(engine, session) + await run_turn(engine, session), ev.Notice)
        notices += of([envelope.event async for envelope in all_of(engine, session)], ev.Notice)
        messages = {notice.message for notice in notices if "nobody/x" in notice.message}
        assert [message.startswith("The fallback model nobody/x can't be used") for message in messages] == [True]
        await engine.close()


async def test_a_mode_has_a_model_and_an_effort_of_its_own_and_switching_back_restores_the_users(tmp_path, waited):
    async with provider_server(["a", "b", "c", "d"]) as first, provider_server(["p", "q"]) as second:
        settings = Settings(
            providers=served((first, second), "first", "second"),
            routes=RouteTable(chat=RouteSettings(model="first/gpt-5.4", effort="low")),
            modes=ModeTable(plan=ModeSettings(model="second/gpt-5.4-mini", effort="high")),
        )
        engine, session = await engine_of(tmp_path, settings)
        await run_turn(engine, session)
        await engine.submit(cmd.ModeSet(session=session, mode="plan"))
        await engine.wait_idle(session)
        route = engine.state(session).model_choices.route
        assert (route.model, route.effort) == ("second/gpt-5.4-mini", "high")
        await run_turn(engine, session)
        await engine.submit(cmd.ModeSet(session=session, mode="agent"))
        await run_turn(engine, session)
        assert [request.json.get("reasoning_effort") for request in (*first.answered, *second.answered)] == [
            "low",
            "low",
            "high",
        ]
        assert set(engine.state(session).model_choices.usage) == {"chat first/gpt-5.4", "chat second/gpt-5.4-mini"}
        await engine.close()


async def test_an_effort_that_was_chosen_is_sent_and_is_there_again_after_a_restart(tmp_path, waited):
    async with provider_server(["a", "b", "c"]) as first:
        settings = Settings(providers=served((first,), "first"), routes=EFFORTFUL)
        engine, session = await engine_of(tmp_path, settings)
        await run_turn(engine, session)
        await submit(engine, cmd.EffortSet(session=session, effort="high"))
        await run_turn(engine, session)
        await engine.close()
        again = Engine(tmp_path, options=EngineOptions(watch=False))
        again._apply_settings(again._load().services, LoadedSettings(settings=settings))
        await submit(again, cmd.SessionResume(session=session))
        await run_turn(again, session)
        assert [request.json.get("reasoning_effort") for request in first.answered] == ["medium", "high", "high"]
        assert [event.effort for event in await told(again, session, ev.RouteTaken)] == ["medium", "high"]
        await again.close()


async def test_an_effort_that_the_model_does_not_have_is_the_nearest_below_and_that_is_said_once(tmp_path, waited):
    async with provider_server(["a", "b", "c"]) as first:
        settings = Settings(providers=served((first,), "first"), routes=EFFORTFUL)
        engine, session = await engine_of(tmp_path, settings)
        await submit(engine, cmd.EffortSet(session=session, effort="max"))
        await run_turn(engine, session)
        await run_turn(engine, session)
        route = engine.state(session).model_choices.route
        assert (route.effort, route.wanted) == ("xhigh", "max")
        messages = [notice.message for notice in await told(engine, session, ev.Notice) if "effort" in notice.message]
        assert len(messages) == 1
        assert "first/gpt-5.4 has no effort level max: xhigh is used; it has" in messages[0]
        await submit(engine, cmd.ModelSet(session=session, model="first/unknown-thing"))
        messages = [notice.message for notice in await told(engine, session, ev.Notice) if "effort" in notice.message]
        assert "first/unknown-thing has no known effort levels: max is not sent." in messages[1]
        await run_turn(engine, session)
        assert [request.json.get("reasoning_effort") for request in first.answered] == ["xhigh", "xhigh", None]
        await engine.close()


async def test_an_effort_chosen_in_a_mode_with_its_own_holds_for_that_mode(tmp_path, waited):
    async with provider_server(["a"] * 9) as first:
        modes = ModeTable(plan=ModeSettings(effort="high"))
        settings = Settings(providers=served((first,), "first"), routes=EFFORTFUL, modes=modes)
        engine, session = await engine_of(tmp_path, settings)
        for command in (
            cmd.EffortSet(session=session, effort="low"),
            cmd.ModeSet(session=session, mode="plan"),
            cmd.EffortSet(session=session, effort="medium"),
            cmd.ModeSet(session=session, mode="agent"),
            cmd.ModeSet(session=session, mode="plan"),
            cmd.EffortSet(session=session),
        ):
            await submit(engine, command)
        taken = [event.effort for event in await told(engine, session, ev.RouteTaken)]
        assert taken == ["low", "high", "medium", "low", "medium", "high"]
        await engine.close()


async def test_a_turn_that_runs_goes_on_as_it_began(tmp_path, waited):
    async with provider_server([Step(hang="before"), "b"]) as first:
        settings = Settings(providers=served((first,), "first"), routes=EFFORTFUL)
        engine, session = await engine_of(tmp_path, settings)
        await submit(engine, cmd.TurnSubmit(session=session, text="Do it"))
        await first.hanging.wait()
        await submit(engine, cmd.EffortSet(session=session, effort="low"))
        assert engine.state(session).model_choices.route.effort == "medium"
        await submit(engine, cmd.TurnInterrupt(session=session))
        await engine._find_session(session).turn_slot.wait_ended()
        await run_turn(engine, session)
        assert engine.state(session).model_choices.route.effort == "low"
        await engine.close()


async def test_the_table_says_who_does_what_and_what_each_took(tmp_path, waited):
    async with provider_server([BUSY] * 40) as first, provider_server(["Hi."]) as second:
        routes = RouteTable(
            chat=RouteSettings(model="first/gpt-5.4", effort="max", fallback=("second/n",)),
            small=RouteSettings(model="ollama/tiny"),
        )
        settings = Settings(
            providers=served((first, second), "first", "second"),
            routes=routes,
            modes=ModeTable(plan=ModeSettings(effort="low")),
        )
        engine, session = await engine_of(tmp_path, settings)
        await run_turn(engine, session)
        table = await engine.query(q.RoutesQuery(session=session))
        rows = {(row.job, row.mode): row for row in table.rows}
        chat = rows["chat", ""]
        assert (chat.model, chat.effort, chat.wanted, chat.fallback) == ("first/gpt-5.4", "xhigh", "max", ("second/n",))
        assert (rows["chat", "plan"].effort, rows["small", ""].model, rows["small", ""].priced) == (
            "low",
            "ollama/tiny",
            True,
        )
        assert (rows["apply", ""].own, rows["apply", ""].model, rows["embed", ""].model) == (False, "first/gpt-5.4", "")
        assert [usage.model for usage in chat.taken] == ["second/n"]
        assert table.answering == "second/n"
        await engine.close()


async def test_the_options_of_the_command_line_reach_the_model(tmp_path):
    async with provider_server(["a", "b"]) as server:
        env = environment(server)
        await run(tmp_path, "-p", "x", "--model", "openai/gpt-5.4", "--effort", "high", env=env)
        await run(tmp_path, "-p", "x", "-c", "--effort", "low", env=env)
        assert [request.json.get("reasoning_effort") for request in server.answered] == ["high", "low"]


async def test_the_table_is_printed_and_is_json_on_demand(tmp_path):
    async with provider_server([], models=["qwen-a"]) as server:
        env = environment(server)
        del env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"]
        result = await run(tmp_path, "models", env=env)
        as_json = await run(tmp_path, "models", "--output-format", "json", env=env)
    lines = result.out.splitlines()
    assert lines[0].split() == ["job", "model", "effort", "window", "price", "fallback"]
    assert lines[1].split()[:3] == ["chat", "openai/qwen-a", "default"]
    assert [row["job"] for row in json.loads(as_json.out)] == ["chat", "apply", "small", "embed", "subagent", "advisor"]


@pytest.mark.parametrize(
    ("effort", "has", "taken"),
    [
        ("high", ("low", "medium", "high"), "high"),
        ("max", ("low", "medium", "high"), "high"),
        ("none", ("low", "medium"), "low"),
        ("minimal", ("none", "low"), "none"),
        ("medium", (), ""),
        ("", ("low",), ""),
    ],
)
def test_an_effort_becomes_the_nearest_that_the_model_has(effort, has, taken):
    assert clamp_effort(effort, Capabilities(efforts=has)) == taken
