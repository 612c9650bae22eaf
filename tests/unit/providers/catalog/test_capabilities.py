from __future__ import annotations

import tomllib
import typing
from datetime import date

import pytest
from anthropic.types.model_param import ModelParam
from openai.types.shared.chat_model import ChatModel

from core.config.settings import Settings
from core.providers.catalog.capabilities import (
    FILE,
    Capabilities,
    Effort,
    find_canonical_capabilities,
    find_capabilities,
    is_chat_model,
    load_catalogue,
)
from core.providers.catalog.presets import KNOWN
from core.providers.registry import resolve_capabilities

EFFORTS = list(typing.get_args(Effort))
CLAUDES = typing.get_args(typing.get_args(ModelParam)[0])
GPTS = [name for name in typing.get_args(ChatModel) if is_chat_model(name)]


def claude(name):
    return find_capabilities("anthropic", name, wire="messages")


def gpt(name):
    return find_capabilities("openai", name, wire="responses")


@pytest.mark.parametrize(
    ("names", "thinking", "efforts", "default", "sampling"),
    [
        (
            "claude-sonnet-4-5 claude-opus-4-1 claude-3-7-sonnet-latest claude-sonnet-4-20250514 claude-haiku-4-5",
            "enabled disabled",
            "none low medium high",
            "none",
            True,
        ),
        ("claude-opus-4-6 claude-sonnet-4-6", "adaptive enabled disabled", "none low medium high max", "high", True),
        (
            "claude-opus-4-7 claude-opus-4-8 claude-sonnet-5 claude-opus-5",
            "adaptive disabled",
            "none low medium high xhigh max",
            "high",
            False,
        ),
        ("claude-opus-5-5", "adaptive", "low medium high xhigh max", "medium", False),
        ("claude-fable-5-2 claude-mythos-5-2", "adaptive", "low medium high xhigh max", "high", False),
        ("claude-sonnet-5-5", "adaptive between_tools", "none low medium high xhigh max", "high", False),
        ("claude-haiku-5-5", "adaptive disabled", "none low medium high xhigh max", "medium", False),
        ("claude-opus-9 claude-next", "adaptive", "low medium high xhigh max", "", False),
        ("claude-3-5-haiku-latest", "", "", "", True),
    ],
)
def test_each_generation_of_claude_thinks_in_its_own_way(names, thinking, efforts, default, sampling):
    for name in names.split():
        capabilities = claude(name)
        assert (" ".join(capabilities.thinking), " ".join(capabilities.efforts)) == (thinking, efforts), name
        assert (capabilities.default_effort, capabilities.sampling, capabilities.wire) == (
            default,
            sampling,
            "messages",
        ), name


@pytest.mark.parametrize(
    ("names", "wire", "efforts", "freeform"),
    [
        ("gpt-6-astra gpt-6.1-sol gpt-6.2-sol gpt-5.6-cyber", "responses", "low medium high xhigh max", True),
        ("gpt-6-sol gpt-6-luna gpt-6.1-terra gpt-5.6-terra", "responses", "none low medium high xhigh max", True),
        ("gpt-5.4 gpt-5.5 gpt-5.2", "responses", "none low medium high xhigh", True),
        ("gpt-5-mini gpt-5-2025-08-07", "responses", "minimal low medium high", True),
        ("gpt-7 gpt-10-nova", "responses", "low medium high xhigh max", True),
        ("o3 o4-mini o1-2024-12-17", "responses", "low medium high", False),
        ("gpt-4.1 gpt-4o-mini gpt-3.5-turbo gpt-5-chat-latest", "chat", "", False),
    ],
)
def test_openai_s_own_host_speaks_responses_with_the_models_that_think(names, wire, efforts, freeform):
    for name in names.split():
        capabilities = gpt(name)
        assert (capabilities.wire, " ".join(capabilities.efforts), capabilities.freeform_tools) == (
            wire,
            efforts,
            freeform,
        ), name
        assert capabilities.sampling is (wire == "chat"), name


@pytest.mark.parametrize("name", [*CLAUDES, *GPTS])
def test_every_model_that_the_sdks_name_is_known(name):
    capabilities = find_canonical_capabilities(name)
    assert (capabilities.wire == "messages") is name.startswith("claude")
    assert capabilities.context_window
    assert capabilities.edits
    assert list(capabilities.efforts) == sorted(capabilities.efforts, key=EFFORTS.index)
    assert not capabilities.default_effort or capabilities.default_effort in capabilities.efforts


def test_another_host_has_the_model_but_not_what_only_its_maker_s_api_has():
    routed = find_capabilities("openrouter", "anthropic/claude-opus-5.5", wire="chat")
    assert (routed.wire, routed.thinking, routed.pdf) == ("chat", (), False)
    assert (routed.efforts, routed.context_window) == (claude("claude-opus-5-5").efforts, 1_000_000)
    assert not find_capabilities("azure", "gpt-6-sol", wire="chat").freeform_tools
    other = find_capabilities("deepseek", "deepseek-chat", wire="messages")
    assert (other.wire, other.thinking, other.efforts, other.sampling) == ("messages", (), (), True)


@pytest.mark.parametrize(
    ("name", "images"),
    [
        ("deepseek-chat", False),
        ("qwen2.5-coder:7b", False),
        ("qwen2.5vl:7b", True),
        ("qwen3-vl-235b", True),
        ("gpt-oss:20b", False),
        ("gemini-3.8-flash", True),
        ("mistral-large-2512", True),
        ("meta-llama/llama-4-maverick", True),
        ("llama3.2:3b", False),
        ("kimi-k2-instruct", False),
        ("kimi-k3", True),
        ("never-heard-of", True),
    ],
)
def test_who_sees_pictures(name, images):
    assert find_capabilities("somewhere", name, wire="chat").images is images


