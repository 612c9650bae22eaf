"""What models endpoints tell, in the shapes of those that tell something."""

from __future__ import annotations

import pytest

from core.providers.catalog import reported as told
from core.providers.catalog.capabilities import find_capabilities, merge_reported
from core.providers.catalog.reported import ReportedCapabilities, parse_reported
from core.user_dirs import get_cache_dir
from tests.support.model_server.catalog import listed

ORIGIN = "https://api.example/v1"
CLAUDES = (
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-sonnet-4-6",
    "claude-opus-4-5",
    "claude-sonnet-4-5",
)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    monkeypatch.setattr(told, "_cache", {})


@pytest.mark.parametrize("name", CLAUDES)
def test_what_anthropic_tells_agrees_with_the_data_file(name):
    known = find_capabilities("anthropic", name, wire="messages")
    capabilities = merge_reported(known, parse_reported(listed(name)))
    assert set(capabilities.thinking) == set(known.thinking)
    assert capabilities.thinking[0] == known.thinking[0]
    assert (capabilities.efforts, capabilities.default_effort) == (known.efforts, known.default_effort)
    assert (capabilities.images, capabilities.pdf, capabilities.sampling, capabilities.edits) == (
        True,
        True,
        known.sampling,
        "str_replace",
    )
    assert capabilities.context_window
    assert capabilities.max_output


def test_a_model_that_the_data_file_does_not_know_is_as_its_endpoint_tells():
    entry = {**listed("claude-sonnet-5-5"), "id": "claude-new-7", "max_tokens": 256_000}
    entry["capabilities"] = {**entry["capabilities"], "pdf_input": {"supported": False}}
    capabilities = merge_reported(
        find_capabilities("anthropic", "claude-new-7", wire="messages"), parse_reported(entry)
    )
    assert capabilities.thinking == ("adaptive", "between_tools")
    assert capabilities.efforts[0] == "none"
    assert (capabilities.pdf, capabilities.max_output) == (False, 256_000)


ROUTED = {
    "id": "maker/model-1",
    "context_length": 163_840,
    "architecture": {"input_modalities": ["text", "image", "file"]},
    "supported_parameters": ["tools", "temperature", "reasoning"],
    "top_provider": {"max_completion_tokens": 65_536},
}


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (
            ROUTED,
            ReportedCapabilities(
                efforts=("low", "medium", "high"),
                sampling=True,
                images=True,
                pdf=True,
                tools=True,
                context_window=163_840,
                max_output=65_536,
            ),
        ),
        (
            {"id": "m", "architecture": {"input_modalities": ["text"]}, "supported_parameters": ["max_tokens"]},
            ReportedCapabilities(efforts=(), sampling=False, images=False, pdf=False, tools=False),
        ),
        (
            {"id": "m", "capabilities": {"vision": False, "function_calling": True}, "max_context_length": 262_144},
            ReportedCapabilities(images=False, tools=True, context_window=262_144),
        ),
        ({"id": "m", "capabilities": ["completion", "vision"]}, ReportedCapabilities(images=True, tools=False)),
        ({"id": "m", "max_model_len": 8_192}, ReportedCapabilities(context_window=8_192)),
        ({"id": "m", "meta": {"n_ctx": 4_096}}, ReportedCapabilities(context_window=4_096)),
        (
            {"id": "m", "context_window": 99, "max_completion_tokens": 9},
            ReportedCapabilities(context_window=99, max_output=9),
        ),
        (
            {"id": "m", "max_tokens": 7, "capabilities": "?", "architecture": [], "context_length": "8k"},
            ReportedCapabilities(),
        ),
        ({"id": "m", "object": "model"}, ReportedCapabilities()),
    ],
)  # fmt: skip
def test_each_endpoint_tells_in_its_own_words(entry, wanted):
    assert parse_reported(entry) == wanted


def test_efforts_that_are_known_are_kept_when_it_is_only_told_that_there_are_some():
    known = find_capabilities("openrouter", "openai/gpt-6-sol", wire="chat")
    assert merge_reported(known, parse_reported(ROUTED)).efforts == known.efforts
    without = merge_reported(known, ReportedCapabilities(efforts=()))
    assert (without.efforts, without.default_effort) == ((), "")


def test_what_was_told_is_there_for_the_next_program_and_for_its_address_alone():
    told.save_reported(ORIGIN, [{"id": "m", "max_model_len": 8_192}, {"id": "silent"}], requested_model="m")
    told._cache.clear()
    assert find_capabilities("vllm", "m", wire="chat", origin=ORIGIN).context_window == 8_192
    assert find_capabilities("vllm", "m", wire="chat", origin="https://other.example/v1").context_window == 0
    assert find_capabilities("vllm", "m", wire="chat").context_window == 0
    assert [told.is_due(ORIGIN, name) for name in ("m", "silent", "other")] == [False, True, True]
    told.save_reported(ORIGIN, [], requested_model="other")
    told._cache.clear()
    assert [told.is_due(ORIGIN, name) for name in ("m", "other")] == [False, False]


def test_a_page_without_an_end_takes_back_none_that_was_told():
    told.save_reported(ORIGIN, [{"id": "m", "max_model_len": 8_192, "retires_at": "2027-01-31T00:00:00Z"}])
    told.save_reported(ORIGIN, [{"id": "m", "max_model_len": 4_096}])
    capabilities = find_capabilities("vllm", "m", wire="chat", origin=ORIGIN)
    assert (capabilities.retires_at, capabilities.context_window) == ("2027-01-31", 4_096)


def test_what_was_told_is_asked_again_after_a_week(monkeypatch):
    told.save_reported(ORIGIN, [], requested_model="m")
    later = told.now_ms() + told.FRESH_MS + 1
    monkeypatch.setattr(told, "now_ms", lambda: later)
    assert told.is_due(ORIGIN, "m")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"origin":"https://other.example"}', b"\xff" * 9])
def test_a_damaged_cache_is_done_without(damage):
    told.save_reported(ORIGIN, [{"id": "m", "max_model_len": 8_192}])
    [file] = (get_cache_dir() / "models").iterdir()
    assert file.name.startswith("api.example-")
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(damage)
    told._cache.clear()
    assert find_capabilities("vllm", "m", wire="chat", origin=ORIGIN).context_window == 0
    told.save_reported(ORIGIN, [{"id": "m", "max_model_len": 4_096}])
    assert find_capabilities("vllm", "m", wire="chat", origin=ORIGIN).context_window == 4_096


def test_a_cache_that_can_not_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_TUI_CACHE_DIR", str(tmp_path / "file"))
    told.save_reported(ORIGIN, [{"id": "m", "max_model_len": 8_192}])
    assert find_capabilities("vllm", "m", wire="chat", origin=ORIGIN).context_window == 8_192
