"""The engine's access to models: a record of functions, which import their libraries when they are called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from core.config.settings import Settings
from core.protocol.messages import Usage
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities, PriceStep


def _resolve(model: str, settings: Settings) -> tuple[Provider, str]:
    from core.providers.registry import resolve_provider

    return resolve_provider(model, settings)


def _complete(model: str, settings: Settings) -> str:
    from core.providers.registry import complete_model_id

    return complete_model_id(model, settings)


def _compute_cost(model: str, usage: Usage) -> float | None:
    from core.providers.catalog.pricing import compute_cost

    return compute_cost(model, usage)


def _is_estimated(model: str) -> bool:
    from core.providers.catalog.pricing import is_estimated

    return is_estimated(model)


def _find_step(model: str) -> PriceStep:
    from core.providers.catalog.pricing import find_price_step

    return find_price_step(model)


def _find_window(model: str) -> int:
    from core.providers.catalog.pricing import find_context_window

    return find_context_window(model)


def _find_capabilities(model: str, settings: Settings) -> Capabilities:
    from core.providers.registry import resolve_capabilities

    return resolve_capabilities(model, settings)


def _preload(model: str) -> None:
    from core.providers.registry import preload_provider

    preload_provider(model)


async def _choose_default(settings: Settings) -> str:
    from core.providers.discovery import find_default_model

    return (await find_default_model(settings)).id


class ModelAccess(Struct, frozen=True, kw_only=True):
    """Functions that give access to models; tests replace them.

    `resolve(id, settings)`: the provider and its own name of the model; raises `ConfigError`, `ProviderError`.
    `complete(id, settings)`: the id of a model that is named without its provider; raises `ConfigError`.
    `cost` in US dollars, None = not known, `estimated` = by the price of a similar model; `price_step`: the size of a
    prompt above which it costs more. `window` in tokens, 0 = not known. `capabilities(id, settings)` asks nobody
    over the network. `preload` may be slow. `default(settings)`: the model when none was chosen, "" = none.
    """

    resolve: Callable[[str, Settings], tuple[Provider, str]] = _resolve
    complete: Callable[[str, Settings], str] = _complete
    cost: Callable[[str, Usage], float | None] = _compute_cost
    estimated: Callable[[str], bool] = _is_estimated
    price_step: Callable[[str], PriceStep] = _find_step
    window: Callable[[str], int] = _find_window
    capabilities: Callable[[str, Settings], Capabilities] = _find_capabilities
    preload: Callable[[str], None] = _preload
    default: Callable[[Settings], Awaitable[str]] = _choose_default

    def resolve_window(self, model: str, settings: Settings, capabilities: Capabilities) -> int:
        """Return the window of a model in tokens: the configured one, the reported one, or the listed one."""
        return settings.context.window or capabilities.context_window or self.window(model)
