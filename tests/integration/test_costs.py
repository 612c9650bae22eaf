from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from core.agent.turn.prompt_setup import choose_cache
from core.clock import now_ms
from core.config.settings import (
    BackgroundSettings,
    ContextSettings,
    LoadedSettings,
    ModelSettings,
    Price,
    RouteSettings,
    RouteTable,
    Settings,
    TurnLimits,
)
from core.engine import Engine, EngineOptions
from core.engine.session.model_routes import derive_subagent_settings, find_tier
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.providers.catalog.capabilities import find_canonical_capabilities
from core.providers.catalog.pricing import compute_cost
from core.state.session import SessionState
from tests.integration.test_engine_provider import opened
from tests.support import wires
from tests.support.makers import makers_own
from tests.support.open_session import engine_in, run_turn, submit
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Say, Step, Think
from tests.support.routed import engine_of, of, served, told
from tests.support.story import project_at

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
        engine, session = await engine_of(tmp_path, settings_of(server, "gpt-6.1-nova", limits=limits))
        for _ in range(2):
            finished = of(await run_turn(engine, session), ev.TurnFinished)[0]
            assert (finished.reason, finished.usage.estimated) == ("done", True)
            assert finished.usage.cost == pytest.approx(1_000 * 2e-6 + 10 * 10e-6)
        await engine.close()


async def test_the_user_s_own_price_is_no_estimate(tmp_path):
    async with provider_server([Step(text="One.", usage={"prompt": 1_000, "completion": 10})]) as server:
        price = Price(input=1.0, output=2.0)
        own = settings_of(server, "gpt-6.1-nova", models={"first/gpt-6.1-nova": ModelSettings(price=price)})
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


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "mine/gpt-6.1-terra"])
async def test_an_effort_that_changes_in_a_session_only_appends_and_hits_the_cache(tmp_path, monkeypatch, model):
    project = project_at(tmp_path / "project")
    read = Call(name="read_file", arguments={"target_file": "a.txt"})
    steps = (
        Step(parts=[Think(text="Hm. " * 40), read]),
        Step(parts=[Think(text="So. " * 40), Say(text="One.")]),
        Step(parts=[Think(text="Hm. " * 40), read]),
        "Two.",
        "Three.",
        "Four.",
    )
    async with makers_own(monkeypatch, *steps, models=(model.partition("/")[2],)) as server:
        wires.configure(monkeypatch, server)
        async with engine_in(project) as engine:
            session = await opened(engine, model)
            await submit(engine, cmd.EffortSet(session=session, effort="high"))
            await run_turn(engine, session, "First")
            for effort in ("low", "low", "max"):
                await submit(engine, cmd.EffortSet(session=session, effort=effort))
                await run_turn(engine, session, f"At {effort}")
        assert server.rules.refusals == []
        assert wires.breaks(server.answered) == []
        tops = [(sent.json.get("output_config") or sent.json["reasoning"])["effort"] for sent in server.answered]
        assert tops == ["high"] * 6
        body = server.answered[-1].json
        changes = [
            item
            for item in body.get("messages", body.get("input"))
            if "effort" in item.get("output_config", item.get("reasoning", {}))
        ]
        assert len(changes) == 2
        assert all(
            cached > 0.8 * before
            for (_, cached), (before, _) in zip(wires.cached(server)[1:], wires.cached(server), strict=False)
        )


