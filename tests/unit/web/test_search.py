"""Search engines: each is asked as its documentation wants it, at the address that the user wrote down."""

from __future__ import annotations

import pytest

from core.config.settings import SearchSettings
from core.errors import WebFailed
from core.web.network import GuardedNetwork
from core.web.search import WebQuery, find_engine_address, search_web
from tests.support.search_engines import KEY, TITLE, URL, SearchServer
from tests.support.web_host import collect

ENGINES = ("searxng", "brave", "tavily", "exa")


def settings_of(server, **more):
    return SearchSettings(provider=server.engine, base_url=server.url, **more)


async def search(settings, query=None, approved=None):
    approve = collect([] if approved is None else approved)
    return await search_web(settings, query or WebQuery(text="how do tasks run"), GuardedNetwork(), approve)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    for name in ("BRAVE_API_KEY", "TAVILY_API_KEY", "EXA_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("engine", ENGINES)
async def test_each_engine_is_asked_as_its_documentation_wants_it(engine):
    approved: list[str] = []
    async with SearchServer(engine) as server:
        hits = await search(settings_of(server), WebQuery(text="tasks & threads", count=5), approved)
        assert server.refused == []
        assert [request.get("q", request.get("query")) for request in server.requests] == ["tasks & threads"]
        assert approved == [f"{server.url}/"]
    assert (hits[0].title, hits[0].url, hits[0].snippet) == (TITLE, URL, "Tasks run coroutines at once.")
    assert [hit.url for hit in hits] == [URL, "https://evil.example/"]
    assert "\x1b" not in hits[1].snippet


@pytest.mark.parametrize("engine", ENGINES)
async def test_domains_are_asked_for_and_what_an_engine_brings_beside_them_is_left_out(engine):
    async with SearchServer(engine) as server:
        allowed = await search(settings_of(server), WebQuery(text="tasks", allowed=("example",)))
        only = await search(settings_of(server), WebQuery(text="tasks", allowed=("docs.example",)))
        without = await search(settings_of(server), WebQuery(text="tasks", blocked=("evil.example",)))
        assert server.refused == []
        asked = server.requests[1]
    assert len(allowed) == 2
    assert [hit.url for hit in only] == [hit.url for hit in without] == [URL]
    assert "docs.example" in str(asked)


@pytest.mark.parametrize(
    ("status", "code"), [(401, "refused_key"), (429, "rate_limited"), (503, "server_error"), (302, "no_search")]
)
async def test_an_engine_that_does_not_answer_says_why(status, code):
    async with SearchServer("brave", status=status) as server:
        with pytest.raises(WebFailed) as problem:
            await search(settings_of(server))
        assert problem.value.code == code
        assert KEY not in problem.value.format_with_hint()


async def test_a_searxng_that_gives_no_json_is_told_how_to_be_set():
    async with SearchServer("searxng", status=403) as server:
        with pytest.raises(WebFailed, match="refuses to answer") as problem:
            await search(settings_of(server))
        assert "formats" in problem.value.hint


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"results": "x"}', b'{"results": [{"url": 5}]}'])
async def test_an_answer_of_another_shape_is_a_clear_failure(answer):
    async with SearchServer("exa", answer=answer) as server:
        with pytest.raises(WebFailed) as problem:
            await search(settings_of(server))
        assert problem.value.code == "bad_answer"


@pytest.mark.parametrize("odd", [b"5", b'{"url": null}', b'{"url": "https://b.example/", "title": 5}'])
async def test_a_hit_of_another_shape_leaves_the_others(odd):
    good = f'{{"url": "{URL}", "title": "{TITLE}"}}'.encode()
    for answer in (b'{"results": [%b, %b]}', b'{"web": {"results": [%b, %b]}}'):
        async with SearchServer("exa", answer=answer % (odd, good)) as server:
            assert [hit.url for hit in await search(settings_of(server))] == [URL]


async def test_a_brave_that_finds_nothing_leaves_its_hits_out():
    async with SearchServer("brave", answer=b'{"type": "search"}') as server:
        assert await search(settings_of(server)) == ()


async def test_a_missing_key_is_told_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("TAVILY_API_KEY")
    async with SearchServer("tavily") as server:
        with pytest.raises(WebFailed, match="no key for tavily") as problem:
            await search(settings_of(server))
        assert (problem.value.code, server.requests, server.refused) == ("no_key", [], [])


async def test_a_key_may_come_from_a_command_or_another_variable(monkeypatch):
    monkeypatch.delenv("TAVILY_API_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    async with SearchServer("tavily") as server:
        assert await search(settings_of(server, key_command=f"echo {KEY}"))
        assert await search(settings_of(server, api_key_env="MY_KEY"))


async def test_i11_only_the_very_host_and_port_of_the_configuration_may_be_inner():
    async with SearchServer("searxng") as server, SearchServer("searxng") as other:
        network = GuardedNetwork().admit(find_engine_address(settings_of(server)).target)
        for url in (other.url, server.url.replace("127.0.0.1", "127.0.0.2")):
            host, _, port = url.removeprefix("http://").partition(":")
            with pytest.raises(WebFailed) as problem:
                await network.connect_tcp(host, int(port))
            assert problem.value.code == "refused_address"


def test_an_address_that_is_none_names_its_setting():
    with pytest.raises(WebFailed, match=r"web\.search\.base_url"):
        find_engine_address(SearchSettings(provider="searxng", base_url="searx.local"))
