"""The registry of providers: from `provider/name` to a provider that is ready to stream.

Nothing is imported, asked or connected here but what the chosen model needs; a provider looks for its key when it
connects.
"""

from __future__ import annotations

import difflib
import os
import re
from functools import partial
from itertools import chain
from typing import Final
from urllib.parse import quote, urlsplit

from core.config.model_settings import ProviderSettings
from core.config.settings import Settings
from core.errors import ConfigError
from core.protocol.messages import WireProtocol
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities, find_capabilities, load_catalogue
from core.providers.catalog.presets import KNOWN, Kind, find_preset
from core.providers.connection import keys
from core.providers.connection.endpoint import Endpoint, is_openai_host
from core.providers.hosted_agents import ACP, HostedAgentProvider, find_agent
from core.secrets import register_secret

SCRIPTED: Final = "scripted"
OUR_OWN: Final = (ACP, SCRIPTED)  # ids behind which there is no API
_COMMAND_LINE: Final = re.compile(r"[\s/\\'\"]")
MODEL: Final = "{model}"  # in an address
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret", re.IGNORECASE)


def list_provider_ids(settings: Settings) -> list[str]:
    """Every id that may stand before the slash of a model's id."""
    return [*KNOWN, *(name for name in settings.providers if name not in KNOWN), *OUR_OWN]


def resolve_provider(model_id: str, settings: Settings | None = None) -> tuple[Provider, str]:
    """The provider of `provider/name`, and the name. Raises `ConfigError` for an unknown one or a bad script."""
    settings = settings or Settings()
    _remember_keys(settings)
    provider, name = split_model_id(model_id, settings)
    if provider == SCRIPTED:
        from core.providers.scripted.provider import ScriptedProvider

        return ScriptedProvider.from_file(name), name
    if provider == ACP:
        return HostedAgentProvider(find_agent(name, settings)), name
    endpoint = build_endpoint(provider, settings, name)
    if find_kind(provider, settings) == "anthropic":
        from core.providers.anthropic.provider import AnthropicProvider

        return AnthropicProvider(endpoint), name
    from core.providers.openai.provider import OpenAIProvider

    return OpenAIProvider(endpoint, speaks=find_wire(provider, settings)), name


def _remember_keys(settings: Settings) -> None:
    """Every key of the environment is known before anything is written down, whichever model is used."""
    configured = settings.providers.values()
    for variable in (*(each.key_variable for each in KNOWN.values()), *(each.api_key_env for each in configured)):
        register_secret(_read_variable(variable))
    for name, value in chain.from_iterable(each.headers.items() for each in configured):
        if _SECRET_HEADER.search(name):
            register_secret(value.rpartition(" ")[2])


def split_model_id(model_id: str, settings: Settings) -> tuple[str, str]:
    """The two parts of `provider/name`. Raises `ConfigError`."""
    provider, slash, name = model_id.strip().partition("/")
    valid = list_provider_ids(settings)
    if slash and name and provider in valid:
        return provider, name
    listed = f"Valid: {', '.join(f'{each}/NAME' for each in valid[:-1])}, {SCRIPTED}/FILE."
    if not slash or not name:
        text = f"{model_id!r} is not a model id: it has to be PROVIDER/NAME."
        raise ConfigError(text, hint=listed, code="model_invalid")
    near = difflib.get_close_matches(provider.lower(), valid, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]}/{name}? " if near else ""
    raise ConfigError(f"there is no provider {provider!r}.", hint=guess + listed, code="provider_unknown")


def names_file_or_command(model_id: str) -> bool:
    """Return True for a model that is a file to be read, or a command line to be started, rather than one of an API or
    an agent that is known by its name."""
    provider, _, name = model_id.strip().partition("/")
    return provider == SCRIPTED or (provider == ACP and _COMMAND_LINE.search(name) is not None)


def find_kind(provider: str, settings: Settings) -> Kind:
    """The dialect that a provider speaks."""
    chosen = _find_settings(provider, settings).kind
    return chosen or find_preset(provider).kind


def find_wire(provider: str, settings: Settings) -> WireProtocol:
    """The protocol that a provider speaks by itself. Raises `ConfigError` for an address that is none."""
    if find_kind(provider, settings) == "anthropic":
        return "messages"
    if configured := _find_settings(provider, settings).wire:
        return configured
    return "responses" if is_openai_host(find_base_url(provider, settings)) else "chat"


