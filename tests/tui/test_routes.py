from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import OptionList

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.messages import Usage
from core.protocol.models import ModelUsage, RouteRow
from core.protocol.queries import RoutesAnswer, RoutesQuery
from tests.support import recorded
from tui.dialogs.pages import render_routes
from tui.widgets.status_bar import StatusBar

TOOK = Usage(prompt_tokens=42_000, completion_tokens=1_300, cost=0.0831)
TABLE = RoutesAnswer(
    rows=(
        RouteRow(
            job="chat",
            model="anthropic/claude-opus-5-5",
            effort="high",
            wanted="",
            efforts=("low", "medium", "high", "max"),
            fallback=("openai/gpt-6.1-sol", "ollama/qwen3:8b"),
            context_window=1_000_000,
            priced=True,
            taken=(ModelUsage(model="anthropic/claude-opus-5-5", usage=TOOK),),
        ),
        RouteRow(job="chat", mode="plan", model="anthropic/claude-opus-5-5", effort="max", priced=True),
        RouteRow(job="apply", model="anthropic/claude-opus-5-5", own=False),
        RouteRow(
            job="small",
            model="ollama/qwen3:8b",
            taken=(ModelUsage(model="ollama/qwen3:8b", usage=Usage(prompt_tokens=900, completion_tokens=50)),),
        ),
        RouteRow(job="embed"),
        RouteRow(job="subagent", model="anthropic/claude-opus-5-5", own=False),
    )
)


def status(on) -> str:
    return str(on.screen.query_one(StatusBar).render())


async def opened(on, kind: str) -> None:
    await on.until(lambda: type(on.app.screen).__name__ == kind)
    await on.pilot.pause(0.05)


async def test_an_effort_is_set_by_its_name_and_a_wrong_one_is_told(stage):
    async with stage(recorded.opening()) as on:
        for text, effort in (("/effort high", "high"), ("/effort default", "")):
            on.client.commands.clear()
            on.prompt.text = text
            on.prompt.submit()
            await on.until(lambda: on.sent(c.EffortSet))
            assert on.sent(c.EffortSet)[0].effort == effort
        on.client.commands.clear()
        on.prompt.text = "/effort huge"
        on.prompt.submit()
        await on.until(
            lambda: any("No effort level 'huge'" in notification.message for notification in on.app._notifications)
        )
        assert on.sent(c.EffortSet) == []


TIERED = RoutesAnswer(
    rows=(
        RouteRow(
            job="chat",
            model="openai/gpt-6.1-terra",
            priced=True,
            estimated=True,
            price_step=272_000,
            tiers=("fast", "flex"),
            tier_factors=(2.0, 0.5),
            retires_at="2027-04-01",
        ),
    )
)


@pytest.mark.parametrize(
    ("text", "tier", "words"),
    [
        ("/fast", "fast", "fast: 2 × the standard price"),
        ("/fast on", "fast", "fast: 2 × the standard price"),
        ("/fast off", "standard", "standard: the standard price"),
        ("/fast flex", "flex", "flex: 0.5 × the standard price"),
    ],
)
async def test_a_service_tier_is_set_and_its_price_told(stage, text, tier, words):
    async with stage(recorded.opening(), answers={RoutesQuery: TIERED}) as on:
        on.client.commands.clear()
        on.prompt.text = text
        on.prompt.submit()
        await on.until(lambda: on.sent(c.TierSet))
        assert on.sent(c.TierSet)[0].tier == tier
        await on.until(lambda: any(words in notification.message for notification in on.app._notifications))


async def test_a_service_tier_that_the_model_lacks_is_not_set(stage):
    async with stage(recorded.opening(), answers={RoutesQuery: TIERED}) as on:
        on.prompt.text = "/fast 8h"
        on.prompt.submit()
        words = "has no service tier '8h'"
        await on.until(lambda: any(words in notification.message for notification in on.app._notifications))
        assert on.sent(c.TierSet) == []


async def test_the_fast_tier_is_switched_off_again(stage):
    fast = RoutesAnswer(rows=(replace(TIERED.rows[0], tier="fast"),))
    async with stage(recorded.opening(), answers={RoutesQuery: fast}) as on:
        on.prompt.text = "/fast"
        on.prompt.submit()
        await on.until(lambda: on.sent(c.TierSet))
        assert on.sent(c.TierSet)[0].tier == "standard"