def test_a_server_on_this_machine_chooses_its_own_window():
    assert find_capabilities("ollama", "gpt-oss:20b", wire="chat").context_window == 0
    assert find_capabilities("groq", "openai/gpt-oss-20b", wire="chat").context_window == 131_072


def test_a_model_of_nobody_has_what_its_wire_has():
    assert find_capabilities("work", "mystery-1", wire="chat") == Capabilities(wire="chat")
    assert resolve_capabilities("scripted/demo.yaml", Settings()) == Capabilities()
    assert resolve_capabilities("no-provider/x", Settings()) == Capabilities()
    assert resolve_capabilities("anthropic/claude-opus-5-5", Settings()) == claude("claude-opus-5-5")
    assert resolve_capabilities("openai/gpt-6-sol", Settings()) == gpt("gpt-6-sol")


@pytest.mark.parametrize("name", ["text-embedding-3-large", "whisper-1", "gpt-realtime-2", "gpt-image-2"])
def test_what_is_no_chat_model_is_told_from_one(name):
    assert not is_chat_model(name)
    assert is_chat_model("gpt-6-sol")
    assert is_chat_model("anthropic/claude-opus-5")


def test_the_file_says_nothing_twice():
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    patterns = [pattern for family in data["family"] for pattern in family["names"]]
    assert len(patterns) == len(set(patterns))
    assert all(family.get("models", [{"names": ["*"]}])[-1]["names"] for family in data["family"])


# The values of the makers' own pages and, where none is at hand, of pi-ai 1.6.0 (see the head of models.toml).
OTHERS = {
    "gpt-5.3-codex-spark": ("low medium high xhigh", 128_000, 32_000, True),
    "gpt-5.5-pro": ("medium high xhigh", 1_050_000, 128_000, True),
    "gemini-4-neon": ("low medium high xhigh", 1_000_000, 65_536, True),
    "gemini-4-argon": ("low medium high", 1_000_000, 32_768, True),
    "gemini-3.6-flash": ("minimal low medium high", 1_000_000, 65_536, True),
    "grok-4.3": ("none low medium high", 1_000_000, 0, True),
    "grok-4.7": ("low medium high xhigh", 500_000, 0, True),
    "kimi-k3.1-pro": ("low high max", 1_048_576, 1_048_576, True),
    "deepseek-v4-pro": ("high max", 1_000_000, 384_000, False),
    "deepseek-v4.1-flash": ("low high max", 1_000_000, 384_000, True),
    "deepseek-flash": ("low high max", 1_000_000, 384_000, True),
    "glm-5.2": ("none high max", 1_000_000, 131_072, False),
    "zai-org/GLM-5.3": ("low high max", 1_000_000, 131_072, False),
    "glm-5.3-flash": ("low high max", 1_000_000, 131_072, True),
    "glm-4.5v": ("", 131_072, 0, True),
    "MiniMax-M3": ("", 1_000_000, 524_288, True),
    "MiniMax-M3.1-Flash": ("low medium high xhigh max", 1_000_000, 524_288, True),
    "mistral-large-4": ("low medium high", 1_048_576, 262_144, True),
    "mistral-medium-latest": ("none high", 262_144, 0, True),
    "qwen4-max": ("low medium xhigh", 1_000_000, 131_072, True),
    "muse-spark-1.3": ("minimal low medium high xhigh max", 1_048_576, 131_072, True),
    "mimo-v2.6-pro": ("", 1_048_576, 131_072, True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_efforts_windows_and_pictures_are_those_of_the_makers(name):
    capabilities = find_canonical_capabilities(name)
    known = " ".join(capabilities.efforts), capabilities.context_window, capabilities.max_output, capabilities.images
    assert known == OTHERS[name]


def test_no_model_that_is_suggested_ends_within_a_quarter():
    today, suggested = (
        date.today(),
        [(provider, name) for provider, preset in KNOWN.items() for name in preset.suggested],
    )
    assert suggested
    ends = {name: find_canonical_capabilities(name).retires_at for _, name in suggested}
    assert {name: day for name, day in ends.items() if day and (date.fromisoformat(day) - today).days < 90} == {}


def test_a_model_that_ends_has_a_day_and_a_successor_that_does_not():
    ending = [family.capabilities for family in load_catalogue().models if family.capabilities.retires_at]
    assert {find_canonical_capabilities(name).retires_at for name in ("gpt-5", "gpt-5-mini", "gpt-5-nano", "o3")} == {
        "2026-12-11"
    }
    for capabilities in ending:
        assert date.fromisoformat(capabilities.retires_at)
        assert not find_canonical_capabilities(capabilities.successor).retires_at


def test_a_model_that_does_not_think_by_itself_is_asked_to_in_a_conversation():
    families = [family.capabilities for family in load_catalogue().models]
    silent = [capabilities for capabilities in families if capabilities.default_effort == "none"]
    assert silent
    assert all(capabilities.chat_effort in set(capabilities.efforts) - {"none"} for capabilities in silent)
    assert all(capabilities.default_effort == "none" for capabilities in families if capabilities.chat_effort)


def test_only_the_maker_s_own_api_has_tiers_and_terms_of_its_cache():
    routed = find_capabilities("openrouter", "anthropic/claude-opus-5.5", wire="chat")
    assert (routed.tiers.names, routed.cache.long, routed.changes_effort, routed.compacts) == ((), 0, False, False)
    own = claude("claude-opus-5-5")
    assert (own.tiers.names, own.cache.long, own.changes_effort, own.compacts) == (("fast",), 3600, True, True)
