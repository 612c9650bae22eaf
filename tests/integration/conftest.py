"""Limits of time that a busy machine would reach; a test that is about one sets it itself."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def patience_with_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt waits for the tools of a server as long as its start may take."""
    monkeypatch.setattr("core.mcp.session_servers.FIRST_WAIT", 60.0)
