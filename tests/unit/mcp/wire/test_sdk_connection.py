"""A connection by the SDK over lines: whatever a server's lists and lines are, its good tools are there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.errors import ToolFailed
from core.mcp.wire.elicitation import Elicitation, ElicitationAnswer
from core.mcp.wire.sdk_connection import MessagePipe, SdkConnection

Answer = Callable[[str, dict[str, Any]], dict[str, Any] | None]


async def ask_nobody(_: Elicitation) -> ElicitationAnswer:
    raise AssertionError("nobody is to be asked")


def greet(method: str) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "played", "version": "1"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
    return {"error": {"code": -32601, "message": "Method not found"}}


@asynccontextmanager
async def connect(answer: Answer, strays: list[str] | None = None, before: str = "") -> AsyncIterator[SdkConnection]:
    """A connection to a server that answers each request with what `answer` returns for method and parameters.

    `before` is printed before each answer.
    """

    def write(data: bytes) -> None:
        message = json.loads(data)
        if "id" in message:
            response = answer(message["method"], message.get("params") or {}) or greet(message["method"])
            pipe.feed(f"{before}{json.dumps({'jsonrpc': '2.0', 'id': message['id'], **response})}\n")

    pipe = MessagePipe(write, (strays if strays is not None else []).append)
    connection = SdkConnection(pipe.open_streams(), lambda: None, ask_nobody)
    await connection.load()
    await connection.open(30.0, "")
    try:
        yield connection
    finally:
        await connection.close()


def list_pages(*pages: dict[str, Any]) -> Answer:
    """The pages of a list of tools, one after the other; the last one again and again."""
    asked: list[str | None] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method != "tools/list":
            return None
        asked.append(params.get("cursor"))
        return pages[min(len(asked), len(pages)) - 1]

    return answer


def page(*names: str, **more: Any) -> dict[str, Any]:
    return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], **more}}


@pytest.mark.parametrize(
    "pages",
    [
        (page("a", nextCursor="same"),),
        (page("a", nextCursor="1"), page("a", nextCursor="2"), page("a", nextCursor="1")),
        (page("a", nextCursor=7), page("a")),
        (page("a", nextCursor=["odd"]), page("a")),
        (page("a", nextCursor=""),),
        (page("a", nextCursor="2"), {"error": {"code": 1, "message": "no second page"}}),
        (page("a", nextCursor="2"), {"result": {"tools": None}}),
        (page("a", nextCursor="2"), {"result": None}),
        (page("a", "a", "a"),),
        ({"result": {"tools": [*page("a")["result"]["tools"], None, {"name": "bad", "_meta": {"": 1}}, 7]}},),
    ],
)
async def test_the_tools_of_a_server_are_listed_once_whatever_its_pages_are(pages):
    async with connect(list_pages(*pages)) as connection, asyncio.timeout(30):
        names = [tool.name for tool in await connection.list_tools(30.0)]
        assert "a" in names
        assert len(names) == len(set(names))


async def test_a_list_whose_pages_never_end_is_cut_and_one_that_stops_answering_is_taken_as_far_as_it_came():
    async with connect(list_pages(page("a", nextCursor="1"), {"jsonrpc": "1.0", "method": "no answer"})) as connection:
        assert [tool.name for tool in await connection.list_tools(0.2)] == ["a"]
    async with connect(list_pages({"method": "no answer"})) as connection:
        with pytest.raises(TimeoutError):
            await connection.list_tools(0.1)
    async with connect(list_pages({"error": {"code": 1, "message": "out of order"}})) as connection:
        with pytest.raises(ToolFailed, match="out of order"):
            await connection.list_tools(30.0)


@pytest.mark.parametrize(
    "noise",
    [
        "Server starting on stdio ...\n\n",
        "{not json\n",
        '{"level":"info","id":2,"error":"none","msg":"a line of a log"}\n',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}\n',
        '{"jsonrpc":"2.0","method":7}\n',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\\ud83d"}}\n',
        '{"jsonrpc":"2.0","id":4711,"result":{}}\n{"jsonrpc":"2.0"}\n[]\n[1]\n"id"\nnull\n',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}\n',
        "\x1b[2J\x00\n",
        "x" * 100_000 + "\n",
    ],
)
async def test_what_a_server_prints_beside_its_answers_costs_no_answer(noise):
    strays: list[str] = []
    async with connect(list_pages(page("a")), strays, before=noise) as connection, asyncio.timeout(30):
        assert [tool.name for tool in await connection.list_tools(30.0)] == ["a"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_a_line_that_comes_in_pieces_is_one_message(newline):
    heard: list[str] = []
    pipe = MessagePipe(lambda _: None, heard.append)
    async with pipe.open_streams() as (reading, _):
        for piece in ('{"jsonrpc":"2.0",', '"id":1,"result":', "{}}", newline):
            pipe.feed(piece)
        assert (await reading.receive()).message.id == 1
    assert heard == []
