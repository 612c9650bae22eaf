"""The registry of providers: resolves `provider/name` to a provider that is ready to stream.

Only what the chosen model needs is imported; nothing is connected, and a provider looks for its key when it connects.
"""

from __future__ import annotations

import difflib
import os
import re
from functools import partial
from itertools import chain
from typing import Final
from urllib.parse import quote, urlsplit

from core.config.settings import ProviderSettings, Settings
from core.errors import ConfigError
from core.patterns import compile_lazily
from core.protocol.messages import WireProtocol
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities, find_capabilities, load_catalogue
from core.providers.catalog.presets import KNOWN, Kind, ProviderPreset, find_preset
from core.providers.connection import keys
from core.providers.connection.addresses import is_listening, is_loopback
from core.providers.connection.endpoint import LOCAL_STALL_SECONDS, STALL_SECONDS, Endpoint, is_openai_host
from core.providers.hosted_agents import ACP, HostedAgentProvider, find_agent
from core.secrets import register_secret

SCRIPTED: Final = "scripted"
BUILTIN_IDS: Final = (ACP, SCRIPTED)  # Ids without an API.
_COMMAND_LINE: Final = compile_lazily(r"[\s/\\'\"]")
LOCAL_SERVERS: Final = "AGENT_TUI_LOCAL_SERVERS"
MODEL: Final = "{model}"  # The placeholder in an address.
_SECRET_HEADER: Final = compile_lazily(r"auth|key|token|secret", re.IGNORECASE)


def list_provider_ids(settings: Settings) -> list[str]:
    """Return every id that may precede the slash of a model's id."""
    return [*KNOWN, *(name for name in settings.providers if name not in KNOWN), *BUILTIN_IDS]


def resolve_provider(model_id: str, settings: Settings | None = None) -> tuple[Provider, str]:
    """Return the provider of `provider/name`, and the name. Raises `ConfigError` for an unknown one or a bad script."""
    settings = settings or Settings()
    _remember_keys(settings)
    provider, name = split_model_id(model_id, settings)
    if provider == SCRIPTED:
        from core.providers.scripted_provider import ScriptedProvider

        return ScriptedProvider.from_file(name), name
    if provider == ACP:
        return HostedAgentProvider(find_agent(name, settings)), name
    endpoint = build_endpoint(provider, settings, name)
    if find_kind(provider, settings) == "anthropic":
        from core.providers.anthropic_provider import AnthropicProvider

        return AnthropicProvider(endpoint), name
    from core.providers.openai.provider import OpenAIProvider

    return OpenAIProvider(endpoint, speaks=find_wire(provider, settings)), name


def _remember_keys(settings: Settings) -> None:
    """Register every key of the environment for redaction before anything is logged, whichever model is used."""
    all_settings = settings.providers.values()
    for variable in (
        *(provider_preset.key_variable for provider_preset in KNOWN.values()),
        *(provider_settings.api_key_env for provider_settings in all_settings),
    ):
        register_secret(_read_variable(variable))
    for name, value in chain.from_iterable(provider_settings.headers.items() for provider_settings in all_settings):
        if _SECRET_HEADER.search(name):
            register_secret(value.rpartition(" ")[2])


def split_model_id(model_id: str, settings: Settings) -> tuple[str, str]:
    """The two parts of `provider/name`. Raises `ConfigError`."""
    provider, slash, name = model_id.strip().partition("/")
    valid = list_provider_ids(settings)
    if slash and name and provider in valid:
        return provider, name
    hint = f"Valid: {', '.join(f'{provider_id}/NAME' for provider_id in valid[:-1])}, {SCRIPTED}/FILE."
    if not slash or not name:
        from core.providers.catalog.pricing import find_makers_id

        text = f"{model_id!r} is not a model id: use PROVIDER/NAME."
        own_id = "" if slash else find_makers_id(model_id)
        hint = f"Did you mean {own_id}? {hint}" if own_id else hint
        raise ConfigError(text, hint=hint, code="model_invalid")
    suggestions = difflib.get_close_matches(provider.lower(), valid, n=1, cutoff=0.5)
    guess = f"Did you mean {suggestions[0]}/{name}? " if suggestions else ""
    raise ConfigError(f"there is no provider {provider!r}.", hint=guess + hint, code="provider_unknown")


def complete_model_id(model_id: str, settings: Settings) -> str:
    """Return the id of a model that is named without its provider, as `gpt-5.4`: that of its maker. Any other text is
    returned unchanged. Raises `ConfigError` for a name that is not in the catalogue."""
    if "/" in model_id or not model_id.strip():
        return model_id
    from core.providers.catalog.pricing import find_makers_id

    if own_id := find_makers_id(model_id):
        return own_id
    split_model_id(model_id, settings)
    return model_id


def names_file_or_command(model_id: str) -> bool:
    """Return True for a model that is a file to be read, or a command line to be started, rather than one of an API or
    an agent that is known by its name."""
    provider, _, name = model_id.strip().partition("/")
    return provider == SCRIPTED or (provider == ACP and _COMMAND_LINE.search(name) is not None)


def find_kind(provider: str, settings: Settings) -> Kind:
    """Return the dialect that a provider speaks."""
    kind = _find_settings(provider, settings).kind
    return kind or find_preset(provider).kind


