"""Which providers there are: from `provider/name` to a provider that is ready to stream.

Nothing is imported, asked or connected here but what the chosen model needs; a provider looks for its key when it
connects.
"""

from __future__ import annotations

import difflib
import os
import re
from functools import partial
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from core.config import ProviderSettings, Settings
from core.errors import ConfigError
from core.protocol.messages import Wire
from core.protocol.queries import Models
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities, capabilities_of, catalogue
from core.providers.connection import keys
from core.providers.connection.endpoint import Endpoint
from core.secrets import remember

Kind = Literal["openai", "anthropic"]
SCRIPTED: Final = "scripted"
OPENAI_HOST: Final = "api.openai.com"
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret", re.IGNORECASE)


class Known(Struct, frozen=True, kw_only=True):
    """A provider that needs no configuration. `host_variable`: the environment variable that may name its address."""

    label: str
    base_url: str
    kind: Kind = "openai"
    key_variable: str = ""
    host_variable: str = ""
    local: bool = False
    suggested: tuple[str, ...] = ()


KNOWN: Final[dict[str, Known]] = {
    "anthropic": Known(
        label="Anthropic",
        base_url="https://api.anthropic.com",
        kind="anthropic",
        key_variable="ANTHROPIC_API_KEY",
        host_variable="ANTHROPIC_BASE_URL",
        suggested=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    "openai": Known(
        label="OpenAI",
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        host_variable="OPENAI_BASE_URL",
        suggested=("gpt-6.1-terra", "gpt-6.1-sol", "gpt-5-mini"),
    ),
    "ollama": Known(label="Ollama", base_url="http://127.0.0.1:11434/v1", host_variable="OLLAMA_HOST", local=True),
    "lmstudio": Known(label="LM Studio", base_url="http://127.0.0.1:1234/v1", local=True),
    "llamacpp": Known(label="llama.cpp", base_url="http://127.0.0.1:8080/v1", local=True),
    "vllm": Known(label="vLLM", base_url="http://127.0.0.1:8000/v1", local=True),
}


def provider_ids(settings: Settings) -> list[str]:
    """Every id that may stand before the slash of a model's id."""
    return [*KNOWN, *(name for name in settings.providers if name not in KNOWN), SCRIPTED]


def resolve(model_id: str, settings: Settings | None = None) -> tuple[Provider, str]:
    """The provider of `provider/name`, and the name. Raises `ConfigError` for an unknown one or a bad script."""
    settings = settings or Settings()
    _remember_keys(settings)
    provider, name = split(model_id, settings)
    if provider == SCRIPTED:
        from core.providers.scripted.provider import ScriptedProvider

        return ScriptedProvider.from_file(name), name
    endpoint = endpoint_of(provider, settings)
    if kind_of(provider, settings) == "anthropic":
        from core.providers.anthropic.provider import AnthropicProvider

        return AnthropicProvider(endpoint), name
    from core.providers.openai.provider import OpenAIProvider

    return OpenAIProvider(endpoint), name


def _remember_keys(settings: Settings) -> None:
    """Every key of the environment is known before anything is written down, whichever model is used."""
    named = [known.key_variable for known in KNOWN.values()] + [
        each.api_key_env for each in settings.providers.values()
    ]
    for variable in filter(None, named):
        remember(os.environ.get(variable, "").strip())
    for name, value in ((name, value) for each in settings.providers.values() for name, value in each.headers.items()):
        if _SECRET_HEADER.search(name):
            remember(value.rpartition(" ")[2])


def split(model_id: str, settings: Settings) -> tuple[str, str]:
    """The two parts of `provider/name`. Raises `ConfigError`."""
    provider, slash, name = model_id.strip().partition("/")
    valid = provider_ids(settings)
    if slash and name and provider in valid:
        return provider, name
    listed = f"Valid: {', '.join(f'{each}/NAME' for each in valid[:-1])}, {SCRIPTED}/FILE."
    if not slash or not name:
        raise ConfigError(
            f"{model_id!r} is not a model id: it has to be PROVIDER/NAME.", hint=listed, code="model_invalid"
        )
    near = difflib.get_close_matches(provider.lower(), valid, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]}/{name}? " if near else ""
    raise ConfigError(f"there is no provider {provider!r}.", hint=guess + listed, code="provider_unknown")


