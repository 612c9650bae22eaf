from __future__ import annotations

import pytest

from core.config.settings import ProviderSettings, Settings
from core.errors import ConfigError
from core.providers.anthropic_provider import AnthropicProvider
from core.providers.catalog.presets import KNOWN
from core.providers.connection.keys import store_key
from core.providers.openai.provider import OpenAIProvider
from core.providers.registry import (
    build_endpoint,
    complete_model_id,
    find_base_url,
    find_kind,
    find_wire,
    resolve_provider,
    split_model_id,
)
from core.providers.scripted_provider import ScriptedProvider

PLAIN = Settings()
CUSTOM = Settings(
    providers={
        "router": ProviderSettings(base_url="https://router.example/api/v1/", headers={"X-Title": "t"}),
        "claude-proxy": ProviderSettings(
            base_url="https://proxy.example/v1", kind="anthropic", api_key_env="PROXY_KEY"
        ),
        "openai": ProviderSettings(base_url="https://gateway.example/v1"),
    }
)


@pytest.mark.parametrize(
    ("model", "kind", "name"),
    [
        ("openai/gpt-5-mini", OpenAIProvider, "gpt-5-mini"),
        ("anthropic/claude-sonnet-5", AnthropicProvider, "claude-sonnet-5"),
        ("ollama/qwen3:8b", OpenAIProvider, "qwen3:8b"),
        ("lmstudio/org/model", OpenAIProvider, "org/model"),
        ("llamacpp/x", OpenAIProvider, "x"),
        ("vllm/org/model", OpenAIProvider, "org/model"),
        ("router/meta/llama", OpenAIProvider, "meta/llama"),
        ("claude-proxy/c", AnthropicProvider, "c"),
    ],
)
def test_an_id_leads_to_its_provider(model, kind, name):
    provider, model_name = resolve_provider(model, CUSTOM)
    assert isinstance(provider, kind)
    assert (provider.name, model_name) == (model.split("/")[0], name)


def test_a_script_is_read_when_it_is_chosen(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("- hello")
    provider, name = resolve_provider(f"scripted/{path}")
    assert isinstance(provider, ScriptedProvider)
    assert name == str(path)
    path.write_text("- {nonsense: 1}")
    with pytest.raises(ConfigError, match="line 1"):
        resolve_provider(f"scripted/{path}")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("opnai/gpt-5", "Did you mean openai/gpt-5?"),
        ("Anthropic/x", "Did you mean anthropic/x?"),
        ("zzz/x", "Valid: anthropic/NAME, openai/NAME"),
        ("gpt-5", "PROVIDER/NAME"),
        ("openai/", "PROVIDER/NAME"),
        ("", "PROVIDER/NAME"),
    ],
)
def test_an_unknown_provider_is_answered_with_the_valid_ones(model, words):
    with pytest.raises(ConfigError) as caught:
        split_model_id(model, PLAIN)
    assert words in caught.value.format_with_hint()
    assert "scripted/FILE" in caught.value.hint


def test_the_environment_names_the_address_before_the_configuration_does(monkeypatch):
    assert find_base_url("openai", PLAIN) == "https://api.openai.com/v1"
    assert find_base_url("openai", CUSTOM) == "https://gateway.example/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    assert find_base_url("openai", CUSTOM) == "http://127.0.0.1:9/v1"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/v1")
    assert find_base_url("anthropic", PLAIN) == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999/v1"),
        ("box.lan:80", "http://box.lan:80/v1"),
        ("https://box.lan", "https://box.lan:11434/v1"),
    ],
)
def test_what_ollama_listens_on_becomes_an_address(monkeypatch, host, url):
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert find_base_url("ollama", PLAIN) == url


def test_one_variable_takes_all_local_servers_from_their_usual_ports_unless_an_address_is_configured(monkeypatch):
    monkeypatch.setenv("AGENT_TUI_LOCAL_SERVERS", "127.0.0.1:7")
    local = {name for name, preset in KNOWN.items() if preset.local}
    assert {
        name for name in KNOWN if name != "azure" and find_base_url(name, PLAIN) == "http://127.0.0.1:7/v1"
    } == local
    configured = Settings(providers={"vllm": ProviderSettings(base_url="http://box.lan/v1")})
    assert find_base_url("vllm", configured) == "http://box.lan/v1"
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:8")
    assert find_base_url("ollama", PLAIN) == "http://127.0.0.1:8/v1"


@pytest.mark.parametrize("bad", ["not an address", "ftp://x/v1", "http://", "127.0.0.1:8000/v1"])
def test_an_address_that_is_none_names_its_source(monkeypatch, bad):
    monkeypatch.setenv("OPENAI_BASE_URL", bad)
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        resolve_provider("openai/x")