def find_wire(provider: str, settings: Settings) -> WireProtocol:
    """Return the provider's default protocol. Raises `ConfigError` for an invalid address."""
    if find_kind(provider, settings) == "anthropic":
        return "messages"
    if wire := _find_settings(provider, settings).wire:
        return wire
    return "responses" if is_openai_host(find_base_url(provider, settings)) else "chat"


def resolve_capabilities(model_id: str, settings: Settings) -> Capabilities:
    """Return the known capabilities of `provider/name`. Fast and offline; never raises."""
    try:
        provider, name = split_model_id(model_id, settings)
        if provider in BUILTIN_IDS:
            return Capabilities()
        origin = find_base_url(provider, settings)
        return find_capabilities(provider, name, wire=find_wire(provider, settings), origin=origin)
    except ConfigError:
        return Capabilities()


def build_endpoint(provider: str, settings: Settings, model: str = "") -> Endpoint:
    """Return the address of a provider and the way to its key. Raises `ConfigError` for an invalid address."""
    provider_settings, preset = _find_settings(provider, settings), find_preset(provider)
    base_url = find_base_url(provider, settings)
    variable = provider_settings.api_key_env or preset.key_variable
    if not variable and provider not in KNOWN:
        variable = f"{provider.upper().replace('-', '_')}_API_KEY"
    command, version = provider_settings.key_command, _read_variable(preset.version_variable)
    is_own_host = not preset.local and urlsplit(base_url).hostname == urlsplit(preset.base_url or base_url).hostname
    return Endpoint(
        id=provider,
        label=preset.label,
        base_url=base_url.replace(MODEL, quote(model, safe="")) if model else base_url,
        variable=variable,
        find_key=partial(keys.find_key, provider, base_url=base_url, variable=variable, command=command),
        needs_key=provider in KNOWN and is_own_host,
        key_command=command,
        key_header=provider_settings.key_header or preset.key_header,
        headers=provider_settings.headers,
        stall_seconds=provider_settings.timeout or (LOCAL_STALL_SECONDS if is_loopback(base_url) else STALL_SECONDS),
        query=({"api-version": version} if version else {}) | provider_settings.query,
    )


def _read_variable(name: str) -> str:
    return os.environ.get(name, "").strip() if name else ""


def has_address(provider: str, settings: Settings) -> bool:
    """Return True if the user's own configuration has the address of a provider, or the environment has that of a
    remote one (`OLLAMA_HOST` is what a local server listens on, whether or not it runs)."""
    preset = find_preset(provider)
    host = not preset.local and _read_variable(preset.host_variable)
    return bool(host or _find_settings(provider, settings).base_url)


def find_base_url(provider: str, settings: Settings) -> str:
    """Return the environment's address, else the configured one, else the provider's own. Raises `ConfigError`."""
    preset = find_preset(provider)
    host = _read_variable(preset.host_variable)
    source = preset.host_variable if host else f"providers.{provider}.base_url"
    url = host or _find_settings(provider, settings).base_url or _find_usual_url(preset)
    if provider == "ollama" and host:
        url = _parse_ollama_host(host)
    if not url:
        also = f" or {preset.host_variable}" if preset.host_variable else ""
        raise ConfigError(
            f"the address of {preset.label} is not set.", hint=f"Set {source}{also}.", code="address_missing"
        )
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        hint = "It looks like http://127.0.0.1:8000/v1 or https://host/v1."
        raise ConfigError(f"{source} = {url!r} is not an address.", hint=hint)
    url = url.rstrip("/")
    if preset.path and not parts.path.strip("/"):
        is_dated = _read_variable(preset.version_variable)[:1].isdigit()
        url += preset.dated_path if is_dated else preset.path
    return url.removesuffix("/v1") if find_kind(provider, settings) == "anthropic" else url


def _find_usual_url(preset: ProviderPreset) -> str:
    """Return the address of a provider that nobody has configured. `AGENT_TUI_LOCAL_SERVERS` stands for the usual ports
    of all model servers of this machine, so that what happens to run there can be kept out."""
    local = _read_variable(LOCAL_SERVERS) if preset.local else ""
    if local or not preset.next_port:
        return f"http://{local}/v1" if local else preset.base_url
    next_url = f"http://127.0.0.1:{preset.next_port}/v1"
    return next_url if is_listening(preset.next_port) else preset.base_url


def _parse_ollama_host(host: str) -> str:
    """Parse `OLLAMA_HOST`, which often lacks a scheme, a port or a reachable address, since it is what the server
    listens on."""
    parts = urlsplit(host if "//" in host else f"http://{host}")
    name = "127.0.0.1" if parts.hostname in {"0.0.0.0", "::", None} else parts.hostname
    return f"{parts.scheme}://{name}:{parts.port or 11434}/v1"


def _find_settings(provider: str, settings: Settings) -> ProviderSettings:
    return settings.providers.get(provider, ProviderSettings())


def preload_provider(model_id: str, settings: Settings | None = None) -> None:
    """Import what a model needs, in a thread, while the user types."""
    provider = model_id.partition("/")[0]
    if provider in BUILTIN_IDS:
        return
    from core.providers.connection import lean_import
    from core.providers.connection.endpoint import warm_up

    load_catalogue()
    sdk = find_kind(provider, settings or Settings())
    warm_up(lean_import.load_sdk(sdk), sdk)
