"""The models that can be used here and now, and the model of a session for which none was named.

All providers with a key and the model servers of this machine are asked at once, each for a limited time. The default
model is:

1. The one that is configured: `model`, or `[routes.chat] model`.
2. Else that of the first provider which the user has set up: those with an address or a key command in the user's own
   configuration, in the order of the file, then those whose key is in the environment or in our own file, in the order
   of `KNOWN`; a provider whose address the environment names needs no key.
3. Else that of the first provider whose key is in the keyring, which is slower to ask.

The model of a provider at its own address is the usual one; any other server is asked for its list, and the first is
taken. A server of this machine that merely runs was set up by nobody: its models are offered, and not taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from core.config.settings import Settings
from core.errors import AgentTuiError
from core.protocol.models import ModelChoice, ProviderStatus
from core.protocol.queries import ModelsAnswer
from core.providers.base import ModelInfo
from core.providers.catalog import listing
from core.providers.catalog.presets import KNOWN, find_preset
from core.providers.catalog.pricing import find_context_window
from core.providers.connection.addresses import is_loopback
from core.providers.registry import BUILTIN_IDS, build_endpoint, find_kind, has_address, list_provider_ids

CONFIGURED: Final = "your configuration"
ProviderModels = tuple[ProviderStatus, list[ModelChoice]]


class DefaultModel(Struct, frozen=True, kw_only=True):
    """The default model. `id` is `provider/name`, "" = there is none; `reason`: why it was chosen, or why there is
    none."""

    id: str = ""
    reason: str = ""


Listing = Mapping[str, tuple[str, Sequence[str]]]


async def find_default_model(settings: Settings, listings: Listing = MappingProxyType({})) -> DefaultModel:
    """Return the model to start with. Queries, for a limited time, only servers that the rule needs and `listings`
    lacks."""
    if model_id := settings.resolve_route("chat").model:
        return DefaultModel(id=model_id, reason=CONFIGURED)
    configured_names = [
        name
        for name, provider_settings in settings.providers.items()
        if provider_settings.base_url or provider_settings.key_command
    ]
    trouble: dict[str, str] = {}
    for keyring in (False, True):
        for provider in dict.fromkeys((*configured_names, *KNOWN)):
            if provider not in trouble:
                default_model = await _choose_model(provider, settings, listings, keyring=keyring)
                if default_model.id:
                    return default_model
                trouble |= {provider: default_model.reason} if default_model.reason else {}
    return DefaultModel(reason=" ".join(trouble.values()))


async def _choose_model(provider: str, settings: Settings, listings: Listing, *, keyring: bool) -> DefaultModel:
    """Return the model to start with at a provider; an empty reason: the user has not set it up."""
    preset, has_own_address = find_preset(provider), has_address(provider, settings)
    has_command = provider in settings.providers and bool(settings.providers[provider].key_command)
    if (preset.local and not has_own_address) or not (has_own_address or has_command or preset.base_url):
        return DefaultModel()
    try:
        endpoint = build_endpoint(provider, settings)
        secret, source = await asyncio.to_thread(partial(endpoint.find_key, keyring=keyring))
    except AgentTuiError as error:
        return DefaultModel(reason=error.format_with_hint() if has_own_address or has_command else "")
    if endpoint.needs_key and secret is None:
        return DefaultModel()
    if endpoint.needs_key and preset.suggested:
        return DefaultModel(id=f"{provider}/{preset.suggested[0]}", reason=f"the usual one of {preset.label}: {source}")
    if provider in listings:
        problem, names = listings[provider]
    else:
        problem, infos = await listing.fetch_models(endpoint, secret, find_kind(provider, settings))
        names = [info.name for info in infos]
    if names:
        return DefaultModel(id=f"{provider}/{names[0]}", reason=f"the first model at {endpoint.base_url}")
    return DefaultModel(reason=f"{provider} at {endpoint.base_url}: {problem or 'It lists no model.'}")


async def discover_models(settings: Settings, *, probe: bool = True) -> ModelsAnswer:
    """Return every provider with its state, and the models that can be chosen. `probe` False: look only for keys."""
    ids = [provider_id for provider_id in list_provider_ids(settings) if provider_id not in BUILTIN_IDS]
    results = await asyncio.gather(*(_probe_provider(provider_id, settings, probe=probe) for provider_id in ids))
    names = {
        status.id: (status.problem, [model.id.partition("/")[2] for model in models])
        for status, models in results
        if probe and status.base_url
    }
    default_model = await find_default_model(settings, names)
    return ModelsAnswer(
        models=tuple(model for _, models in results for model in models),
        providers=tuple(status for status, _ in results),
        default=default_model.id,
        reason=default_model.reason,
    )


async def _probe_provider(provider: str, settings: Settings, *, probe: bool) -> ProviderModels:
    preset = KNOWN.get(provider)
    label = preset.label if preset else provider
    if preset and not preset.base_url and not has_address(provider, settings):
        return ProviderStatus(id=provider, label=label), []
    try:
        endpoint = build_endpoint(provider, settings)
        secret, source = await asyncio.to_thread(partial(endpoint.find_key, seconds=listing.LOCAL_SECONDS))
    except AgentTuiError as error:
        return ProviderStatus(id=provider, label=label, problem=error.format_with_hint()), []
    local = is_loopback(endpoint.base_url)
    status = ProviderStatus(id=provider, label=label, key=source, base_url=endpoint.base_url, local=local)
    if endpoint.needs_key and secret is None:
        return status, []
    problem, infos = await listing.fetch_models(endpoint, secret, find_kind(provider, settings)) if probe else ("", [])
    if not infos and endpoint.needs_key and preset:
        infos = [ModelInfo(name=name) for name in preset.suggested]
    model_rows = [(f"{provider}/{info.name}", info.context_window) for info in infos]
    return msgspec.structs.replace(status, problem=problem), [
        ModelChoice(id=name, source=source or endpoint.base_url, context_window=window or find_context_window(name))
        for name, window in model_rows
    ]