def resolve_capabilities(model_id: str, settings: Settings) -> Capabilities:
    """The capabilities of `provider/name`, as far as they are known here. Never slow, asks nobody, raises nothing."""
    try:
        provider, name = split_model_id(model_id, settings)
        if provider in OUR_OWN:
            return Capabilities()
        origin = find_base_url(provider, settings)
        return find_capabilities(provider, name, wire=find_wire(provider, settings), origin=origin)
    except ConfigError:
        return Capabilities()


def build_endpoint(provider: str, settings: Settings, model: str = "") -> Endpoint:
    """The address of a provider and the way to its key. Raises `ConfigError` for an address that is none."""
    configured, known = _find_settings(provider, settings), find_preset(provider)
    base_url = find_base_url(provider, settings)
    variable = configured.api_key_env or known.key_variable
    if not variable and provider not in KNOWN:
        variable = f"{provider.upper().replace('-', '_')}_API_KEY"
    command, version = configured.key_command, _read_variable(known.version_variable)
    own = not known.local and urlsplit(base_url).hostname == urlsplit(known.base_url or base_url).hostname
    return Endpoint(
        id=provider,
        label=known.label,
        base_url=base_url.replace(MODEL, quote(model, safe="")) if model else base_url,
        variable=variable,
        find_key=partial(keys.find_key, provider, base_url=base_url, variable=variable, command=command),
        needs_key=provider in KNOWN and own,
        key_command=command,
        key_header=configured.key_header or known.key_header,
        headers=configured.headers,
        query=({"api-version": version} if version else {}) | configured.query,
    )


def _read_variable(name: str) -> str:
    return os.environ.get(name, "").strip() if name else ""


def has_address(provider: str, settings: Settings) -> bool:
    """Return True if the user's own configuration says where a provider is, or the environment (of one that is not
    local: `OLLAMA_HOST` is what a server listens on, whether or not it runs)."""
    known = find_preset(provider)
    named = not known.local and _read_variable(known.host_variable)
    return bool(named or _find_settings(provider, settings).base_url)


def find_base_url(provider: str, settings: Settings) -> str:
    """The environment's address, else the configured one, else the provider's own. Raises `ConfigError`."""
    known = find_preset(provider)
    named = _read_variable(known.host_variable)
    source = known.host_variable if named else f"providers.{provider}.base_url"
    url = named or _find_settings(provider, settings).base_url or known.base_url
    if provider == "ollama" and named:
        url = _parse_ollama_host(named)
    if not url:
        also = f" or {known.host_variable}" if known.host_variable else ""
        raise ConfigError(f"nothing says where {known.label} is.", hint=f"Set {source}{also}.", code="address_missing")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        hint = "It looks like http://127.0.0.1:8000/v1 or https://host/v1."
        raise ConfigError(f"{source} = {url!r} is not an address.", hint=hint)
    url = url.rstrip("/")
    if known.path and not parts.path.strip("/"):
        dated = _read_variable(known.version_variable)[:1].isdigit()
        url += known.dated_path if dated else known.path
    return url.removesuffix("/v1") if find_kind(provider, settings) == "anthropic" else url


def _parse_ollama_host(host: str) -> str:
    """`OLLAMA_HOST` is what the server listens on: often without a scheme, a port or a reachable address."""
    parts = urlsplit(host if "//" in host else f"http://{host}")
    name = "127.0.0.1" if parts.hostname in {"0.0.0.0", "::", None} else parts.hostname
    return f"{parts.scheme}://{name}:{parts.port or 11434}/v1"


def _find_settings(provider: str, settings: Settings) -> ProviderSettings:
    return settings.providers.get(provider, ProviderSettings())


def preload_provider(model_id: str, settings: Settings | None = None) -> None:
    """Import what a model needs, in a thread, while the user still types: the SDK, then the price list."""
    provider = model_id.partition("/")[0]
    if provider in OUR_OWN:
        return
    from core.providers.catalog import pricing
    from core.providers.connection import lean_import
    from core.providers.connection.endpoint import warm_up

    load_catalogue()
    sdk = find_kind(provider, settings or Settings())
    warm_up(lean_import.load_sdk(sdk), sdk)
    if provider not in pricing.FREE:
        pricing.load_prices()
