"""A server that is reached by a proxy: which of the two did not answer is told, and what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.errors import ProviderError
from core.providers.connection.addresses import NamedProxy, find_proxy
from core.providers.connection.endpoint import Endpoint
from core.providers.openai.provider import OpenAIProvider
from core.secrets import Secret
from tests.support.provider_calls import KEY, ask


async def fail_through(monkeypatch: pytest.MonkeyPatch, address: str, variable: str = "HTTPS_PROXY") -> ProviderError:
    """Ask a model beyond a proxy, of which not even the name is looked up here."""
    monkeypatch.setenv(variable, address)
    endpoint = Endpoint(
        id="openai", label="The host", base_url="https://models.example/v1", find_key=lambda **_: (Secret(KEY), "")
    )
    provider = OpenAIProvider(endpoint, speaks="chat")
    try:
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        return caught.value
    finally:
        await provider.close()


@asynccontextmanager
async def proxy(answer: bytes) -> AsyncIterator[str]:
    """A proxy that gives the same answer to whatever is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
async def test_a_proxy_that_is_not_there_is_named_with_its_variable(monkeypatch, variable):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        error = await fail_through(monkeypatch, f"http://{address}", variable)
    assert (error.code, error.retryable) == ("unreachable", True)
    assert f"through the proxy of {variable} (http://{address}): nothing answers there" in error.message
    assert variable in error.hint
    assert "base URL" not in error.format_with_hint()


@pytest.mark.parametrize(
    ("status", "again"),
    [("407 Proxy Authentication Required", False), ("403 Forbidden", False), ("502 Bad Gateway", True)],
)
async def test_what_a_proxy_answers_is_told_as_its_own_words(monkeypatch, status, again):
    async with proxy(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as address:
        error = await fail_through(monkeypatch, f"http://me:hunter2@{address}")
    assert (error.code, error.retryable) == ("unreachable", again)
    assert f"refused the connection ({status})" in error.message
    assert "hunter2" not in error.format_with_hint()


async def test_a_proxy_whose_tls_is_none_is_named(monkeypatch):
    async with proxy(b"HTTP/1.1 200 Connection established\r\n\r\nno handshake of TLS\r\n") as address:
        error = await fail_through(monkeypatch, address)
    assert error.code in {"tls_failed", "unreachable", "stream_cut"}
    assert "prox" in error.format_with_hint()


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://a.example/v1", {"https_proxy": "one", "ALL_PROXY": "two"}, ("https_proxy", "one")),
        ("http://a.example/v1", {"https_proxy": "one", "ALL_PROXY": "two"}, ("ALL_PROXY", "two")),
        ("https://a.example/v1", {"HTTPS_PROXY": "one", "NO_PROXY": "a.example"}, None),
        ("https://b.a.example/v1", {"HTTPS_PROXY": "one", "NO_PROXY": ".a.example"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "one", "no_proxy": "*"}, None),
        ("http://localhost:1/v1", {"HTTP_PROXY": "one"}, None),
        ("http://127.0.0.1:1/v1", {"ALL_PROXY": "one"}, None),
        ("https://a.example/v1", {}, None),
    ],
)
def test_the_proxy_of_an_address_is_the_one_that_is_used(url, environment, proxy):
    assert find_proxy(url, environment) == (proxy and NamedProxy(*proxy))
