from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.config.settings import ContextSettings, ModelSettings, Price, RouteSettings, RouteTable, Settings, TurnLimits
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.open_session import run_turn, submit
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step
from tests.support.routed import engine_of, of, served, told

BIG = {"prompt": 280_000, "completion": 20, "cached": 100_000}
ABOVE = "Above 272,000, each token sent to first/gpt-6.1-terra costs 2 times as much"


def settings_of(server, model: str, **changes) -> Settings:
    routes = RouteTable(chat=RouteSettings(model=f"first/{model}"))
    return replace(Settings(providers=served((server,), "first"), routes=routes), **changes)


async def test_a_request_above_a_price_step_is_told_once_with_what_it_costs(tmp_path):
    async with provider_server([Step(text="One.", usage=BIG)] * 3) as server:
        settings = settings_of(server, "gpt-6.1-terra", context=ContextSettings(compact_at=900_000))
        engine, session = await engine_of(tmp_path, settings)
        assert [notice.message for notice in of(await run_turn(engine, session), ev.Notice)] == []
        notices = of(await run_turn(engine, session), ev.Notice)
        assert [notice.message for notice in notices if ABOVE in notice.message] == [notices[0].message]
        assert "The next request has about 280," in notices[0].message
        assert "instead of $0.0" in notices[0].message
        assert of(await run_turn(engine, session), ev.Notice) == []
        assert engine.state(session).model_choices.route.price_step == 272_000
        await engine.close()


async def test_the_history_is_compacted_below_the_price_step_by_itself(tmp_path):
    before = {**BIG, "prompt": 240_000}
    steps = [Step(text="A long answer. " * 300, usage=before), Step(text="- notes"), "Two."]
    async with provider_server(steps) as server:
        engine, session = await engine_of(tmp_path, settings_of(server, "gpt-6.1-terra"))
        await run_turn(engine, session)
        events = await run_turn(engine, session)
        (compacted,) = of(events, ev.ContextCompacted)
        assert 231_200 <= compacted.before_tokens < 272_000
        assert not [notice for notice in of(events, ev.Notice) if "costs" in notice.message]
        await engine.close()


@pytest.mark.parametrize(("compact_at", "compactions"), [(0.85, 1), (600_000, 0), (100_000, 1), (0.98, 0)])
async def test_a_share_is_one_of_what_costs_the_same_and_a_number_is_a_number_of_tokens(
    tmp_path, compact_at, compactions
):
    steps = [Step(text="A long answer. " * 300, usage={**BIG, "prompt": 240_000}), Step(text="- notes"), "Two."]
    async with provider_server(steps) as server:
        context = ContextSettings(compact_at=compact_at)
        engine, session = await engine_of(tmp_path, settings_of(server, "gpt-6.1-terra", context=context))
        await run_turn(engine, session)
        assert len(of(await run_turn(engine, session), ev.ContextCompacted)) == compactions
        await engine.close()


async def test_a_model_without_a_price_is_counted_at_that_of_a_similar_one_and_goes_on(tmp_path):
    async with provider_server([Step(text="One.", usage={"prompt": 1_000, "completion": 10})] * 2) as server:
        limits = TurnLimits(max_cost=1.0)
        engine, session = await engine_of(tmp_path, settings_of(server, "gpt-6.2-sol", limits=limits))
        for _ in range(2):
            finished = of(await run_turn(engine, session), ev.TurnFinished)[0]
            assert (finished.reason, finished.usage.estimated) == ("done", True)
            assert finished.usage.cost == pytest.approx(1_000 * 2e-6 + 10 * 10e-6)
        await engine.close()


async def test_the_user_s_own_price_is_no_estimate(tmp_path):
    async with provider_server([Step(text="One.", usage={"prompt": 1_000, "completion": 10})]) as server:
        price = Price(input=1.0, output=2.0)
        own = settings_of(server, "gpt-6.2-sol", models={"first/gpt-6.2-sol": ModelSettings(price=price)})
        engine, session = await engine_of(tmp_path, own)
        finished = of(await run_turn(engine, session), ev.TurnFinished)[0]
        assert (finished.usage.cost, finished.usage.estimated) == (pytest.approx(1_000e-6 + 20e-6), False)
        await engine.close()


async def test_a_model_that_ends_within_weeks_or_is_gone_is_told_at_the_start(tmp_path):
    async with provider_server(["One."]) as server:
        engine, session = await engine_of(tmp_path, settings_of(server, "gpt-6.1-terra"))
        assert await told(engine, session, ev.Notice) == []
        for model in ("openai/o4-mini", "openai/o4-mini", "openai/gpt-6-luna"):
            await submit(engine, cmd.ModelSet(session=session, model=model))
        (notice,) = [notice for notice in await told(engine, session, ev.Notice) if "o4-mini" in notice.message]
        assert notice.message == "openai/o4-mini ended on 2026-10-23."
        assert "Its maker names openai/gpt-6.1-terra instead" in notice.hint
        await engine.close()
