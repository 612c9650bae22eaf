"""A real model server on loopback that plays scripted answers on three wires: chat completions, responses, messages.

In tests::

    async with provider_server(["Hello.", Step(calls=[Call(name="grep", arguments={"pattern": "x"})])]) as server:
        ...server.openai_url, server.anthropic_url, server.requests

Each request takes the next step; after the last one the server answers 500 (`repeat=True`: the last one again).
Conversations that go on at the same time have scripts of their own: `plays` by name, and `find_play` tells the name
from the body of a request.
`GET /v1/models` lists `models`, `GET /v1/models/{id}` tells what one of them can do. Standalone, for a terminal
or a benchmark::

    python tests/support/provider_server.py --port 8000 --script steps.json     # a list of texts and Step fields
    python tests/support/provider_server.py --port 8000 --tokens 5000 --rate 150
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.model_server.catalog import listed
from tests.support.model_server.exchange import Exchange
from tests.support.model_server.messages_events import whole_message
from tests.support.model_server.responses_events import responses_events, responses_usage
from tests.support.model_server.responses_rules import refused_compaction
from tests.support.model_server.step import DEFAULT_USAGE
from tests.support.model_server.strict import StrictRules
from tests.support.provider_streams import Dialect, Step, error_body, events, step_from

Script = Sequence[Step | str | Mapping[str, Any]]
FindPlay = Callable[[Mapping[str, Any]], str]
DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
_BEGINNING = {"openai": 2, "responses": 1, "anthropic": 2}  # events of a part that come before it stops
OVER = Step(status=500, error="the script of this server is over")


@dataclass(frozen=True)
class Request:
    """A request as it came: `raw` is its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass
