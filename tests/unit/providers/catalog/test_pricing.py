from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from core.protocol.messages import Usage
from core.providers.catalog import pricing
from core.providers.catalog.capabilities import load_catalogue


def test_cached_and_written_tokens_have_prices_of_their_own():
    whole = pricing.compute_cost("anthropic/claude-sonnet-4-5", Usage(prompt_tokens=10_000, completion_tokens=100))
    assert whole == pytest.approx(10_000 * 3e-6 + 100 * 15e-6)
    cached = Usage(prompt_tokens=10_000, completion_tokens=100, cached_tokens=8_000, cache_write_tokens=1_000)
    expected = 1_000 * 3e-6 + 8_000 * 0.3e-6 + 1_000 * 3.75e-6 + 100 * 15e-6
    assert pricing.compute_cost("anthropic/claude-sonnet-4-5", cached) == pytest.approx(expected)


def test_a_model_on_this_machine_costs_nothing_and_an_unknown_one_has_no_price():
    usage = Usage(prompt_tokens=10, completion_tokens=1)
    assert pricing.compute_cost("ollama/qwen3:8b", usage) == 0.0
    assert pricing.compute_cost("scripted/demo.yaml", usage) == 0.0
    assert pricing.compute_cost("openai/no-such-model-9", usage) is None
    assert pricing.compute_cost("router/no-such-model-9", usage) is None
    impossible = Usage(prompt_tokens=1, cached_tokens=500)
    assert pricing.compute_cost("anthropic/claude-sonnet-4-5", impossible) is None


WINDOWS = {
    "anthropic/claude-sonnet-4-5-20250929": 200_000,
    "anthropic/claude-3-5-sonnet-latest": 200_000,
    "anthropic/claude-opus-4-6": 1_000_000,
    "anthropic/claude-sonnet-5": 1_000_000,
    "openai/gpt-4o-mini": 128_000,
    "openai/gpt-4.1": 1_000_000,
    "openai/gpt-5-mini": 400_000,
    "openai/gpt-4": 8_192,
    "ollama/gpt-4": 0,
    "openai/no-such-model": 0,
}


def test_windows_are_known_at_once_from_files_of_ours():
    code = (
        "import sys; from core.providers.catalog import pricing\n"
        f"print([pricing.find_context_window(model) for model in {[*WINDOWS]}], 'genai_prices' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{list(WINDOWS.values())} False"


@pytest.mark.parametrize(
    ("model", "tokens", "factor"),
    [
        ("openai/gpt-6.1-terra", 272_000, 2),
        ("openai/gpt-6.2-sol", 272_000, 2),
        ("openai/gpt-5.4-mini", 0, 1),
        ("anthropic/claude-haiku-5-5", 100_000, 5),
        ("anthropic/claude-opus-5-5", 0, 1),
        ("gemini/gemini-2.5-pro", 200_000, 2),
        ("ollama/gpt-oss:20b", 0, 1),
        ("work/mystery-1", 0, 1),
    ],
)
def test_above_its_price_step_a_prompt_pays_more_for_all_of_its_tokens(model, tokens, factor):
    step = pricing.find_price_step(model)
    assert (step.tokens, step.factor) == (tokens, factor)
    if tokens:
        below, above = (pricing.compute_cost(model, Usage(prompt_tokens=size)) for size in (tokens, tokens + 1))
        assert above == pytest.approx(below * factor, rel=1e-4)


def test_a_model_without_a_price_costs_what_a_similar_one_does_and_that_is_an_estimate():
    usage = Usage(prompt_tokens=10_000, completion_tokens=500)
    assert pricing.is_estimated("openai/gpt-6.1-nova")
    assert pricing.compute_cost("openai/gpt-6.1-nova", usage) == pricing.compute_cost("openai/gpt-6.1-sol", usage)
    assert not pricing.is_estimated("openai/gpt-6.1-sol")
    assert not pricing.is_estimated("ollama/qwen3:8b")
    assert pricing.compute_cost("work/mystery-1", usage) is None


@pytest.mark.parametrize(
    ("model", "tier", "factor"),
    [
        ("openai/gpt-6.1-terra", "fast", 2),
        ("openai/gpt-6.1-terra", "flex", 0.5),
        ("openai/gpt-6.2-sol", "8h", 0.6),
        ("openai/gpt-5.5", "fast", 2.5),
        ("anthropic/claude-opus-5-5", "fast", 2),
        ("anthropic/claude-opus-5-5", "flex", 1),
    ],
)
def test_a_service_tier_multiplies_the_price(model, tier, factor):
    usage = Usage(prompt_tokens=10_000, completion_tokens=500, cached_tokens=9_000)
    standard = pricing.compute_cost(model, usage)
    assert pricing.compute_cost(model, replace(usage, tier=tier)) == pytest.approx(standard * factor)


@pytest.mark.parametrize(
    ("model", "long_write", "write"),
    [("anthropic/claude-opus-5-5", 8.0, 5.0), ("openai/gpt-6.1-terra", 2.5, 1.25)],  # as the makers' pages have them
)
def test_what_is_cached_for_long_costs_more_to_write(model, long_write, write):
    usage = Usage(prompt_tokens=1_000, cache_write_tokens=1_000)
    assert pricing.compute_cost(model, usage) == pytest.approx(write / 1_000)
    long = replace(usage, long_cache_tokens=1_000)
    assert pricing.compute_cost(model, long) == pytest.approx(long_write / 1_000)


def test_every_price_that_stands_for_another_is_in_the_list():
    families = [family.capabilities for family in load_catalogue().models]
    stand_ins = {capabilities.price_like for capabilities in families if capabilities.price_like}
    assert "gpt-6.1-sol" in stand_ins
    assert {name for name in stand_ins if pricing.find_model(name) is None} == set()


def test_a_model_that_the_list_lacks_has_the_price_of_its_maker_and_no_estimate():
    for tokens, dollars in ((1_000, 8.0), (272_000, 8.0), (272_001, 16.0)):
        cost = pricing.compute_cost("openai/gpt-6.2-astra", Usage(prompt_tokens=tokens))
        assert cost == pytest.approx(dollars * tokens / 1e6)
    answer = Usage(prompt_tokens=300_000, cached_tokens=300_000, completion_tokens=1_000)
    assert pricing.compute_cost("openai/gpt-6.2-astra", answer) == pytest.approx(0.8 * 0.3 + 60 * 0.001)
    assert pricing.find_price_step("openai/gpt-6.2-sol").tokens == 272_000
    assert pricing.compute_cost("gemini/gemini-4-neon", Usage(completion_tokens=1_000)) == pytest.approx(0.015)
    assert not pricing.is_estimated("openai/gpt-6.2-astra")
    assert pricing.is_estimated("openai/gpt-7-nova")
