"""Access to models of a test's own, and a rule of which model is used that always says the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from core.config.settings import Settings
from core.engine.shared.models import ModelAccess
from core.providers.base import Provider


def always(model: str) -> Callable[[Settings], Awaitable[str]]:
    async def chosen(_: Settings) -> str:
        return model

    return chosen


def access_to(
    resolve: Callable[[str, Settings], tuple[Provider, str]],
    model: str,
    *,
    cost: float | None = 0.001,
    window: int = 100_000,
    **more: Any,
) -> ModelAccess:
    """Access to what `resolve` gives; `model` when none was chosen. `cost` of each request in US dollars."""
    return ModelAccess(
        resolve=resolve,
        cost=lambda _id, _usage: cost,
        window=lambda _id: window,
        preload=lambda _id: None,
        default=always(model),
        **more,
    )
