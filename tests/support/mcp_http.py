"""Remote MCP servers on loopback: the SDK's own server, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

import uvicorn
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel, Field


class Colour(BaseModel):
    name: Literal["red", "green"] = "green"
    count: int = Field(ge=1, le=5)
    is_bright: bool = True


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def add_tools(server: MCPServer) -> MCPServer:
    """A server with tools that say something, tell how far they are, ask the user, and change."""

    @server.tool()
    def say(text: str) -> str:
        """Says something."""
        return text

    @server.tool()
    async def count(to: int, context: Context[Any, Any]) -> str:
        """Counts."""
        for number in range(1, to + 1):
            await context.report_progress(number, to, "counting")
        return f"counted to {to}"

    @server.tool()
    async def hang() -> str:
        """Says nothing."""
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    def paint(choice: Annotated[ElicitationResult[Colour], Resolve(ask_colour)]) -> str:
        """Paints in a colour that it asks for."""
        return f"accept {choice.data.model_dump_json()}" if isinstance(choice, AcceptedElicitation) else choice.action

    @server.tool()
    async def grow(context: Context[Any, Any]) -> str:
        """Has one tool more from now on."""
        server.add_tool(lambda: "new", name="grown", description="Is new.")
        await context.notify_tools_changed()
        return "grown"

    return server


class HttpServer:
    """An ASGI application on a port of loopback; every request's method, path and headers are in `requests`, and the
    bodies of those that were read in `bodies`."""

    def __init__(self, app: Any, *, port: int = 0, path: str = "/mcp", **options: Any) -> None:
        self.app, self._path, self._options = app, path, options
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.faults: list[tuple[bytes, int]] = []  # a status instead of an answer, once, where a body holds this
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        scheme = "https" if "ssl_keyfile" in self._options else "http"
        return f"{scheme}://127.0.0.1:{self.port}{self._path}"

    async def __aenter__(self) -> HttpServer:
        self._socket.listen()  # who connects before it runs waits
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._serve,
                interface="asgi3",
                log_level="critical",
                timeout_graceful_shutdown=1,  # since Python 3.12 connections that a client holds are awaited
                **self._options,
            )
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        await asyncio.to_thread(self._thread.join)
        self._socket.close()

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append((scope["method"], scope["path"], headers))
            receive = await self._record(receive)
            fault = next((candidate for candidate in self.faults if candidate[0] in self.bodies[-1]), None)
            if fault is not None and scope["method"] == "POST":
                self.faults.remove(fault)
                await send({"type": "http.response.start", "status": fault[1], "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await self.app(scope, receive, send)

    async def _record(self, receive: Any) -> Any:
        """Read the whole body of a request, and return what gives it once more."""
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        self.bodies.append(body)
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def give() -> Any:
            return next(parts, None) or await receive()

        return give


@contextlib.asynccontextmanager
async def serving(
    build: Callable[[str], MCPServer] = lambda _: add_tools(MCPServer("distant")),
    *,
    is_sse: bool = False,
    path: str = "/mcp",
    **options: Any,
) -> AsyncIterator[HttpServer]:
    """A server of the SDK, over streamable HTTP or SSE. `build` gets its address."""
    running = HttpServer(None, path=path, **options)
    built = build(running.url)
    running.app = built.sse_app(sse_path=path) if is_sse else built.streamable_http_app(streamable_http_path=path)
    async with running:
        yield running
