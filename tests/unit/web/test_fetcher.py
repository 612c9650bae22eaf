"""Fetching: only the public network, every hop checked, everything bounded, and failures that name the next step."""

from __future__ import annotations

import gzip
import threading
import zlib
from urllib.robotparser import RobotFileParser

import pytest

from core.errors import WebFailed
from core.web.download import MAX_BYTES, MAX_TEXT_BYTES
from core.web.fetcher import MAX_REDIRECTS, MAX_ROBOTS_BYTES, WebFetcher
from tests.support.web_host import PUBLIC, WebHost, collect, moved, packed, page

HELLO = page("<html><title>Hi</title><body><main><p>Hello there.</p></main></body></html>")
INNER = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2001:db9::5efe:a9fe:a9fe",
    "2001:db9::200:5efe:7f00:1",
    "2002:7f00:1::",
    "192.0.0.192",
    "168.63.129.16",
    "::ffff:192.0.0.192",
]


async def fetch(host: WebHost, address: str, *, robots: bool = False, asked: list[str] | None = None):
    approve = collect([] if asked is None else asked)
    return await WebFetcher(host.network()).fetch(address, approve, respects_robots=robots)


async def refusal(host: WebHost, address: str, **more) -> str:
    with pytest.raises(WebFailed) as caught:
        await fetch(host, address, **more)
    assert caught.value.code != "bad_address" or not host.dialled
    return caught.value.code


async def test_a_page_is_fetched_from_the_address_that_was_checked():
    async with WebHost({"/": HELLO}) as host:
        fetched_page = await fetch(host, "http://example.org/")
        assert (fetched_page.title, fetched_page.text, fetched_page.kind) == ("Hi", "Hello there.", "html")
        assert host.dialled == [f"{PUBLIC}:80"]
        assert host.requests == ["example.org/"]


@pytest.mark.parametrize("address", INNER)
async def test_i11_a_name_that_leads_to_an_inner_network_is_never_dialled(address):
    async with WebHost({"/": HELLO}, {"example.org": [[address]]}) as host:
        assert await refusal(host, "http://example.org/") == "refused_address"
        assert host.dialled == []


@pytest.mark.parametrize("address", INNER)
async def test_i11_an_inner_address_itself_is_never_dialled(address):
    async with WebHost({"/": HELLO}) as host:
        written = f"[{address}]" if ":" in address else address
        assert await refusal(host, f"http://{written}/") == "refused_address"
        assert (host.dialled, host.resolved) == ([], [])


async def test_i11_one_inner_address_among_public_ones_refuses_the_name():
    async with WebHost({"/": HELLO}, {"example.org": [[PUBLIC, "127.0.0.1"]]}) as host:
        assert await refusal(host, "http://example.org/") == "refused_address"
        assert host.dialled == []


async def test_i11_a_name_that_resolves_differently_the_second_time_is_refused_then():
    async with WebHost({"/": moved("/b"), "/b": HELLO}, {"example.org": [[PUBLIC], ["127.0.0.1"]]}) as host:
        assert await refusal(host, "http://example.org/") == "refused_address"
        assert host.dialled == [f"{PUBLIC}:80"]


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/meta-data", "http://localhost/", "//127.0.0.1/"])
@pytest.mark.parametrize("by", ["redirect", "refresh"])
async def test_i11_what_leads_on_into_an_inner_network_is_refused(target, by):
    leads = moved(target) if by == "redirect" else page(f"<meta http-equiv='Refresh' content='0; URL={target}'>")
    async with WebHost({"/": leads}, {"localhost": [["127.0.0.1"]]}) as host:
        assert await refusal(host, "http://example.org/") == "refused_address"
        assert host.dialled == [f"{PUBLIC}:80"]


async def test_every_hop_is_asked_about_before_anything_is_sent_to_it():
    ways = {"a.example/": moved("http://b.example/"), "b.example/": page("<meta http-equiv=refresh content='1;/c'>x")}
    async with WebHost({**ways, "b.example/c": HELLO}) as host:
        asked: list[str] = []
        fetched_page = await fetch(host, "http://a.example/", asked=asked)
        assert asked == ["http://a.example/", "http://b.example/", "http://b.example/c"]
        assert fetched_page.address == "http://b.example/c"

        async def refuse_b(address):
            if address.host == "b.example":
                raise WebFailed("no", code="denied")

        host.requests.clear()
        with pytest.raises(WebFailed, match="no"):
            await WebFetcher(host.network()).fetch("http://a.example/", refuse_b, respects_robots=True)
        assert not [request for request in host.requests if request.startswith("b.example")]


async def test_a_page_that_was_kept_asks_for_every_host_again_and_fetches_nothing():
    async with WebHost({"a.example/": moved("http://b.example/"), "b.example/": HELLO}) as host:
        fetcher, asked = WebFetcher(host.network()), []
        first = await fetcher.fetch("http://a.example/", collect([]), respects_robots=False)
        host.requests.clear()
        assert await fetcher.fetch("http://a.example/", collect(asked), respects_robots=False) is first
        assert (asked, host.requests) == (["http://a.example/", "http://b.example/"], [])


async def test_redirects_end():
    async with WebHost({"/": moved("/")}) as host:
        assert await refusal(host, "http://example.org/") == "too_many_redirects"
        assert len(host.requests) == MAX_REDIRECTS + 1


