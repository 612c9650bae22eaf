"""A rule of which model is used that always says the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from core.config import Settings


def always(model: str) -> Callable[[Settings], Awaitable[str]]:
    async def chosen(_: Settings) -> str:
        return model

    return chosen