def test_the_table_says_what_a_model_costs_more_for():
    text = " ".join(render_routes(TIERED, 100).plain.split())
    assert "price of a similar model, costs more above 272.0k tokens, ends 2027-04-01" in text
    assert "service tier standard; it has fast ×2, flex ×0.5" in text


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (120_000, ["120.0k of 272.0k", "44%"]),
        (300_000, ["300.0k of 1.1M", "price step 272.0k passed", "29%"]),
    ],
)
async def test_the_status_bar_measures_the_context_by_what_costs_the_same(stage, used, words):
    taken = e.RouteTaken(model="openai/gpt-6.1-terra", context_window=1_050_000, price_step=272_000, tier="fast")
    measured = e.ContextMeasured(used=used, window=1_050_000)
    async with stage([*recorded.opening(), taken, measured], size=(200, 40)) as on:
        await on.until(lambda: words[0] in status(on))
        assert [word for word in [*words, "· fast"] if word not in status(on)] == []


async def test_an_estimated_cost_is_marked(stage):
    used = e.ModelUsed(job="chat", model="openai/gpt-6.2-sol", usage=Usage(prompt_tokens=10, cost=0.5, estimated=True))
    async with stage([*recorded.opening(), used], size=(200, 40)) as on:
        await on.until(lambda: "session ~$0.50" in status(on))
        assert "session ~$0.50" in status(on)


@pytest.mark.parametrize("keys", [["f7"], [*"/effort", "enter"]])
async def test_an_effort_is_chosen_from_a_list_that_says_what_the_model_has(stage, keys):
    async with stage(recorded.opening(), answers={RoutesQuery: TABLE}) as on:
        await on.pilot.press(*keys)
        await opened(on, "PickerDialog")
        options = on.app.screen.query_one(OptionList)
        lines = [str(option.prompt) for option in options.options]
        assert [line.rstrip() for line in lines if "●" in line] == ["● high"]
        assert [line.split()[0] for line in lines if "not supported" in line] == ["none", "minimal", "xhigh"]
        await on.pilot.press("down", "down", "enter")
        await on.until(lambda: on.sent(c.EffortSet))
        assert on.sent(c.EffortSet)[0].effort == "max"


async def test_the_status_line_shows_the_effort_and_who_answers_for_whom(stage):
    async with stage(recorded.opening()) as on:
        assert "·" not in status(on)
        await on.emit(e.RouteTaken(model="anthropic/claude-opus-5-5", effort="high"))
        assert "anthropic/claude-opus-5-5 · high" in status(on)
        await on.emit(e.RouteTaken(model="openai/gpt-6.1-sol", effort="medium", instead_of="anthropic/claude-opus-5-5"))
        assert "openai/gpt-6.1-sol · medium for anthropic/claude-opus-5-5" in status(on)
        await on.emit(e.ModelChanged(model="ollama/x"))
        assert "ollama/x" in status(on)
        assert "medium" not in status(on)


async def test_in_a_small_window_the_effort_stays_and_the_name_is_cut(stage):
    async with stage(recorded.opening(), size=(60, 16)) as on:
        await on.emit(e.RouteTaken(model="openrouter/anthropic/claude-opus-5-5-with-a-long-name", effort="xhigh"))
        assert "· xhigh" in status(on)


@pytest.mark.parametrize("keys", [["f8"], [*"/models", "enter"]])
async def test_the_page_says_who_does_what_and_what_it_cost(stage, keys):
    async with stage(recorded.opening(), answers={RoutesQuery: TABLE}) as on:
        await on.pilot.press(*keys)
        await opened(on, "PageDialog")
    text = str(render_routes(TABLE, 90))
    for phrase in (
        "chat          anthropic/claude-opus-5-5",
        "effort high, window 1.0M, price known",
        "fallbacks: openai/gpt-6.1-sol, ollama/qwen3:8b",
        "42.0k in, 1.3k out, $0.0831",
        "Plan mode     anthropic/claude-opus-5-5",
        "embed         no model yet",
        "900 in, 50 out, cost unknown",
        "This session: 44.2k tokens, $0.0831 plus unknown costs",
    ):
        assert phrase in text
    assert max(map(len, str(render_routes(TABLE, 50)).splitlines())) <= 50


async def test_what_jobs_beside_the_conversation_took_counts_in_the_status(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(e.ModelUsed(job="small", model="a/b", usage=TOOK))
        assert "$0.08" in status(on)