async def test_what_the_api_leaves_out_by_itself_is_told_once(tmp_path, monkeypatch):
    removed = [{"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}]
    project = project_at(tmp_path / "project")
    async with makers_own(monkeypatch, *[Step(text="x", removed=removed)] * 2, models=("gpt-6.1-terra",)) as server:
        wires.configure(monkeypatch, server)
        async with engine_in(project) as engine:
            session = await opened(engine, "mine/gpt-6.1-terra")
            notices = of([*await run_turn(engine, session), *await run_turn(engine, session)], ev.Notice)
    words = "left out 1 piece of earlier reasoning: the conversation before it has changed."
    assert [words in notice.message for notice in notices] == [True]


async def test_a_service_tier_is_sent_shown_and_paid_for(tmp_path, monkeypatch):
    project = project_at(tmp_path / "project")
    usage = {"prompt": 1_000, "completion": 10}
    async with makers_own(monkeypatch, *[Step(text="x", usage=usage)] * 3, models=("gpt-6.1-terra",)) as server:
        wires.configure(monkeypatch, server)
        async with engine_in(project) as engine:
            session = await opened(engine, "mine/gpt-6.1-terra")
            costs = []
            for tier in ("", "fast", "8h"):
                await submit(engine, cmd.TierSet(session=session, tier=tier or "standard"))
                if tier == "8h":
                    await submit(engine, cmd.TierSet(session=session, tier="flex"))
                costs.append(of(await run_turn(engine, session), ev.TurnFinished)[0].usage.cost)
            assert engine.state(session).model_choices.route.tier == "flex"
    standard = 1_000e-6 + 50e-6
    assert costs == [pytest.approx(standard), pytest.approx(2 * standard), pytest.approx(standard / 2)]
    assert [sent.json.get("service_tier") for sent in server.answered] == [None, "fast", "flex"]


async def test_a_tier_that_a_model_does_not_have_is_told_and_not_sent(tmp_path, monkeypatch):
    project = project_at(tmp_path / "project")
    async with makers_own(monkeypatch, "x", models=("gpt-6.2-sol",)) as server:
        wires.configure(monkeypatch, server)
        async with engine_in(project) as engine:
            session = await opened(engine, "mine/gpt-6.2-sol")
            await submit(engine, cmd.TierSet(session=session, tier="flex"))
            await run_turn(engine, session)
            messages = [notice.message for notice in await told(engine, session, ev.Notice)]
    assert "mine/gpt-6.2-sol has no service tier flex: the standard one is used; it has fast, 2h, 8h." in messages
    assert "service_tier" not in server.answered[0].json


@pytest.mark.parametrize(
    ("pauses", "choice"),
    [
        ((), "prefix"),
        ((30, 60), "prefix"),
        ((30, 600), "all"),
        ((600, 30, 30, 30), "all"),
        ((600, 30, 30, 30, 30), "prefix"),
        ((7_200,), "prefix"),
    ],
)
def test_a_cache_is_kept_for_long_where_the_latest_pauses_were_longer_than_it_lives(pauses, choice):
    turns, at = [], 1_000_000
    for number, pause in enumerate((0, *pauses)):
        at += pause * 1_000
        turns.append(SimpleNamespace(started=at, duration_ms=5_000, reason="done" if number < len(pauses) else ""))
        at += 5_000
    terms = find_canonical_capabilities("claude-sonnet-5-5").cache
    route = SimpleNamespace(capabilities=SimpleNamespace(cache=terms))
    context = SimpleNamespace(
        routes=SimpleNamespace(current=route),
        state=SimpleNamespace(turns=turns),
        user=SimpleNamespace(is_interactive=True),
        is_private=False,
    )
    assert choose_cache(context) == choice
    context.is_private = True
    assert choose_cache(context) == ""


async def test_a_background_agent_has_a_tier_of_its_own(tmp_path):
    settings = Settings(background=BackgroundSettings(tier="8h"))
    for is_background, tier in ((False, ""), (True, "8h")):
        engine = Engine(
            tmp_path, options=EngineOptions(model="openai/gpt-6.2-sol", watch=False, is_background=is_background)
        )
        engine._apply_settings(engine._load().services, LoadedSettings(settings=settings))
        opened_session = await engine.submit(cmd.SessionOpen())
        assert engine.state(opened_session.session).model_choices.tier == tier
        await engine.close()


async def test_a_subagent_and_a_side_job_have_the_tier_of_their_route_or_of_the_conversation():
    state = SessionState()
    state.model_choices.tier = "fast"
    settings = Settings()
    assert derive_subagent_settings(state, settings).resolve_route("chat").tier == "fast"
    own = Settings(routes=RouteTable(subagent=RouteSettings(tier="flex")))
    assert derive_subagent_settings(state, own).resolve_route("chat").tier == "flex"
    sol = find_canonical_capabilities("gpt-6.1-sol")
    assert [find_tier(tier, sol) for tier in ("", "standard", "fast", "flex")] == ["", "", "fast", "flex"]
    assert find_tier("flex", find_canonical_capabilities("gpt-6.2-sol")) == ""


@pytest.mark.parametrize(("is_wanted", "away", "warmed"), [(True, 600, 1), (True, 0, 0), (False, 600, 0)])
async def test_a_resumed_conversation_is_read_into_the_cache_before_the_first_prompt(
    tmp_path, monkeypatch, is_wanted, away, warmed
):
    project = project_at(tmp_path / "project")
    more = "[context]\nprewarm = true\n" if is_wanted else ""
    async with makers_own(monkeypatch, *["One."] * 3, models=("claude-sonnet-5-5",)) as server:
        wires.configure(monkeypatch, server, more)
        async with engine_in(project) as engine:
            session = await opened(engine, "anthropic/claude-sonnet-5-5")
            await run_turn(engine, session)
        monkeypatch.setattr("core.agent.turn.prompt_setup.now_ms", lambda: now_ms() + away * 1_000)
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            await engine._find_session(session).warm_up
            await run_turn(engine, session)
        assert server.rules.refusals == []
        assert [sent.json["max_tokens"] == 0 for sent in server.answered].count(True) == warmed
        assert wires.breaks([sent for sent in server.answered if sent.json["max_tokens"]]) == []
        if warmed:
            (_, _), (warm, _), (_, cached) = wires.cached(server)
            assert cached >= warm - 1


async def test_the_cache_is_filled_again_when_the_user_is_back_after_an_absence(tmp_path, monkeypatch):
    project = project_at(tmp_path / "project")
    clock = {"away": 0}
    monkeypatch.setattr("core.agent.turn.prompt_setup.now_ms", lambda: now_ms() + clock["away"] * 1_000)
    monkeypatch.setattr("core.engine.turns.lifecycle.now_ms", lambda: now_ms() + clock["away"] * 1_000)
    async with makers_own(monkeypatch, *["One."] * 3, models=("claude-sonnet-5-5",)) as server:
        wires.configure(monkeypatch, server, "[context]\nprewarm = true\n")
        async with engine_in(project) as engine:
            session = await opened(engine, "anthropic/claude-sonnet-5-5")
            await submit(engine, cmd.ContextWarm(session=session))  # There is nothing yet.
            await run_turn(engine, session)
            for away in (60, 600, 660):
                clock["away"] = away
                await submit(engine, cmd.ContextWarm(session=session))
            await run_turn(engine, session)
        assert server.rules.refusals == []
        assert [sent.json["max_tokens"] == 0 for sent in server.answered] == [False, True, False]


@pytest.mark.parametrize("away", [0, 60 * 60 * 30])
async def test_a_resumed_session_tells_a_price_step_by_the_count_of_its_log_and_a_cold_cache(
    tmp_path, monkeypatch, away
):
    project = project_at(tmp_path / "project")
    text = "word " * 178_000  # 2.6 characters a token: an estimate would be far below the step
    usage = {"prompt": 271_000, "completion": 20}
    monkeypatch.setattr("core.agent.turn.prompt_setup.now_ms", lambda: now_ms() + away * 1_000)
    async with makers_own(monkeypatch, *[Step(text="x", usage=usage)] * 2, models=("gpt-6.1-terra",)) as server:
        wires.configure(monkeypatch, server, "[context]\ncompact_at = 900000\n")
        async with engine_in(project) as engine:
            session = await opened(engine, "mine/gpt-6.1-terra")
            first = of(await run_turn(engine, session, text), ev.Notice)
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            second = of(await run_turn(engine, session, "more " * 2_000), ev.Notice)
    assert not any("times as much" in notice.message for notice in first)
    [told] = [notice.message for notice in second if "times as much" in notice.message]
    full = compute_cost("openai/gpt-6.1-terra", Usage(prompt_tokens=275_000))
    dollars = float(told.partition("about $")[2].split()[0])
    assert (dollars < full * 0.3) == (away == 0), (dollars, full)
