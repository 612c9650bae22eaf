"""A port of the sandbox in the browser of somebody who came by `serve --web`: behind a ticket, then a cookie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from core.protocol import events as ev
from core.protocol.queries import IdleQuery
from tests.support.http_server import TOKENS, Served, serving

SERVE = "exec python3 -u -m http.server 8766 2>&1"


@asynccontextmanager
async def session_with_server(project) -> AsyncIterator[tuple[Served, str]]:
    """A server with a page, and a session in which a command listens."""
    (project / "page.html").write_text("pending page\n")
    async with serving(project, has_page=True) as served, served.client() as client:
        session = (await client.post("/api/v1/sessions", json={})).json()["session"]
        path = f"/api/v1/sessions/{session}"
        ran = await client.post(f"{path}/commands", json={"type": "command.run", "command": SERVE})
        assert ran.status_code == 202, ran.text
        engine = await served.service.find(session)
        async with asyncio.timeout(60):
            async for envelope in engine.events(session):
                if isinstance(envelope.event, ev.PortsChanged) and envelope.event.ports:
                    break
        yield served, path


def visitor() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(timeout=60, trust_env=False)


async def test_a_port_is_reached_with_a_ticket_once_and_with_the_cookie_after(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    async with session_with_server(project) as (served, path), served.client() as client, visitor() as browser:
        [port] = (await client.get(path)).json()["ports"]
        assert (port["port"], port["address"]) == (8766, "")
        refused = await served.client(TOKENS.drive).post(f"{path}/ports/8766", json={})
        assert refused.status_code == 403
        unknown = await client.post(f"{path}/ports/99", json={})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, "port_unknown")
        url = (await client.post(f"{path}/ports/8766", json={})).json()["url"]
        base = url.partition("/?")[0]
        assert (await browser.get(f"{base}/page.html")).status_code == 401
        assert (await browser.get(f"{base}/?agent-tui=wrong")).status_code == 401
        moved = await browser.get(url)
        assert (moved.status_code, moved.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in moved.headers["set-cookie"]
        page = await browser.get(f"{base}/page.html")
        assert page.text == "pending page\n"
        async with visitor() as other:
            assert (await other.get(url)).status_code == 401  # it is used up
        again = (await client.post(f"{path}/ports/8766", json={})).json()["url"]
        assert again.partition("/?")[0] == base
        assert again != url
        await client.post(f"{path}/commands", json={"type": "port.close", "port": 8766})
        session = path.rpartition("/")[2]
        await (await served.service.find(session)).query(IdleQuery(session=session))
        assert (await browser.get(f"{base}/page.html")).status_code == 502
