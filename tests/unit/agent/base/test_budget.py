from __future__ import annotations

import msgspec
import pytest

from core.agent.base.budget import LimitReached, TurnBudget
from core.config.settings import Price, Settings, TurnLimits
from core.protocol import events as ev
from core.protocol.messages import Usage
from tests.support.agent_case import Case, calls, says

USED = Usage(prompt_tokens=1_000, completion_tokens=100)


def looking(count: int) -> list:
    return [calls(("list_dir", {})) for _ in range(count)]


async def test_a_model_without_a_price_makes_one_step_under_a_limit_of_cost(tmp_path):
    case = Case(tmp_path, *looking(5), settings=Settings(limits=TurnLimits(max_cost=0.5)))
    finished = await case.turn()
    assert (finished.reason, finished.steps, len(case.model.requests)) == ("limit", 1, 1)
    assert "the price of directed/m is unknown" in finished.message
    assert '[models."directed/m"] price = { input = 1.0, output = 5.0 }' in finished.message


async def test_an_answer_in_one_step_needs_no_price(tmp_path):
    case = Case(tmp_path, says("Hello"), settings=Settings(limits=TurnLimits(max_cost=0.5)))
    assert (await case.turn()).reason == "done"


async def test_a_model_that_costs_nothing_goes_on_whatever_its_server_tells(tmp_path):
    silent = looking(2)
    for step in silent:
        del step[-2]  # the report of its tokens
    case = Case(tmp_path, *silent, says("Done"), settings=Settings(limits=TurnLimits(max_cost=0.5)))
    case.session.routes.price = lambda _model, _usage: 0.0
    assert (await case.turn()).reason == "done"


async def test_a_paid_model_that_tells_no_tokens_can_not_be_limited_by_cost(tmp_path):
    silent = looking(3)
    for step in silent:
        del step[-2]
    case = Case(tmp_path, *silent, settings=Settings(limits=TurnLimits(max_cost=0.5)))
    case.session.routes.price = lambda _model, usage: usage.prompt_tokens / 1e6
    assert (await case.turn()).reason == "limit"
    assert len(case.model.requests) == 1


async def test_a_limit_that_is_changed_while_the_turn_runs_holds_at_once(tmp_path):
    case = Case(tmp_path, *looking(9), settings=Settings(limits=TurnLimits(max_steps=2)))

    def widen(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.StepStarted) and event.step == 2:
            case.session.use_settings(Settings(limits=TurnLimits(max_steps=4)))

    case.on_event = widen
    assert (await case.turn()).steps == 4


def test_what_a_part_of_a_turn_can_not_price_stops_the_whole():
    whole = TurnBudget(lambda: TurnLimits(max_cost=1.0))
    TurnBudget(TurnLimits, whole).add(USED, "x/y")
    with pytest.raises(LimitReached, match="the price of x/y"):
        whole.check()


def test_an_attempt_that_took_nothing_needs_no_price():
    spent = TurnBudget(lambda: TurnLimits(max_cost=1.0))
    spent.add(Usage())
    spent.check()


@pytest.mark.parametrize(("cached", "cost"), [(None, 0.0045), (0.1, 0.00414)])
def test_a_configured_price_counts_cached_tokens_by_themselves(cached, cost):
    price = Price(input=1.0, output=35.0, cached=cached)
    used = msgspec.structs.replace(USED, cached_tokens=400)
    assert price.compute_cost(used) == pytest.approx(cost)


async def test_a_limit_of_one_step_is_reported_in_the_singular(tmp_path):
    case = Case(tmp_path, *looking(2), settings=Settings(limits=TurnLimits(max_steps=1)))
    assert "Stopped after 1 step (max_steps)." in (await case.turn()).message
