"""The messages of an MCP server as streams of the SDK: lines of a process, or HTTP.

A list of tools is mended on its way: the SDK refuses the whole of it for one tool that is not as the protocol wants it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from core.tasks import cancel_tasks

if TYPE_CHECKING:
    import httpx2

MAX_LINE: Final = 32 << 20  # characters of one message
MOST_WAITING: Final = 10_000  # messages that were not yet looked at
MAX_NAME: Final = 128  # characters of the name of a tool
_TOOL_KEYS: Final = {"title": str, "description": str, "inputSchema": dict, "annotations": dict, "_meta": dict}


class MessagePipe:
    """Messages as lines, to and from a server that is no socket. `write` gets bytes; `feed` takes what it printed."""

    def __init__(self, write: Callable[[bytes], None], on_stray: Callable[[str], None]) -> None:
        self._write, self._on_stray = write, on_stray
        self._rest: list[str] = []
        self._size = 0
        self._incoming: Any = None
        self.problem = ""

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Return the two streams that the SDK reads from and writes to."""
        import anyio

        self._incoming, reading = anyio.create_memory_object_stream[Any](MOST_WAITING)
        writing, outgoing = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._write(f"{text}\n".encode())

        if self.problem:
            self._incoming.close()
        sender = asyncio.create_task(pass_on())
        try:
            yield reading, writing
        finally:
            await cancel_tasks({sender})
            for stream in (self._incoming, reading, writing, outgoing):
                stream.close()

    def feed(self, text: str) -> None:
        """Take what the server printed: one JSON message a line. What is none goes to its log."""
        lines = text.split("\n")
        self._rest.append(lines[0])
        self._size += len(lines[0])
        for line in lines[1:]:
            whole, self._rest, self._size = "".join(self._rest), [line], len(line)
            self._receive(whole)
        if self._size > MAX_LINE:
            self.close("It sent a message without an end.")

    def _receive(self, line: str) -> None:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if self.problem or self._incoming is None or not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line.encode("utf-8", "replace"), by_name=False)
        except ValueError:
            self._on_stray(f"{line[:500]}\n")
            return
        try:
            self._incoming.send_nowait(SessionMessage(message))
        except anyio.WouldBlock:
            self.close("It floods its client with messages.")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.close("The connection is closed.")

    def close(self, reason: str) -> None:
        """End the connection: whoever waits for an answer is told so."""
        self.problem = self.problem or reason
        if self._incoming is not None:
            self._incoming.close()


@asynccontextmanager
async def open_http_streams(url: str, client: httpx2.AsyncClient, *, is_sse: bool) -> AsyncIterator[tuple[Any, Any]]:
    """Open the streams of a remote server; the client is closed with them."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    def give(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return client

    if is_sse:
        async with sse_client(url, httpx_client_factory=give) as streams:
            yield streams
    else:
        async with client, streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as streams:
            yield streams


@asynccontextmanager
async def mend_streams(streams: AbstractAsyncContextManager[tuple[Any, Any]]) -> AsyncIterator[tuple[Any, Any]]:
    """Return the streams, with the lists of tools that come from a server as the protocol wants them."""
    async with streams as (reading, writing):
        yield _MendedStream(reading), writing


class _MendedStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _MendedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)

    def __aiter__(self) -> _MendedStream:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = mend_tools(result["tools"])
        return item


def mend_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Return the tools that can be called, of each what is as the protocol wants it. A schema of arguments is one of an
    object, as arguments are; that of a result is left out where it is of anything else."""
    mended = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            continue
        kept = {key: tool[key] for key, kind in _TOOL_KEYS.items() if isinstance(tool.get(key), kind)}
        said = {key: each for key, each in kept.pop("annotations", {}).items() if isinstance(each, bool)}
        output = tool.get("outputSchema")
        more = {"outputSchema": output} if isinstance(output, dict) and output.get("type") == "object" else {}
        more |= {"annotations": said} if said else {}
        mended.append({**kept, **more, "name": name, "inputSchema": {**kept.get("inputSchema", {}), "type": "object"}})
    return mended
