"""Model APIs that are known without a configuration: where each is, which protocol it speaks, where its key is.

Addresses and variables are those of the providers' own documentation.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Kind = Literal["openai", "anthropic"]


class ProviderPreset(Struct, frozen=True, kw_only=True):
    """A provider that needs no configuration. `host_variable`: the environment variable that may name its address.

    `base_url` "" = each account has an address of its own, below whose host `path` leads to the API; `dated_path` does
    where `version_variable` names a version by its date, which goes into the query as `api-version`. `key_header`: the
    header that the key goes in, "" = the protocol's own. `suggested`: models to begin with, the usual one first.
    """

    label: str
    base_url: str = ""
    kind: Kind = "openai"
    key_variable: str = ""
    key_header: str = ""
    host_variable: str = ""
    version_variable: str = ""
    path: str = ""
    dated_path: str = ""
    local: bool = False
    suggested: tuple[str, ...] = ()


KNOWN: Final[dict[str, ProviderPreset]] = {
    "anthropic": ProviderPreset(
        label="Anthropic",
        base_url="https://api.anthropic.com",
        kind="anthropic",
        key_variable="ANTHROPIC_API_KEY",
        host_variable="ANTHROPIC_BASE_URL",
        suggested=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    "openai": ProviderPreset(
        label="OpenAI",
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        host_variable="OPENAI_BASE_URL",
        suggested=("gpt-6.1-terra", "gpt-6.1-sol", "gpt-5-mini"),
    ),
    "openrouter": ProviderPreset(
        label="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        suggested=("openrouter/auto",),
    ),
    "gemini": ProviderPreset(
        label="Google Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variable="GEMINI_API_KEY",
        suggested=("gemini-3.8-flash",),
    ),
    "mistral": ProviderPreset(
        label="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        suggested=("mistral-medium-latest",),
    ),
    "deepseek": ProviderPreset(
        label="DeepSeek",
        base_url="https://api.deepseek.com",
        key_variable="DEEPSEEK_API_KEY",
        suggested=("deepseek-v4-pro", "deepseek-v4-flash"),
    ),
    "xai": ProviderPreset(
        label="xAI", base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY", suggested=("grok-4.7",)
    ),
    "groq": ProviderPreset(
        label="Groq",
        base_url="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
        suggested=("openai/gpt-oss-120b",),
    ),
    "azure": ProviderPreset(
        label="Azure OpenAI",
        key_variable="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        host_variable="AZURE_OPENAI_ENDPOINT",
        version_variable="OPENAI_API_VERSION",
        path="/openai/v1",
        dated_path="/openai/deployments/{model}",
    ),
    "ollama": ProviderPreset(
        label="Ollama", base_url="http://127.0.0.1:11434/v1", host_variable="OLLAMA_HOST", local=True
    ),
    "lmstudio": ProviderPreset(label="LM Studio", base_url="http://127.0.0.1:1234/v1", local=True),
    "llamacpp": ProviderPreset(label="llama.cpp", base_url="http://127.0.0.1:8080/v1", local=True),
    "vllm": ProviderPreset(label="vLLM", base_url="http://127.0.0.1:8000/v1", local=True),
}
