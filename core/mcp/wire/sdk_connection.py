"""One connection to an MCP server through the SDK, in its own task.

Importing the SDK takes most of a second, so it is imported in a thread when the first server starts. Data of servers is
passed on as records of this program.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from core.errors import ToolFailed
from core.mcp.wire.elicitation import Elicitation, ElicitationAnswer
from core.mcp.wire.message_repairs import parse_messages, repair_streams
from core.patterns import compile_lazily
from core.records import convert
from core.tasks import cancel_tasks

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client.context import ClientRequestContext
    from mcp_types import ElicitRequestParams

MAX_TOOLS: Final = 2_000
MAX_PAGES: Final = 50
MAX_LINE: Final = 32 << 20  # characters of a message
MAX_QUEUED: Final = 10_000  # unread messages
MAX_PAGES_TO_OPEN: Final = 5  # pages per refused call
RELISTEN_SECONDS: Final = 5.0
_URL_ELICITATION_REQUIRED: Final = -32042  # error code of a call that requires the user to open pages first
_SDK_PARSE_ERRORS: Final = ("Failed to parse JSON response", "Failed to parse SSE message")
_BROKEN_JSON: Final = compile_lazily(r"Invalid JSON: (.*?) \[")
_LIST_CHANGES: Final = {f"notifications/{name}/list_changed" for name in ("tools", "resources", "prompts")}
R = TypeVar("R")
Progress = Callable[[float, "float | None", "str | None"], None]
AnswerServer = Callable[[Elicitation], Awaitable[ElicitationAnswer]]


class ToolAnnotations(Struct, frozen=True, rename="camel"):
    """A server's own hints about a tool, which are not to be trusted."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None


class ToolDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server describes it."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any] = field(default_factory=dict)
    annotations: ToolAnnotations | None = None
    meta: dict[str, Any] | None = field(default=None, name="_meta")

    @property
    def is_reading(self) -> bool:
        """True if the server claims that the tool changes nothing."""
        return self.annotations is not None and self.annotations.read_only_hint is True


