"""A test server that stands for the makers' own services, with what only they offer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from core.providers.catalog import capabilities
from tests.support.provider_server import ProviderServer, provider_server
from tests.support.provider_streams import Step


@contextlib.asynccontextmanager
async def makers_own(monkeypatch: Any, *steps: Step | str, **options: Any) -> AsyncIterator[ProviderServer]:
    """Serve `steps` by the services' rules at an address that the program takes for theirs."""
    monkeypatch.setattr(capabilities, "OWN_HOSTS", [*capabilities.OWN_HOSTS, "127.0.0.1"])
    monkeypatch.setattr("core.providers.anthropic_provider.OFFICIAL_HOST", "127.0.0.1")
    monkeypatch.setattr("core.providers.openai.provider.is_openai_host", lambda _: True)
    async with provider_server(steps, strict=True, **options) as server:
        yield server
