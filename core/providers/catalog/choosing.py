"""The one rule that says which model is used where none was named for this start.

1. The one that is configured: `model`, or `[routes.chat] model`.
2. Else that of the first provider which the user has set up: those with an address or a key command in the user's own
   configuration, in the order of the file, then those whose key is in the environment or in our own file, in the order
   of `KNOWN`; of a provider whose address the environment names no key is wanted.
3. Else that of the first provider whose key is in the keyring, which is slower to ask.

The model of a provider at its own address is the usual one; any other server is asked what it has, and the first is
taken. A server of this machine that merely runs was set up by nobody: its models are offered, and not taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from core.config.settings import Settings
from core.errors import AgentTuiError
from core.providers.catalog import listing
from core.providers.catalog.presets import KNOWN, find_preset
from core.providers.registry import build_endpoint, find_kind, has_address

CONFIGURED: Final = "your configuration"


class DefaultModel(Struct, frozen=True, kw_only=True):
    """`id` is `provider/name`, "" = there is none; `reason`: what made it that one, or why there is none."""

    id: str = ""
    reason: str = ""


Listing = Mapping[str, tuple[str, Sequence[str]]]


async def find_default_model(settings: Settings, listings: Listing = MappingProxyType({})) -> DefaultModel:
    """The model to start with. Asks servers for a limited time, only those that the rule needs and `listings` lacks."""
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
    """The model to start with at a provider; no reason: nobody has set it up."""
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
        return DefaultModel(id=f"{provider}/{names[0]}", reason=f"the first that {endpoint.base_url} lists")
    return DefaultModel(reason=f"{provider} at {endpoint.base_url}: {problem or 'It lists no model.'}")
