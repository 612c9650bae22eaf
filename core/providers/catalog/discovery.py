"""The models that can be used here and now: providers with a key, and model servers that answer on this machine.

All are asked at once, each for a limited time. When nothing listens, the answer is there at once.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from core.config.settings import Settings
from core.errors import AgentTuiError
from core.protocol.models import ModelChoice, ProviderStatus
from core.protocol.queries import ModelsAnswer
from core.providers.base import ModelInfo
from core.providers.catalog import choosing, listing
from core.providers.catalog.presets import KNOWN
from core.providers.catalog.pricing import find_context_window
from core.providers.connection.addresses import is_loopback
from core.providers.registry import OUR_OWN, build_endpoint, find_kind, has_address, list_provider_ids

Found = tuple[ProviderStatus, list[ModelChoice]]


async def discover_models(settings: Settings, *, probe: bool = True) -> ModelsAnswer:
    """Every provider with its state, and the models that can be chosen. `probe` False: only where keys are."""
    ids = [provider_id for provider_id in list_provider_ids(settings) if provider_id not in OUR_OWN]
    results = await asyncio.gather(*(_probe_provider(provider_id, settings, probe=probe) for provider_id in ids))
    names = {
        status.id: (status.problem, [model.id.partition("/")[2] for model in models])
        for status, models in results
        if probe and status.base_url
    }
    default_model = await choosing.find_default_model(settings, names)
    return ModelsAnswer(
        models=tuple(model for _, models in results for model in models),
        providers=tuple(status for status, _ in results),
        default=default_model.id,
        reason=default_model.reason,
    )


async def _probe_provider(provider: str, settings: Settings, *, probe: bool) -> Found:
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
