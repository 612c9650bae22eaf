"""One end of an ACP connection: whatever the pieces are that its bytes come in, and whatever comes between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.acp import connection as acp
from core.acp.connection import AcpError, Connection, PeerGone


class Ears:
    """What an end has heard, and its answers: `echo` gives the params back, `fail` an error, `wait` none at all."""

    def __init__(self) -> None:
        self.noticed: list[tuple[str, Mapping[str, Any]]] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "wait":
            await asyncio.Event().wait()
        if method == "fail":
            raise AcpError("no", number=-32002)
        if method != "echo":
            raise AcpError("unknown", number=acp.METHOD_NOT_FOUND)
        return params

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        self.noticed.append((method, params))


class Sent(list[Any]):
    """The messages of one end, and a wait for as many."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def add(self, data: bytes) -> None:
        self.append(json.loads(data))
        self._news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self) < count:
                self._news.clear()
                await self._news.wait()


def make() -> tuple[Connection, Ears, Sent]:
    ears, sent = Ears(), Sent()
    return Connection(sent.add, ears), ears, sent


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"


@given(
    texts=st.lists(st.text(), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    garbage=st.lists(st.binary(max_size=40).filter(lambda each: b"\n" not in each), max_size=4),
)
def test_notifications_arrive_whole_and_in_order_however_they_are_cut_and_whatever_is_printed_between(
    texts: list[str], cuts: list[int], garbage: list[bytes]
):
    connection, ears, _ = make()
    noise = [b"printed " + chunk + b"\n" for chunk in garbage]
    data = b"".join(
        part
        for place, text in enumerate(texts)
        for part in (*noise[place : place + 1], line(method="say", params={"t": text}))
    )
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in pairwise(places):
        connection.feed(data[start:end])
    assert [params["t"] for _, params in ears.noticed] == texts


async def test_a_request_gets_its_answer_or_its_error_and_none_is_confused_with_another():
    connection, _, sent = make()
    first = asyncio.ensure_future(connection.request("a", {}))
    second = asyncio.ensure_future(connection.request("b", {}))
    await asyncio.sleep(0)
    numbers = {message["method"]: message["id"] for message in sent}
    connection.feed(
        line(id=numbers["b"], error={"code": -32000, "message": "log in", "data": {"details": "by /login"}})
    )
    connection.feed(line(id=999, result={}) + line(id=numbers["a"], result={"x": 1}))
    assert await first == {"x": 1}
    with pytest.raises(AcpError, match="log in: by /login") as raised:
        await second
    assert raised.value.number == acp.AUTH_REQUIRED


async def test_requests_of_the_other_side_are_answered_refused_and_cancelled():
    connection, _, sent = make()
    connection.feed(
        line(id="x", method="echo", params={"a": 1}) + line(id=2, method="fail") + line(id=3, method="nope")
    )
    connection.feed(line(id=4, method="wait") + line(method="$/cancel_request", params={"requestId": 4}))
    connection.feed(b'{"not json\n')
    await sent.until(5)
    answers = {response["id"]: response.get("result", response.get("error", {}).get("code")) for response in sent}
    assert answers == {"x": {"a": 1}, 2: -32002, 3: acp.METHOD_NOT_FOUND, 4: acp.CANCELLED, None: acp.PARSE_ERROR}


async def test_a_line_without_end_is_dropped_and_what_follows_is_heard(monkeypatch):
    monkeypatch.setattr(acp, "MAX_LINE", 1000)
    connection, ears, sent = make()
    for _ in range(5):
        connection.feed(b"x" * 400)
    connection.feed(b"the end of it\n" + line(method="say", params={"t": "heard"}))
    assert [params["t"] for _, params in ears.noticed] == ["heard"]
    assert sent[0]["error"]["code"] == acp.INVALID_REQUEST


async def test_who_waits_learns_that_the_other_side_is_gone_and_of_a_time_limit():
    connection, _, sent = make()
    waiting = asyncio.ensure_future(connection.request("a", {}))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await connection.request("b", {}, seconds=0.01)
    assert sent[-1] == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}
    connection.close("it died")
    with pytest.raises(PeerGone, match="it died"):
        await waiting
    with pytest.raises(PeerGone):
        await connection.request("c", {})
