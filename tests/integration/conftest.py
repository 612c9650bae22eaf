"""What several modules begin with. Limits of time that a busy machine would reach; a test about one sets it itself."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core.sandbox.proxy import Proxy
from tests.support.postgres import Server, find_programs, postgres_server
from tests.unit.sandbox.test_proxy import Outside


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


@pytest.fixture(scope="module")
def database_server() -> Iterator[Server]:
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here (apt install postgresql)")
    with postgres_server(programs) as server:
        yield server


@pytest.fixture
def postgres(database_server: Server) -> Server:
    """A server with a database of this test alone."""
    database_server.create_database()
    return database_server


@pytest.fixture
async def outside(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Outside]:
    """A host `example.test` that the proxy takes for one out in the public network."""
    host = Outside()
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]

    async def resolve(_host: str) -> list[ipaddress.IPv4Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    reaching = functools.partial(Proxy, public=lambda _: True, resolve=resolve)
    monkeypatch.setattr("core.shell.network_grants.Proxy", reaching)
    yield host
    server.close()