class ProviderServer:
    """`hanging` is set once a step has stopped sending; `dropped` once a client has gone in the middle of a stream; a
    step that holds goes on when `released` is set.

    `plays`: the steps of each conversation that `find_play` tells apart. `rules`: those of the real services, None =
    every request is answered. No step is taken for what they refuse.
    """

    plays: Mapping[str, list[Step]]
    find_play: FindPlay = lambda _: ""
    repeat: bool = False
    models: Sequence[str] = ("tiny-1", "tiny-2")
    rules: StrictRules | None = None
    requests: list[Request] = field(default_factory=list)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    connections: int = 0
    _background: list[dict[str, Any]] = field(default_factory=list)
    _taken: Counter[str] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def answered(self) -> list[Request]:
        """The requests that a step was taken for."""
        return [request for request in self.requests if request.method == "POST"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            self.dropped.set()
        finally:
            self._tasks.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can be used again."""
        dialect = DIALECTS.get(request.path.partition("?")[0])
        if request.method != "POST" or dialect is None:
            await _send(writer, *self._answer_other(request))
            return True
        betas = list(filter(None, request.headers.get("anthropic-beta", "").split(",")))
        refusal = self.rules.judge(dialect, request.raw, betas) if self.rules else None
        if refusal is not None:
            await _send(writer, refusal.status, refusal.body(anthropic=dialect == "anthropic"))
            return True
        step = self._next_step(request)
        if step.status != 200 or step.body:
            await _send(writer, step.status, error_body(step, dialect, request.key), step.headers)
            return True
        if (whole := self._play_at_once(step, dialect, request)) is not None:
            await _send(writer, 200, json.dumps(whole))
            return True
        return await self._stream(step, dialect, request, reader, writer)

    def _answer_other(self, request: Request) -> tuple[int, str]:
        """Status and body of what is no conversation."""
        path = request.path.partition("?")[0]
        if path == "/v1/responses/compact":
            return self._compact(request)
        if request.method == "GET" and path.startswith("/v1/models"):
            return self._models(path.removeprefix("/v1/models").strip("/"))
        if request.method == "GET" and path.startswith("/v1/responses/") and self._background:
            return 200, json.dumps(self._background.pop(0))
        return 404, json.dumps({"detail": "Not Found"})

    def _play_at_once(self, step: Step, dialect: Dialect, request: Request) -> dict[str, Any] | None:
        """The whole answer to a request that wants no stream: its cache warmed, a summary, an answer that comes later;
        None: it wants one."""
        body = request.json
        if (body.get("prompt_cache_options") or {}).get("prewarm"):
            usage = responses_usage(self._exchange(step, dialect, request).usage)
            return {"id": "resp_w", "object": "response", "status": "completed", "output": [], "usage": usage}
        if dialect == "responses" and body.get("background"):
            self._background = self._play_whole(step, request)
            return {**self._background[-1], "status": "queued", "output": []}
        if dialect == "anthropic" and ("compaction" in body or body.get("max_tokens") == 0):
            return whole_message(step, self._exchange(step, dialect, request), body)
        return None

    def _compact(self, request: Request) -> tuple[int, str]:
        """Status and body of a summary, as POST /responses/compact makes it: the user's messages, and one item."""
        step = self._next_step(request)
        refusal = refused_compaction(request.json)
        if refusal is not None and self.rules is not None:
            self.rules.refusals.append(refusal)
            return refusal.status, refusal.body(anthropic=False)
        if step.status != 200:
            return step.status, error_body(step, "responses", request.key)
        said = [item for item in request.json["input"] if item.get("role") == "user"]
        summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": step.text}
        usage = {"input_tokens": 9_000, "output_tokens": 90, "total_tokens": 9_090}
        answer = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": [*said, summary]}
        return 200, json.dumps({**answer, "usage": usage})

    def _play_whole(self, step: Step, request: Request) -> list[dict[str, Any]]:
        """The states of a response that is made in the background, as they are told one after the other."""
        exchange = self._exchange(step, "responses", request)
        *_, (_, _, last) = responses_events(step, exchange)
        whole = last["response"]
        return [{**whole, "status": "in_progress", "output": []}, whole]

    def _models(self, name: str) -> tuple[int, str]:
        """Status and body of what is asked about models: all of them, or one."""
        if not name:
            listing = {"object": "list", "data": [listed(model) for model in self.models], "has_more": False}
            return 200, json.dumps(listing)
        if name in self.models:
            return 200, json.dumps(listed(name))
        error = {"type": "not_found_error", "message": f"model: {name}", "code": "model_not_found"}
        return 404, json.dumps({"type": "error", "error": error})

    def _next_step(self, request: Request) -> Step:
        play = self.find_play(request.json)
        steps, place = self.plays.get(play, ()), self._taken[play]
        self._taken[play] += 1
        if place < len(steps):
            return steps[place]
        return steps[-1] if self.repeat and steps else OVER

    def _exchange(self, step: Step, dialect: Dialect, request: Request) -> Exchange:
        if self.rules:
            return self.rules.exchange(dialect, step, request.json, len(self.answered))
        usage = DEFAULT_USAGE if step.usage is None else step.usage
        return Exchange(model=request.json.get("model", ""), number=len(self.answered), usage=usage)

    async def _stream(
        self, step: Step, dialect: Dialect, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        stop = step.cut or step.hang or step.hold
        exchange = self._exchange(step, dialect, request)
        writer.write(_head(200, "text/event-stream", {**step.headers, "Transfer-Encoding": "chunked"}))
        disconnect = asyncio.ensure_future(reader.read(1))
        seen = 0
        try:
            for place, data in events(step, dialect, exchange.model, exchange):
                seen += place == stop
                if stop and (stop == "before" or seen > _BEGINNING[dialect]):
                    if not step.hold:
                        return await self._stopped(step, disconnect, writer)
                    await self._held(disconnect, writer)
                    stop = ""
                await _write(writer, data, step.write_size)
                if step.rate and place == "text":
                    done, _ = await asyncio.wait({disconnect}, timeout=1 / step.rate)
                    if done:
                        raise ConnectionResetError
            while step.flood and not disconnect.done():
                await _write(writer, step.flood.encode(), 0)
                await asyncio.wait({disconnect}, timeout=0.01)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            disconnect.cancel()
            await asyncio.wait({disconnect})  # else it would still be reading when the next request is
        return True

    async def _held(self, disconnect: asyncio.Future[bytes], writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        self.hanging.set()
        waiting = asyncio.ensure_future(self.released.wait())
        await asyncio.wait({waiting, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if disconnect.done():
            raise ConnectionResetError

    async def _stopped(self, step: Step, disconnect: asyncio.Future[bytes], writer: asyncio.StreamWriter) -> bool:
        await writer.drain()
        if step.hang:
            self.hanging.set()
            await disconnect
            self.dropped.set()
        return False


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, raw)


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Trouble'}", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


async def _send(writer: asyncio.StreamWriter, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
    data = body.encode()
    kind = "text/html" if body.lstrip().startswith("<") else "application/json"
    writer.write(_head(status, kind, {**(headers or {}), "Content-Length": str(len(data))}) + data)
    await writer.drain()


async def _write(writer: asyncio.StreamWriter, data: bytes, size: int) -> None:
    """One HTTP chunk for each write, so that a client really sees them apart."""
    for part in [data] if not size else [data[start : start + size] for start in range(0, len(data), size)]:
        writer.write(b"%x\r\n%s\r\n" % (len(part), part))
    await writer.drain()


@contextlib.asynccontextmanager
async def provider_server(
    steps: Script = (),
    *,
    repeat: bool = False,
    models: Sequence[str] = ("tiny-1", "tiny-2"),
    port: int = 0,
    strict: bool = False,
    plays: Mapping[str, Script] | None = None,
    find_play: FindPlay = lambda _: "",
) -> AsyncIterator[ProviderServer]:
    """Runs a server while the block lasts. `port` 0 takes a free one. `strict`: it refuses what real services do."""
    scripts = {"": steps} if plays is None else plays
    played = {name: [step_from(step) for step in script] for name, script in scripts.items()}
    server = ProviderServer(played, find_play, repeat, models, StrictRules() if strict else None)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()


def _words(count: int) -> str:
    """Text of about `count` tokens with paragraphs and a code block in it."""
    words = itertools.cycle(["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "again"])
    text = [next(words) + ("\n\n" if number % 60 == 59 else " ") for number in range(count)]
    return "".join(text)


async def _main() -> None:
    parser = argparse.ArgumentParser(description="A model server that plays scripted answers.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--script", type=Path, help="JSON: a list of texts and objects with the fields of Step")
    parser.add_argument("--tokens", type=int, default=0, help="answer with a text of so many tokens instead")
    parser.add_argument("--rate", type=float, default=0, help="tokens per second, 0 = at once")
    options = parser.parse_args()
    if options.tokens:
        steps: Script = [Step(text=_words(options.tokens), piece=5, rate=options.rate)]
    else:
        steps = json.loads(options.script.read_text(encoding="utf-8")) if options.script else ["Hello."]
    async with provider_server(steps, repeat=True, port=options.port) as server:
        print(f"OPENAI_BASE_URL={server.openai_url}\nANTHROPIC_BASE_URL={server.anthropic_url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