class ContentBlock(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a result: text, a picture or audio in base64, or a resource."""

    type: str = "text"
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    resource: dict[str, Any] = field(default_factory=dict)


class CallAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a call."""

    content: list[ContentBlock] = field(default_factory=list)
    structured_content: Any = None
    is_error: bool | None = None
    meta: dict[str, Any] | None = field(default=None, name="_meta")


class MessagePipe:
    """A stream of messages, one per line, over the pipes of a process. `write` gets bytes; `feed` takes its output."""

    def __init__(self, write: Callable[[bytes], None], on_stray: Callable[[str], None]) -> None:
        self._write, self._on_stray_line = write, on_stray
        self._rest: list[str] = []
        self._size = 0
        self._incoming: Any = None
        self.problem = ""

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Open the streams that the SDK reads from and writes to."""
        import anyio

        self._incoming, reading = anyio.create_memory_object_stream[Any](MAX_QUEUED)
        writing, outgoing = anyio.create_memory_object_stream[Any](0)

        async def forward() -> None:
            async for session_message in outgoing:
                text = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._write(f"{text}\n".encode())

        if self.problem:
            self._incoming.close()
        sender = asyncio.create_task(forward())
        try:
            yield reading, writing
        finally:
            await cancel_tasks({sender})
            for stream in (self._incoming, reading, writing, outgoing):
                stream.close()

    def feed(self, text: str) -> None:
        """Parse output of the server: one JSON message per line. Other lines go to its log."""
        lines = text.split("\n")
        self._rest.append(lines[0])
        self._size += len(lines[0])
        for line in lines[1:]:
            full_line, self._rest, self._size = "".join(self._rest), [line], len(line)
            self._receive(full_line)
        if self._size > MAX_LINE:
            self.close("It sent a message without an end.")

    def _receive(self, line: str) -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        if self.problem or self._incoming is None or not line.strip():
            return
        messages = parse_messages(line)
        if not messages:
            self._on_stray_line(f"{line[:500]}\n")
        try:
            for message in messages:
                self._incoming.send_nowait(SessionMessage(message))
        except anyio.WouldBlock:
            self.close("It floods its client with messages.")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.close("The connection is closed.")

    def close(self, reason: str) -> None:
        """End the connection; pending requests fail with the reason."""
        self.problem = self.problem or reason
        if self._incoming is not None:
            self._incoming.close()


@asynccontextmanager
async def open_http_streams(url: str, client: httpx2.AsyncClient, *, is_sse: bool) -> AsyncIterator[tuple[Any, Any]]:
    """Open the streams of a remote server; closing them closes the client."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    def get_client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return client

    if is_sse:
        async with sse_client(url, httpx_client_factory=get_client) as streams:
            yield streams
    else:
        async with client, streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as streams:
            yield streams


class SdkConnection:
    """An open connection. `on_change`: the server reports a change of its tools; `answer`: it asks the user."""

    def __init__(
        self,
        streams: AbstractAsyncContextManager[tuple[Any, Any]],
        on_change: Callable[[], None],
        answer: AnswerServer,
    ) -> None:
        self._streams, self._on_change, self._answer = streams, on_change, answer
        self._client: Any = None
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.version = ""

    @property
    def is_open(self) -> bool:
        """True from the handshake until either side ends the connection."""
        return self._client is not None

    async def load(self) -> None:
        """Import the SDK in a thread."""
        await asyncio.to_thread(importlib.import_module, "mcp.client.client")
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)  # its tracebacks must not reach the screen

    async def open(self, seconds: float, root: str) -> None:
        """Connect and shake hands. `root`: the directory that the server gets as its root, "" = none. Raises
        `ToolFailed`, `TimeoutError`."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(ready, root), name="mcp connection")
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(ready)
        except BaseException:
            await self.close()
            ready.cancel()
            raise

    async def _serve(self, ready: asyncio.Future[None], root: str) -> None:
        try:
            async with self._build_client(root) as client:
                self._client = client
                info = client.server_info
                self.version = f"{info.name} {info.version}" if info else ""
                if not ready.done():
                    ready.set_result(None)
                listening = asyncio.create_task(self._listen(client), name="mcp changes")
                try:
                    await self._end.wait()
                finally:
                    await cancel_tasks({listening})
        except Exception as problem:  # any exception of a foreign library fails the pending `open`
            if not ready.done():
                ready.set_exception(_explain(problem))
        finally:
            self._client = None
            if not ready.done():
                ready.set_exception(ToolFailed("the connection was closed"))
                ready.exception()

    def _build_client(self, root: str) -> Client:
        from mcp import Client
        from mcp.shared.message import SessionMessage
        from mcp_types import ElicitResult, Implementation, ListRootsResult, Root

        async def list_roots(context: ClientRequestContext) -> ListRootsResult:
            return ListRootsResult(roots=[Root.model_validate({"uri": Path(root).as_uri(), "name": "workspace"})])

        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            answer = await self._answer(_read_elicitation(params))
            return ElicitResult(action=answer.action, content=answer.content)

        async def on_message(message: object) -> None:
            if getattr(message, "method", "") in _LIST_CHANGES:
                self._on_change()

        return Client(
            repair_streams(self._streams, SessionMessage),
            list_roots_callback=list_roots if root else None,
            elicitation_callback=elicit,
            message_handler=on_message,
            client_info=Implementation(name="agent-tui", version="1"),
        )

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes at servers that only notify subscribers; a lost subscription counts as a change."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._on_change()
                return
            except SubscriptionLost:
                await asyncio.sleep(RELISTEN_SECONDS)
                self._on_change()
            except ListenNotSupportedError:
                return
            except Exception:  # any exception of a foreign library: only changes go unnoticed
                return

    def has_feature(self, name: str) -> bool:
        """True if the server declares `resources` or `prompts`."""
        return getattr(self._get_client().server_capabilities, name, None) is not None

    async def request(self, method: str, kind: type[R], **arguments: Any) -> R:
        """Call a method of the SDK's client; return its answer as a record. Raises `ToolFailed`."""
        try:
            answer = await getattr(self._get_client(), method)(**arguments)
        except ToolFailed:
            raise
        except Exception as problem:
            raise _explain(problem) from None
        record: R = _read_record(answer, kind)
        return record

    async def list_tools(self, seconds: float) -> tuple[ToolDefinition, ...]:
        """Return the tools up to the time limit, the first invalid page, or a repeated cursor. Raises `ToolFailed`,
        `TimeoutError` without any tools."""
        tool_definitions: dict[str, ToolDefinition] = {}
        cursor, asked_for = None, set[str | None]()
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            while cursor not in asked_for and len(asked_for) < MAX_PAGES and len(tool_definitions) <= MAX_TOOLS:
                asked_for.add(cursor)
                async with asyncio.timeout_at(deadline):
                    page = await self._get_client().list_tools(cursor=cursor, cache_mode="refresh")
                tool_definitions = {
                    tool.name: _read_record(tool, ToolDefinition) for tool in page.tools
                } | tool_definitions
                cursor = page.next_cursor or None
        except (ToolFailed, TimeoutError):
            if not tool_definitions:
                raise
        except Exception as problem:
            if not tool_definitions and self.has_feature("tools"):
                raise _explain(problem) from None
        return tuple(tool_definitions.values())[:MAX_TOOLS]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], on_progress: Progress) -> CallAnswer:
        """Call a tool. Raises `ToolFailed`; the caller sets time limits."""

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        try:
            answer = await self._get_client().call_tool(name, dict(arguments), progress_callback=report_progress)
        except ToolFailed:
            raise
        except Exception as problem:
            if not await self._open_pages(problem):
                raise _explain(problem) from None
            try:
                answer = await self._get_client().call_tool(name, dict(arguments), progress_callback=report_progress)
            except Exception as again:
                raise _explain(again) from None
        record: CallAnswer = _read_record(answer, CallAnswer)
        return record

    async def _open_pages(self, problem: Exception) -> bool:
        """Ask the user to open the pages that a refused call names. False: it names none, or the user declined."""
        from mcp import MCPError, UrlElicitationRequiredError

        if not isinstance(problem, MCPError) or problem.error.code != _URL_ELICITATION_REQUIRED:
            return False
        try:
            pages = UrlElicitationRequiredError.from_error(problem.error).elicitations[:MAX_PAGES_TO_OPEN]
        except (ValueError, KeyError, TypeError):
            return False
        for page in pages:
            if (await self._answer(_read_elicitation(page))).action != "accept":
                return False
        return bool(pages)

    def _get_client(self) -> Any:
        if self._client is None:
            raise ToolFailed("the connection was closed")
        return self._client

    def end(self) -> None:
        """Let the connection end soon; pending requests fail."""
        self._end.set()

    async def close(self) -> None:
        """Close the connection and wait for its end."""
        self.end()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=2.0)
            await cancel_tasks({self._task}, limit=2.0)


def _read_elicitation(params: ElicitRequestParams) -> Elicitation:
    if params.mode == "url":
        return Elicitation(message=params.message, url=params.url)
    return Elicitation(message=params.message, schema=params.requested_schema)


def _read_record(model: Any, kind: type[Any]) -> Any:
    try:
        return convert(model.model_dump(mode="json", by_alias=True, exclude_none=True), kind)
    except msgspec.ValidationError as problem:
        raise ToolFailed(f"its answer can't be read: {problem}") from None


def _explain(problem: BaseException) -> ToolFailed:
    """Return an exception of the SDK as one line; of a group, its first exception."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    text = " ".join(str(problem).split())[:500]
    if text.startswith(_SDK_PARSE_ERRORS):
        match = _BROKEN_JSON.search(text)
        text = f"the server's answer can't be read: it is not {f'complete JSON ({match[1]})' if match else 'an answer'}"
    if isinstance(problem, ValueError) and (errors := getattr(problem, "errors", None)) is not None:
        first = errors()[0]  # pydantic lists every error with its location
        text = f"its answer violates the protocol: {'.'.join(map(str, first['loc']))}: {first['msg']}"[:500]
    return ToolFailed(text or type(problem).__name__)
