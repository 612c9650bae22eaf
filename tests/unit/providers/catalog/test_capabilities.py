from __future__ import annotations

import tomllib
import typing

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
)
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
        ("gpt-6-astra gpt-6.1-sol gpt-6.2-sol gpt-6.1-terra", "responses", "low medium high xhigh max", True),
        ("gpt-6-sol gpt-6-luna gpt-5.6-terra", "responses", "none low medium high xhigh max", True),
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
