"""Model APIs that need no configuration: their addresses, protocols and key variables.

Addresses and variables are those of the providers' own documentation.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Kind = Literal["openai", "anthropic"]


class ProviderPreset(Struct, frozen=True):
    """A provider that needs no configuration. `host_variable`: the environment variable that may hold its address.

    `base_url` "" = every account has an address of its own; `path` below its host leads to the API, and `dated_path`
    does if `version_variable` names a version by its date, which becomes the query's `api-version`. `key_header`: the
    header for the key, "" = the protocol's own. `suggested`: models to begin with, the default first. `next_port`: the
    port of later versions of a local server, 0 = the same.
    """

    label: str
    base_url: str = ""
    key_variable: str = ""
    suggested: tuple[str, ...] = ()
    kind: Kind = "openai"
    key_header: str = ""
    host_variable: str = ""
    local: bool = False
    version_variable: str = ""
    path: str = ""
    dated_path: str = ""
    next_port: int = 0


# Label, address, key variable, models.
KNOWN: Final[dict[str, ProviderPreset]] = {
    "anthropic": ProviderPreset(
        "Anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
        kind="anthropic",
        host_variable="ANTHROPIC_BASE_URL",
    ),
    "openai": ProviderPreset(
        "OpenAI",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        ("gpt-6.1-terra", "gpt-6.2-sol", "gpt-6-luna"),
        host_variable="OPENAI_BASE_URL",
    ),
    "openrouter": ProviderPreset(
        "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", ("openrouter/auto",)
    ),
    "gemini": ProviderPreset(
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        ("gemini-3.8-flash",),
    ),
    "mistral": ProviderPreset("Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", ("mistral-medium-latest",)),
    "deepseek": ProviderPreset(
        "DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", ("deepseek-v4-pro", "deepseek-v4-flash")
    ),
    "xai": ProviderPreset("xAI", "https://api.x.ai/v1", "XAI_API_KEY", ("grok-4.7",)),
    "groq": ProviderPreset("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", ("openai/gpt-oss-120b",)),
    "azure": ProviderPreset(
        "Azure OpenAI",
        "",
        "AZURE_OPENAI_API_KEY",
        key_header="api-key",
        host_variable="AZURE_OPENAI_ENDPOINT",
        version_variable="OPENAI_API_VERSION",
        path="/openai/v1",
        dated_path="/openai/deployments/{model}",
    ),
    "ollama": ProviderPreset("Ollama", "http://127.0.0.1:11434/v1", host_variable="OLLAMA_HOST", local=True),
    "lmstudio": ProviderPreset("LM Studio", "http://127.0.0.1:1234/v1", local=True),
    "llamacpp": ProviderPreset("llama.cpp", "http://127.0.0.1:8080/v1", local=True, next_port=9931),
    "vllm": ProviderPreset("vLLM", "http://127.0.0.1:8000/v1", local=True),
}


def find_preset(provider: str) -> ProviderPreset:
    """Return the preset of a provider; an unknown one gets a preset with only its name."""
    return KNOWN.get(provider) or ProviderPreset(provider)
