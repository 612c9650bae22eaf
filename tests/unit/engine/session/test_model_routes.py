from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from core.config.settings import Settings
from core.engine.session.model_routes import ModelRoutes
from core.engine.shared.models import ModelAccess
from core.providers.catalog.capabilities import Capabilities
from core.state.session import SessionState


def test_a_provider_that_was_made_for_an_address_of_before_is_not_used():
    resolved_models: list[str] = []

    def resolve(name: str, settings: Settings) -> tuple[Any, str]:
        resolved_models.append(settings.model)
        if len(resolved_models) == 1:  # the user gives a key while the first one is still being made
            settings_now.append(Settings(model="new"))
            asyncio.run(routes.close())
        return SimpleNamespace(made_for=settings.model), name

    models = ModelAccess(resolve=resolve, capabilities=lambda *_: Capabilities(), window=lambda _: 0)
    settings_now = [Settings(model="old")]
    routes = ModelRoutes(models, lambda: settings_now[-1], SessionState(), lambda _: None)
    assert routes.open("openai/x").provider.made_for == "new"
    assert routes.open("openai/x").provider.made_for == "new"
    assert resolved_models == ["old", "new"]