async def test_a_text_that_never_ends_is_cut():
    async with WebHost({}) as host:
        host.endless = b"word " * 20_000
        fetched_page = await fetch(host, "http://example.org/endless")
        assert len(fetched_page.text) == MAX_TEXT_BYTES
        assert "only the beginning" in fetched_page.note


async def test_a_page_of_50_mb_is_cut_and_a_file_of_it_refused():
    text, pdf = page("x" * 50_000_000, media_type="text/plain"), b"%PDF-1.7\n" + b"x" * 50_000_000
    async with WebHost({"/t": text, "/f": (200, {"Content-Type": "application/pdf"}, pdf)}) as host:
        assert len((await fetch(host, "http://example.org/t")).text) == MAX_TEXT_BYTES
        assert await refusal(host, "http://example.org/f") == "too_large"


async def test_a_bomb_of_gzip_is_unpacked_no_further_than_a_text_may_have():
    async with WebHost({"/": packed(b"a" * (MAX_BYTES * 20)), "/small": packed(b"small")}) as host:
        assert len((await fetch(host, "http://example.org/")).text) == MAX_TEXT_BYTES
        assert (await fetch(host, "http://example.org/small")).text == "small"


def sent(data: bytes, encoding: str):
    return 200, {"Content-Type": "text/plain", "Content-Encoding": encoding}, data


@pytest.mark.parametrize(
    "reply",
    [
        sent(gzip.compress(b"first ") + gzip.compress(b"second") + bytes(8), "gzip"),
        sent(zlib.compress(b"first second"), "deflate"),
        sent(zlib.compress(b"first second")[2:-4], "deflate"),
    ],
)
async def test_an_answer_is_unpacked_as_browsers_do(reply):
    async with WebHost({"/": reply}) as host:
        assert (await fetch(host, "http://example.org/")).text == "first second"


@pytest.mark.parametrize("to", ["/gr\u00fc\u00dfe", "/gr%C3%BC%C3%9Fe", "http://example.org/gr\u00fc\u00dfe"])
async def test_where_an_answer_leads_to_may_be_written_in_utf_8_or_with_spaces(to):
    async with WebHost({"/": moved(f"{to} a"), "/gr%C3%BC%C3%9Fe%20a": HELLO}) as host:
        assert (await fetch(host, "http://example.org/")).title == "Hi"


async def test_an_answer_that_leads_to_no_page_is_named():
    async with WebHost({"/": moved("ftp://example.org/")}) as host:
        with pytest.raises(WebFailed, match=r"example\.org points to an invalid address: it does not"):
            await fetch(host, "http://example.org/")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ((404, {}, b""), "not_found"),
        ((410, {}, b""), "not_found"),
        ((403, {}, b""), "blocked"),
        ((429, {}, b""), "blocked"),
        ((503, {}, b""), "server_error"),
        ((200, {"Content-Type": "text/html", "Content-Encoding": "br"}, b"x"), "unsupported"),
        ((200, {"Content-Type": "text/html", "Content-Encoding": "gzip"}, b"not gzip"), "damaged"),
        (sent(gzip.compress(b"word " * 99)[:-9], "gzip"), "damaged"),
        (sent(gzip.compress(b"") * 600, "gzip"), "damaged"),
        (sent(b"\7not packed", "deflate"), "damaged"),
        ((200, {"Content-Type": "application/octet-stream"}, b"\0\1\2"), "unsupported"),
        ((200, {"Content-Type": "image/png"}, b"\x89PNG\r\n\x1a\nbroken"), "unsupported"),
        ((200, {"Content-Type": "application/pdf"}, b"%PDF-broken"), "unsupported"),
    ],
)
async def test_a_failure_says_why_in_a_word(reply, code):
    async with WebHost({"/": reply}) as host:
        assert await refusal(host, "http://example.org/") == code


async def test_what_robots_txt_keeps_programs_from_is_not_fetched():
    rules = page("User-agent: *\nDisallow: /private", media_type="text/plain")
    async with WebHost({"/robots.txt": rules, "/private/a": HELLO, "/open": HELLO}) as host:
        assert await refusal(host, "http://example.org/private/a", robots=True) == "robots"
        assert "example.org/private/a" not in host.requests
        assert (await fetch(host, "http://example.org/open", robots=True)).title == "Hi"
        assert (await fetch(host, "http://example.org/private/a")).title == "Hi"


async def test_b10_a_robots_txt_of_any_length_keeps_nothing_else_waiting(monkeypatch):
    read, parse = [], RobotFileParser.parse

    def noted(self, lines):
        read.append((threading.current_thread(), sum(map(len, lines))))
        parse(self, lines)

    monkeypatch.setattr(RobotFileParser, "parse", noted)
    rules = page("User-agent: *\nDisallow: /private\n" + "Disallow: /x\n" * 100_000, media_type="text/plain")
    async with WebHost({"/robots.txt": rules, "/private/a": HELLO}) as host:
        assert await refusal(host, "http://example.org/private/a", robots=True) == "robots"
    [(thread, length)] = read
    assert thread is not threading.main_thread()
    assert length <= MAX_ROBOTS_BYTES