def test_a_key_is_needed_only_where_the_provider_itself_is_asked():
    assert build_endpoint("openai", PLAIN).needs_key
    assert build_endpoint("anthropic", PLAIN).needs_key
    assert not build_endpoint("openai", CUSTOM).needs_key
    assert not build_endpoint("ollama", PLAIN).needs_key


def test_k9_a_key_that_was_stored_for_one_address_is_not_found_for_another():
    store_key("openai", "sk-for-the-real-one-123", base_url=find_base_url("openai", PLAIN))
    assert build_endpoint("openai", PLAIN).find_key()[0] is not None
    assert build_endpoint("openai", CUSTOM).find_key() == (None, "")


def test_each_provider_has_a_variable_for_its_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "PROXY_KEY", "ROUTER_API_KEY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    keys = {name: build_endpoint(name, CUSTOM).find_key() for name in ("openai", "claude-proxy", "router")}
    values = {name: secret.reveal() for name, (secret, _) in keys.items() if secret}
    assert values == {
        "openai": "value-of-OPENAI_API_KEY",
        "claude-proxy": "value-of-PROXY_KEY",
        "router": "value-of-ROUTER_API_KEY",
    }
    assert build_endpoint("router", CUSTOM).headers == {"X-Title": "t"}
    assert find_kind("claude-proxy", CUSTOM) == "anthropic"


AZURE = "https://mine.openai.azure.com"
DATED = Settings(
    providers={"azure": ProviderSettings(base_url=f"{AZURE}/openai/deployments/{{model}}", query={"api-version": "x"})}
)


def test_azure_is_where_the_account_is(monkeypatch):
    with pytest.raises(ConfigError, match="the address of Azure OpenAI is not set"):
        resolve_provider("azure/my-gpt")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{AZURE}/")
    endpoint = build_endpoint("azure", PLAIN, "my-gpt")
    assert (endpoint.base_url, endpoint.key_header, dict(endpoint.query)) == (f"{AZURE}/openai/v1", "api-key", {})
    assert endpoint.needs_key
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
    endpoint = build_endpoint("azure", PLAIN, "my gpt/4")
    assert endpoint.base_url == f"{AZURE}/openai/deployments/my%20gpt%2F4"
    assert endpoint.query == {"api-version": "2025-04-01-preview"}
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT")
    assert build_endpoint("azure", DATED, "m").base_url == f"{AZURE}/openai/deployments/m"
    assert build_endpoint("azure", DATED, "m").query == {"api-version": "x"}


def test_every_preset_has_an_address_that_can_be_used(monkeypatch):
    monkeypatch.delenv("AGENT_TUI_LOCAL_SERVERS")
    for name, known in KNOWN.items():
        if known.base_url:
            assert build_endpoint(name, PLAIN).base_url == known.base_url
            assert build_endpoint(name, PLAIN).needs_key == (not known.local)


def test_responses_is_spoken_with_openai_itself_and_where_the_configuration_says_so():
    configured = {"mine": ProviderSettings(base_url="http://127.0.0.1:1/v1", wire="responses")}
    configured["plain"] = ProviderSettings(base_url="http://127.0.0.1:1/v1")
    configured["europe"] = ProviderSettings(base_url="https://eu.api.openai.com/v1")
    configured["evil"] = ProviderSettings(base_url="https://evilapi.openai.com.example/v1")
    settings = Settings(providers=configured)
    wires = {name: find_wire(name, settings) for name in ("openai", "anthropic", "ollama", *configured)}
    assert wires == {
        "europe": "responses",
        "evil": "chat",
        "openai": "responses",
        "mine": "responses",
        "plain": "chat",
        "ollama": "chat",
        "anthropic": "messages",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-4.6-opus", "anthropic/claude-opus-4-6"),
        ("claude-opus-4.6", "anthropic/claude-opus-4-6"),
        ("claude-4-sonnet-thinking", "anthropic/claude-sonnet-4"),
        ("claude-opus-4-5-20251101", "anthropic/claude-opus-4-5-20251101"),
        ("gpt-5.4", "openai/gpt-5.4"),
        ("GPT-5-4", "openai/gpt-5.4"),
        ("gpt-5.4-2026-03-05", "openai/gpt-5.4-2026-03-05"),
        ("grok-4.20", "xai/grok-4.20"),
        ("openrouter/x-ai/grok-4.20", "openrouter/x-ai/grok-4.20"),
        ("", ""),
    ],
)
def test_a_model_without_its_provider_is_its_makers(name, expected):
    assert complete_model_id(name, Settings()) == expected


@pytest.mark.parametrize("name", ["nonsense-9", "gpt-nonsense", "text-embedding-3-small", "claude"])
def test_a_name_that_is_not_in_the_catalogue_is_refused(name):
    with pytest.raises(ConfigError, match="is not a model id"):
        complete_model_id(name, Settings())
