"""The routes of a turn, and what is reported of them."""

from __future__ import annotations

from typing import Any

import pytest

from core.agent.base.routes import Route, TurnRoutes
from core.errors import ProviderError
from core.protocol.events import Notice, RouteTaken
from core.providers.catalog.capabilities import PriceStep


class Silent:
    """A provider that is asked nothing."""

    name = "silent"


def build_route(model: str, **fields: Any) -> Route:
    return Route(provider=Silent(), model=model, id=f"own/{model}", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("falls_back", [False, True])
def test_a_window_that_was_learned_changes_nothing_else_of_the_route(falls_back):
    terms: dict[str, Any] = {"effort": "low", "tier": "flex", "price_step": PriceStep(tokens=1_000, factor=2.0)}
    first, second = build_route("one", window=9_000, **terms), build_route("two", window=8_000, **terms)
    routes, events = TurnRoutes(current=first, chain=(first, second)), []
    if falls_back:
        routes.fall_back(second, ProviderError("Busy."), events.append)
    name, replaced = ("two", "own/one") if falls_back else ("one", "")
    routes.learn_window(4_096, events.append)
    taken, notice = events[-2:]
    assert taken == RouteTaken(
        model=f"own/{name}",
        effort="low",
        context_window=4_096,
        price_step=1_000,
        tier="flex",
        instead_of=replaced,
    )
    assert isinstance(notice, Notice)
    assert "4,096" in notice.message
    assert [route.window for route in routes.chain] == [9_000 if falls_back else 4_096, 4_096 if falls_back else 8_000]
    assert (routes.current.window, routes.find_next() is None) == (4_096, falls_back)
