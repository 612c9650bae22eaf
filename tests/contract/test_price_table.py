"""The table of prices says what the package says that it is made from, for every model and kind of call."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from genai_prices import calc_price
from genai_prices import types as listed
from genai_prices.data import providers

from core.protocol.messages import Usage
from core.providers.catalog.pricing import PRICES_FILE, compute_list_price, find_model, load_table
from tests.contract.source_tree import ROOT

USAGES = (
    Usage(prompt_tokens=0, completion_tokens=0),
    Usage(prompt_tokens=1_234, completion_tokens=77),
    Usage(prompt_tokens=40_000, completion_tokens=900, cached_tokens=31_000, cache_write_tokens=2_000),
    Usage(prompt_tokens=600_000, completion_tokens=5_000, cached_tokens=150_000, cache_write_tokens=1_000),
    Usage(prompt_tokens=10, completion_tokens=1, cached_tokens=500),
)
MOMENTS = [datetime(2026, 11, 29, hour, 30, 0, 5, tzinfo=UTC) for hour in (0, 4, 9, 17, 23)]
MOMENTS += [datetime(2024, 5, 1, tzinfo=UTC) + timedelta(days=91 * quarter) for quarter in range(16)]


def names_in(clause: Any) -> Iterator[str]:
    for part in (*getattr(clause, "or_", ()), *getattr(clause, "and_", ())):
        yield from names_in(part)
    for attribute in ("equals", "starts_with", "ends_with", "contains"):
        if text := getattr(clause, attribute, ""):
            yield from (text, text.upper(), f"{text}-2026-05-06", f"{text}-20260506", f"{text}:free")


def all_names() -> list[str]:
    """Names that the table's patterns match or nearly match, and the models of all providers."""
    table = [provider for provider in providers if provider.id in load_table()]
    names = {name for provider in table for model in provider.models for name in names_in(model.match)}
    makers = {name for provider in providers for name in names_in(provider.model_match)}
    return sorted(names | makers | {model.id for provider in providers for model in provider.models} | {"no-such", ""})


def price_by_package(name: str, provider: str, usage: Usage, moment: datetime) -> float | None:
    counts = listed.Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        price = calc_price(counts, name, provider_id=provider or None, genai_request_timestamp=moment)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


def test_the_table_is_the_one_that_the_installed_package_makes():
    render_table = runpy.run_path(str(ROOT / "docs" / "dev" / "tools" / "price_table.py"))["render_table"]
    assert PRICES_FILE.read_text(encoding="utf-8") == render_table(), "run: python docs/dev/tools/price_table.py"


@pytest.mark.parametrize("provider", ["", "openai", "anthropic"])
def test_every_model_costs_what_the_package_says(provider):
    names = all_names()
    assert len(names) > 4_000
    costs = 0
    for number, name in enumerate(names):
        usage, moment = USAGES[number % len(USAGES)], MOMENTS[number % len(MOMENTS)]
        cost = compute_list_price(name, provider, usage, moment)
        assert cost == pytest.approx(price_by_package(name, provider, usage, moment), rel=1e-12), (name, usage, moment)
        costs += cost is not None
    assert costs > 200


def test_a_price_that_depends_on_the_moment_is_the_one_of_the_moment():
    conditional = [model.id for provider in providers for model in provider.models if isinstance(model.prices, list)]
    names = [name for name in conditional if find_model(name) is not None]
    assert len(names) > 20
    for name in names:
        for moment in MOMENTS:
            assert compute_list_price(name, "", USAGES[1], moment) == price_by_package(name, "", USAGES[1], moment), (
                name
            )


def test_windows_are_those_of_the_package():
    for provider in ("openai", "anthropic"):
        for model in next(entry for entry in providers if entry.id == provider).models:
            entry = find_model(model.id, provider)
            if entry is not None:  # some are named by a pattern that their id does not match
                price = calc_price(listed.Usage(), model.id, provider_id=provider)
                assert entry.window == (price.model.context_window or 0)