def kind_of(provider: str, settings: Settings) -> Kind:
    """The dialect that a provider speaks."""
    chosen = _configured(provider, settings).kind
    return chosen or (KNOWN[provider].kind if provider in KNOWN else "openai")


def wire_of(provider: str, settings: Settings) -> Wire:
    """The protocol that a provider speaks by itself. Raises `ConfigError` for an address that is none."""
    if kind_of(provider, settings) == "anthropic":
        return "messages"
    return "responses" if _host(base_url_of(provider, settings)) == OPENAI_HOST else "chat"


def capabilities(model_id: str, settings: Settings) -> Capabilities:
    """What `provider/name` can do, as far as it is known here; nothing is asked. Never slow, raises nothing."""
    try:
        provider, name = split(model_id, settings)
        if provider == SCRIPTED:
            return Capabilities()
        origin = base_url_of(provider, settings)
        return capabilities_of(provider, name, wire=wire_of(provider, settings), origin=origin)
    except ConfigError:
        return Capabilities()


def endpoint_of(provider: str, settings: Settings) -> Endpoint:
    """Where a provider is and how its key is found. Raises `ConfigError` for an address that is none."""
    configured, known = _configured(provider, settings), KNOWN.get(provider)
    base_url = base_url_of(provider, settings)
    variable = configured.api_key_env or (known.key_variable if known else "")
    if not variable and known is None:
        variable = f"{provider.upper().replace('-', '_')}_API_KEY"
    return Endpoint(
        id=provider,
        label=known.label if known else provider,
        base_url=base_url,
        variable=variable,
        find_key=partial(keys.find_key, provider, base_url=base_url, variable=variable),
        needs_key=known is not None and not known.local and _host(base_url) == _host(known.base_url),
        headers=configured.headers,
    )


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def base_url_of(provider: str, settings: Settings) -> str:
    """The environment's address, else the configured one, else the provider's own. Raises `ConfigError`."""
    known = KNOWN.get(provider)
    variable = known.host_variable if known else ""
    named = os.environ.get(variable, "").strip() if variable else ""
    source = variable if named else f"providers.{provider}.base_url"
    url = named or _configured(provider, settings).base_url or (known.base_url if known else "")
    if provider == "ollama" and named:
        url = _ollama_url(named)
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(
            f"{source} = {url!r} is not an address.", hint="It looks like http://127.0.0.1:8000/v1 or https://host/v1."
        )
    url = url.rstrip("/")
    return url.removesuffix("/v1") if kind_of(provider, settings) == "anthropic" else url


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` is what the server listens on: often without a scheme, a port or a reachable address."""
    host = host if "//" in host else f"http://{host}"
    parts = urlsplit(host)
    name = "127.0.0.1" if parts.hostname in {"0.0.0.0", "::", None} else parts.hostname
    return f"{parts.scheme}://{name}:{parts.port or 11434}/v1"


def _configured(provider: str, settings: Settings) -> ProviderSettings:
    return settings.providers.get(provider, ProviderSettings())


def default_model(settings: Settings) -> str:
    """The model to start with: the configured one, else the usual one of a provider with a key; "" = none.

    Looks at the environment and at our own file only: a keyring is too slow to wait for at a start.
    """
    if settings.model:
        return settings.model
    for provider, known in KNOWN.items():
        if not known.suggested:
            continue
        endpoint = endpoint_of(provider, settings)
        if not endpoint.needs_key:
            continue
        secret, _ = keys.find_key(provider, base_url=endpoint.base_url, variable=endpoint.variable, keyring=False)
        if secret is not None:
            return f"{provider}/{known.suggested[0]}"
    return ""


def preload(model_id: str, settings: Settings | None = None) -> None:
    """Import what a model needs, in a thread, while the user still types: the SDK, then the price list."""
    provider = model_id.partition("/")[0]
    if provider == SCRIPTED:
        return
    from core.providers.catalog import pricing
    from core.providers.connection import lean_import
    from core.providers.connection.endpoint import warm_up

    catalogue()
    sdk = kind_of(provider, settings or Settings())
    warm_up(lean_import.load(sdk), sdk)
    if provider not in pricing.FREE:
        pricing.load()


async def discover(settings: Settings, *, probe: bool = True) -> Models:
    """See `core.providers.catalog.discovery`."""
    from core.providers.catalog.discovery import discover as discovered

    return await discovered(settings, probe=probe)
