from __future__ import annotations

import subprocess
import sys

import pytest

from core.protocol.messages import Usage
from core.providers.catalog import capabilities


def test_cached_and_written_tokens_have_prices_of_their_own():
    whole = capabilities.compute_cost("anthropic/claude-sonnet-4-5", Usage(prompt_tokens=10_000, completion_tokens=100))
    assert whole == pytest.approx(10_000 * 3e-6 + 100 * 15e-6)
    cached = Usage(prompt_tokens=10_000, completion_tokens=100, cached_tokens=8_000, cache_write_tokens=1_000)
    expected = 1_000 * 3e-6 + 8_000 * 0.3e-6 + 1_000 * 3.75e-6 + 100 * 15e-6
    assert capabilities.compute_cost("anthropic/claude-sonnet-4-5", cached) == pytest.approx(expected)


def test_a_model_on_this_machine_costs_nothing_and_an_unknown_one_has_no_price():
    usage = Usage(prompt_tokens=10, completion_tokens=1)
    assert capabilities.compute_cost("ollama/qwen3:8b", usage) == 0.0
    assert capabilities.compute_cost("scripted/demo.yaml", usage) == 0.0
    assert capabilities.compute_cost("openai/no-such-model-9", usage) is None
    assert capabilities.compute_cost("router/no-such-model-9", usage) is None
    impossible = Usage(prompt_tokens=1, cached_tokens=500)
    assert capabilities.compute_cost("anthropic/claude-sonnet-4-5", impossible) is None


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
        "import sys; from core.providers.catalog import capabilities\n"
        f"print([capabilities.find_context_window(model) for model in {[*WINDOWS]}], 'genai_prices' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{list(WINDOWS.values())} False"
