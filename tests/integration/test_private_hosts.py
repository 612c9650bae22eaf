"""Hosts on a private network (`network.private_hosts`): reached by the user's own configuration alone, after a yes."""

from __future__ import annotations

import asyncio
import functools
import ipaddress

import pytest

from core.config.loading import load_with_notices
from core.sandbox.proxy import Proxy
from core.web.network import GuardedNetwork
from tests.integration.conftest import Outside
from tests.integration.test_permissions import asked, engine_of, results, turn
from tests.support.agent_case import calls, says
from tests.support.boxes import command
from tests.support.configured import configured
from tests.support.story import project_at
from tests.support.web_host import WebHost

MIRROR = "mirror.corp.example"
NAMED = f'[network]\nprivate_hosts = ["{MIRROR}"]\n'
GET = f"curl -sS --max-time 20 http://{MIRROR}/"


@pytest.fixture
def project(tmp_path):
    return project_at(tmp_path / "project")


@pytest.fixture
async def mirror(monkeypatch):
    """A host whose name leads to the addresses in `addresses`; whichever is dialled, it is a server on loopback."""
    host = Outside()
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    host.addresses, host.dialled = ["10.1.2.3"], []

    async def resolve(_name):
        return [ipaddress.ip_address(address) for address in host.addresses]

    async def dial(address, port):
        host.dialled.append(f"{address}:{port}")
        return await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])

    monkeypatch.setattr("core.shell.network_grants.Proxy", functools.partial(Proxy, resolve=resolve))
    monkeypatch.setattr("core.sandbox.proxy.dial_address", dial)
    yield host
    server.close()


async def test_i11_a_command_reaches_a_private_host_that_the_users_settings_name_after_a_yes(project, mirror):
    configured(NAMED)
    async with engine_of(project, command(GET), command(GET), says("ok")) as (engine, session):
        requests = asked(await turn(engine, session, "allow_once", "reject_once"))
        assert [request.kind for request in requests] == ["network", "network"]  # a yes holds once, as for any host
        assert mirror.dialled == ["10.1.2.3:80"]
        assert "not on the public network" not in results(engine, session)[0]


@pytest.mark.parametrize(
    ("settings", "addresses", "reason"),
    [
        ("", ["10.1.2.3"], "not on the public network, and not in network.private_hosts"),
        (NAMED, ["127.0.0.1"], "not all its addresses are in a private network"),
        (NAMED, ["10.1.2.3", "169.254.169.254"], "not all its addresses are in a private network"),
    ],
)
async def test_i11_a_refused_private_host_is_named_with_the_reason(project, mirror, settings, addresses, reason):
    configured(settings)
    mirror.addresses = addresses
    async with engine_of(project, command(GET), says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        assert mirror.dialled == []
        assert f"[The host {MIRROR} is " in results(engine, session)[0]
        assert reason in results(engine, session)[0]


async def test_m10_a_project_names_no_private_host(project, mirror):
    configured("")
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui/config.toml").write_text(NAMED)
    async with engine_of(project, command(GET), says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        assert mirror.dialled == []
    loaded = load_with_notices(project)
    assert loaded.settings.network.private_hosts == ()
    assert "`network.private_hosts` was ignored" in loaded.notices[0]


async def test_i11_a_page_of_a_private_host_is_fetched_if_the_users_settings_name_it(project, monkeypatch):
    step = calls(("call_tool", {"name": "web_fetch", "arguments": {"url": f"http://{MIRROR}/"}}))
    async with WebHost({"/": (200, {"Content-Type": "text/plain"}, b"hello from within")}) as host:
        host.addresses[MIRROR] = [["192.168.7.7"]]
        own = host.network()
        network = functools.partial(GuardedNetwork, own._resolve, own._connect)
        monkeypatch.setattr("core.web.network.GuardedNetwork", network)
        for settings, start in (("", "refused_address:"), (NAMED, "")):
            configured(f'[web]\nrobots = false\n[permissions]\nallow = ["WebFetch(*)"]\n{settings}')
            async with engine_of(project, step, says("ok")) as (engine, session):
                await turn(engine, session)
                [text] = results(engine, session)
                assert text.startswith(start)
                assert ("hello from within" in text) == (settings == NAMED)
        assert set(host.dialled) == {"192.168.7.7:80"}
