"""What a remote server is reached through: no way into an inner network, and answers of a bounded size."""

from __future__ import annotations

import gzip
import ssl
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2
import pytest

from core.errors import WebFailed
from core.mcp import http_link
from core.mcp.http_link import GuardedTransport, build_server_network, build_target
from core.mcp.server_config import ServerConfig, Variables
from tests.support.mcp_http import HttpServer


class Dialled(Exception):
    """The address that would have been connected to."""


async def dial(host: str, inner: tuple[str, ...], *addresses: str) -> str:
    async def resolve(_: str) -> list[Any]:
        return [ip_address(address_text) for address_text in addresses]

    async def connect(address: str, port: int) -> Any:
        raise Dialled(f"{address}:{port}")

    with pytest.raises(Dialled) as exception_info:
        await build_server_network(inner, resolve, connect).connect_tcp(host, 443)
    return str(exception_info.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1"])
async def test_i11_a_name_that_nobody_named_as_inner_is_not_reached_where_it_leads_inside(address):
    with pytest.raises(WebFailed, match="not on the public network"):
        await dial("login.example", ("far.example",), address)
    with pytest.raises(WebFailed, match="not on the public network"):
        await dial("login.example", (), "93.184.215.14", address)


async def test_a_host_that_is_named_is_reached_where_it_is():
    assert await dial("Far.example", ("far.example",), "10.0.0.1") == "10.0.0.1:443"
    assert await dial("far.example", (), "93.184.215.14") == "93.184.215.14:443"


async def test_each_address_of_a_host_that_is_named_is_tried_and_of_another_the_first():
    dialled = []

    async def resolve(_: str) -> list[Any]:
        return [ip_address(address_text) for address_text in ("93.184.215.14", "93.184.215.15")]

    async def connect(address: str, port: int) -> Any:
        dialled.append(address)
        raise httpcore2.ConnectError(address)

    network = build_server_network(("far.example",), resolve, connect)
    with pytest.raises(httpcore2.ConnectError, match=r"93\.184\.215\.15"):
        await network.connect_tcp("far.example", 443)
    assert dialled == ["93.184.215.14", "93.184.215.15"]
    with pytest.raises(httpcore2.ConnectError, match=r"93\.184\.215\.14"):
        await network.connect_tcp("other.example", 443)
    assert dialled[2:] == ["93.184.215.14"]


@pytest.mark.parametrize(
    ("url", "is_project", "inner"),
    [
        ("https://far.example/mcp", False, {"far.example"}),
        ("https://far.example/mcp", True, set()),
        ("http://127.0.0.1:3000/mcp", True, {"127.0.0.1"}),
        ("http://localhost:3000/mcp", True, {"localhost"}),
        ("http://[::1]:3000/mcp", True, {"::1"}),
        ("https://93.184.215.14/mcp", True, set()),
    ],
)
def test_i11_an_entry_of_the_project_names_an_inner_host_only_where_one_reads_it_there(
    tmp_path, url, is_project, inner
):
    config = ServerConfig(name="far", url=url, is_project=is_project)
    assert build_target(config, Variables(tmp_path, {})).inner == inner


def answer(body: bytes, **headers: str) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        raw_headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw_headers})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.parametrize(
    ("is_packed", "said"),
    [(False, "sends an answer of more than 0 MB"), (True, "uses an encoding that was not requested")],
)
async def test_b10_an_answer_that_is_too_long_or_packed_is_not_read(monkeypatch, is_packed, said):
    body, headers = b"x" * 5_000, {}
    if is_packed:
        body, headers = gzip.compress(body), {"content_encoding": "gzip"}
    monkeypatch.setattr(http_link, "MAX_BYTES", 1_000)
    async with HttpServer(answer(body, **headers), lifespan="off") as server:
        transport = GuardedTransport(build_server_network({"127.0.0.1"}), ssl.create_default_context(), lambda _: True)
        async with httpx2.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx2.ReadError, match=said):
                await client.get(server.url)
        assert transport.fault is not None
        assert said in transport.fault.text
