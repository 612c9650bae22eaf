"""How the engine comes to its models: one record of functions, each of which loads what it needs when it is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.config import Settings
from core.protocol.messages import Usage
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities


def _resolve(model: str, settings: Settings) -> tuple[Provider, str]:
    from core.providers.registry import resolve

    return resolve(model, settings)


def _cost(model: str, usage: Usage) -> float | None:
    from core.providers.catalog.pricing import cost

    return cost(model, usage)


def _window(model: str) -> int:
    from core.providers.catalog.pricing import context_window

    return context_window(model)


def _capabilities(model: str, settings: Settings) -> Capabilities:
    from core.providers.registry import capabilities

    return capabilities(model, settings)


def _preload(model: str) -> None:
    from core.providers.registry import preload

    preload(model)


async def _default(settings: Settings) -> str:
    from core.providers.catalog.choosing import default_model

    return (await default_model(settings)).id


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccess:
    """`resolve(id, settings)`: the provider and its own name for the model, or `ConfigError`/`ProviderError`.

    `cost` in US dollars, None = not known; `window` in tokens, 0 = not known; `capabilities(id, settings)`: what is
    known of a model here, without asking; `preload` may take its time;
    `default(settings)`: the model to use when none was chosen, "" = nothing is configured.
    """

    resolve: Callable[[str, Settings], tuple[Provider, str]] = _resolve
    cost: Callable[[str, Usage], float | None] = _cost
    window: Callable[[str], int] = _window
    capabilities: Callable[[str, Settings], Capabilities] = _capabilities
    preload: Callable[[str], None] = _preload
    default: Callable[[Settings], Awaitable[str]] = _default
