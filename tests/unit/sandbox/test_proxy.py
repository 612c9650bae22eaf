"""The way out of a box, over real sockets: who is reached, what is refused, and what is told of it."""

from __future__ import annotations

import asyncio
import ipaddress
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.sandbox.addresses import HostAndPort, is_private, is_public, parse_host_and_port, parse_ip_address
from core.sandbox.proxy import MAX_HEAD_BYTES, ProxiedConnection, Proxy


class Outside:
    """A server on loopback that answers what it is told and keeps what it is sent."""

    def __init__(self) -> None:
        self.heard = b""
        self.port = 0
        self.ended = asyncio.Event()

    async def serve(self, reader, writer):
        self.heard += await reader.readuntil(b"\r\n\r\n" if not self.heard else b"\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.write_eof()
        self.heard += await reader.read()
        writer.close()
        self.ended.set()


class Inside:
    """The proxy with what it told, and clients of it."""

    def __init__(self, path, outside) -> None:
        self.path, self.outside = path, outside
        self.refused: list[HostAndPort] = []
        self.passed: list[ProxiedConnection] = []
        self.looked_up: list[str] = []
        self.over = asyncio.Event()
        self.made: Proxy | None = None

    def take(self, passed: ProxiedConnection) -> None:
        self.passed.append(passed)
        self.over.set()

    async def say(self, text: str | bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        writer.write(text.encode() if isinstance(text, str) else text)
        await writer.drain()
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer


@asynccontextmanager
async def proxy(directory, *hosts, public=lambda _: True, addresses=("127.0.0.1",)) -> AsyncIterator[Inside]:
    outside = Outside()
    server = await asyncio.start_server(outside.serve, "127.0.0.1", 0)
    outside.port = server.sockets[0].getsockname()[1]
    inside = Inside(directory, outside)

    async def resolve(host):
        inside.looked_up.append(host)
        return [ipaddress.ip_address(address) for address in addresses]

    proxy_server = Proxy(
        lambda host: host in hosts,
        on_refusal=inside.refused.append,
        on_connection=inside.take,
        public=public,
        resolve=resolve,
    )
    inside.made, inside.path = proxy_server, await proxy_server.start(directory / "network")
    try:
        yield inside
    finally:
        await proxy_server.close()
        server.close()


async def test_a_tunnel_to_a_granted_host_passes_bytes_and_is_counted(tmp_path):
    async with proxy(tmp_path, "example.test") as on:
        answer = await on.say(f"CONNECT Example.TEST.:{on.outside.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
        assert answer.endswith(b"hello")
        assert on.outside.heard == b"GET / HTTP/1.1\r\n\r\n"
        assert on.looked_up == ["example.test"]
        await on.over.wait()
        (passed,) = on.passed
        assert (passed.target, passed.address) == (HostAndPort("example.test", on.outside.port), "127.0.0.1")
        assert (passed.sent, passed.received) == (18, 43)


async def test_a_tunnel_is_ended_when_its_host_is_taken_back_and_no_other_one(tmp_path):
    async with proxy(tmp_path, "example.test", "other.test") as on:
        tunnels = []
        for host in ("example.test", "other.test"):
            reader, writer = await asyncio.open_unix_connection(str(on.path))
            writer.write(f"CONNECT {host}:{on.outside.port} HTTP/1.1\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            tunnels.append((reader, writer))
        assert on.made is not None
        assert on.made.end_connections(lambda host: host == "example.test") == (
            HostAndPort("example.test", on.outside.port),
        )
        assert await tunnels[0][0].read() == b""
        tunnels[1][1].write(b"GET / HTTP/1.1\r\n\r\n")
        assert await tunnels[1][0].readexactly(8) == b"HTTP/1.1"
        for _, writer in tunnels:
            writer.close()


async def test_a_plain_request_is_told_in_the_hosts_own_form_and_no_second_one_gets_through(tmp_path):
    async with proxy(tmp_path, "example.test") as on:
        port = on.outside.port
        text = (
            f"POST http://EXAMPLE.test:{port}/a?b=c HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: x\r\n"
            "X-Kept: yes\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc"
            f"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        )
        assert (await on.say(text)).endswith(b"hello")
        await on.outside.ended.wait()
        request_text = on.outside.heard.decode()
        assert request_text.startswith(f"POST /a?b=c HTTP/1.1\r\nHost: example.test:{port}\r\nX-Kept: yes\r\n")
        assert "Connection: close" in request_text
        assert "Proxy-Authorization" not in request_text
        assert request_text.endswith("\r\n\r\nabc")
        assert "evil" not in request_text


async def test_s5_a_host_that_was_not_granted_is_refused_unasked_and_told(tmp_path):
    async with proxy(tmp_path) as on:
        answer = await on.say("CONNECT example.org:443 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 Forbidden")
        assert b"example.org was not granted" in answer
        assert on.refused == [HostAndPort("example.org", 443)]
        assert on.looked_up == []
        assert on.outside.heard == b""


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fc00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "ff02::1",
        "192.0.0.192",
        "168.63.129.16",
        "192.88.99.1",
        "3fff::1",
        "::ffff:192.0.0.192",
    ],
)
async def test_i11_n11_a_name_that_leads_into_private_space_is_refused_after_the_look_up(tmp_path, address):
    async with proxy(tmp_path, "example.test", public=is_public, addresses=("93.184.216.34", address)) as on:
        answer = await on.say(f"CONNECT example.test:{on.outside.port} HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"not on the public network" in answer
        assert on.looked_up == ["example.test"]
        assert on.refused == []
        assert on.passed == []


@pytest.mark.parametrize(
    ("address", "is_reached"),
    [
        ("10.0.0.1", True),
        ("172.16.0.1", True),
        ("192.168.1.1", True),
        ("100.64.0.1", True),
        ("fd12::1", True),
        ("198.18.0.7", True),
        ("203.0.113.9", True),
        ("::ffff:10.0.0.1", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("0.0.0.0", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("100.100.100.200", False),
        ("::ffff:100.100.100.200", False),
        ("fd00:ec2::254", False),
        ("224.0.0.1", False),
        ("192.0.0.192", False),
    ],
)
def test_i11_a_private_host_may_have_private_addresses_and_no_others(address, is_reached):
    assert is_private(ipaddress.ip_address(address)) == is_reached


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"])
async def test_i11_n11_an_address_of_this_machine_is_refused_even_if_it_was_granted(tmp_path, host):
    async with proxy(tmp_path, "127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", public=is_public) as on:
        answer = await on.say(f"CONNECT {host}:{on.outside.port} HTTP/1.1\r\n\r\n")
        assert b"not on the public network" in answer
        assert on.outside.heard == b""


def test_public_addresses_are_public():
    assert all(is_public(ipaddress.ip_address(address)) for address in ("93.184.216.34", "2606:2800:220:1::1"))


@pytest.mark.parametrize(
    "text",
    [
        "evil\0.allowed.com:443",
        "allowed.com@evil.test:443",
        "user:pass@allowed.com:443",
        "allowed.com%00.evil:443",
        "allowed.com:443:80",
        "allowed.com:",
        "allowed.com:0",
        "allowed.com:65536",
        "allowed.com:0443",
        "allowed.com:+443",
        "allowed .com:443",
        "allowed.com\t:443",
        "bücher.example:443",
        "\uff45vil.test:443",
        "allowed.com..:443",
        ".allowed.com:443",
        "-a.com:443",
        "2130706433:443",
        "127.1:443",
        "0x7f.0x1:443",
        "1.2.3.0x4:443",
        "[::1:443",
        "[fe80::1%eth0]:443",
        "a" * 64 + ".com:443",
        ":443",
        "",
    ],
)
def test_i12_what_could_be_read_in_two_ways_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_host_and_port(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("ExamPle.org:443", HostAndPort("example.org", 443)),
        ("example.org.:443", HostAndPort("example.org", 443)),
        ("xn--bcher-kva.example:443", HostAndPort("xn--bcher-kva.example", 443)),
        ("[2606:2800:0220::1]:443", HostAndPort("2606:2800:220::1", 443)),
        ("93.184.216.34:80", HostAndPort("93.184.216.34", 80)),
    ],
)
def test_i12_what_is_decided_about_is_what_is_dialled(text, target):
    assert parse_host_and_port(text) == target
    assert parse_ip_address("example.org") is None


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n",
        "GET https://example.test/ HTTP/1.1\r\n\r\n",
        "GET http://user@example.test/ HTTP/1.1\r\n\r\n",
        "GET http://example.test\\@evil/ HTTP/1.1\r\n\r\n",
        "CONNECT example.test HTTP/1.1\r\n\r\n",
        "CONNECT example.test:443 HTTP/2\r\n\r\n",
        "CONNECT  example.test:443 HTTP/1.1\r\n\r\n",
        "CONNECT example.test:443 HTTP/1.1\r\n Folded: x\r\n\r\n",
        "CONNECT example.test:443 HTTP/1.1\nHost: x\r\n\r\n",
        "POST http://example.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST http://example.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST http://example.test/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "\x00\x01\x02\r\n\r\n",
    ],
)
async def test_i12_a_request_that_is_not_strictly_one_is_refused(tmp_path, request_text):
    async with proxy(tmp_path, "example.test") as on:
        assert (await on.say(request_text)).startswith(b"HTTP/1.1 400 Bad Request")
        assert (on.looked_up, on.outside.heard) == ([], b"")


async def test_a_head_without_end_is_refused(tmp_path):
    async with proxy(tmp_path, "example.test") as on:
        answer = await on.say(b"GET http://example.test/ HTTP/1.1\r\nX: " + b"a" * (2 * MAX_HEAD_BYTES))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
        assert on.outside.heard == b""


async def test_a_client_that_leaves_and_a_host_that_is_not_there_are_no_trouble(tmp_path):
    async with proxy(tmp_path, "example.test", addresses=()) as on:
        assert await on.say(b"") == b""
        assert (await on.say("CONNECT example.test:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502")
        assert on.refused == []


async def test_the_socket_is_the_users_alone_lies_deep_and_goes_with_the_proxy(tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    async with proxy(deep, "example.test") as on:
        assert stat.S_IMODE(on.path.stat().st_mode) == 0o600
        path = on.path
    assert not path.exists()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", 407),
        ("Proxy-Authorization: Basic YWdlbnQ6d3Jvbmc=\r\n", 407),  # agent:wrong
        ("Proxy-Authorization: Bearer YWdlbnQ6c2VjcmV0\r\n", 407),
        ("Proxy-Authorization: Basic YWdlbnQ6c2VjcmV0\r\n", 200),  # agent:secret
        ("proxy-authorization:basic YWdlbnQ6c2VjcmV0\r\n", 200),
    ],
)
async def test_a_proxy_with_a_login_serves_nobody_without_it(tmp_path, header, status):
    async with proxy(tmp_path, "example.test") as on:
        assert on.made is not None
        on.made.login = "agent:secret"
        answer = await on.say(f"GET http://example.test:{on.outside.port}/ HTTP/1.1\r\n{header}\r\n")
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert (b"Proxy-Authenticate: Basic" in answer) == (status == 407)
        assert b"uthorization" not in on.outside.heard
        assert bool(on.looked_up) == (status == 200)
