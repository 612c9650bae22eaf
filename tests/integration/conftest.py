"""What several modules begin with. Limits of time that a busy machine would reach; a test about one sets it itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Server, find_programs, postgres_server


@pytest.fixture(autouse=True)
def patience_with_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt waits for the tools of a server as long as its start may take."""
    monkeypatch.setattr("core.mcp.session_servers.FIRST_WAIT", 60.0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return root


@pytest.fixture
def postgres() -> Iterator[Server]:
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here (apt install postgresql)")
    with postgres_server(programs) as server:
        yield server
