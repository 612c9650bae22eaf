"""OpenAI through its SDK, and every server that speaks one of its two protocols: responses or chat completions.

The provider's default protocol is used unless the model takes only the other one, or the server asks for it. Events are
parsed as plain JSON (`cast_to=object`) instead of the SDK's models, which saves their import; compatible servers also
send fields that those models do not know.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from core.clock import pause
from core.errors import ProviderError
from core.protocol.messages import Usage, WireProtocol
from core.providers.base import CompactedHistory, Delta, ModelRequest, PromptProgress, RequestReport
from core.providers.connection.endpoint import Endpoint, is_openai_host
from core.providers.connection.event_stream import refuse_non_stream
from core.providers.connection.failures import build_cut_error, build_exception_error
from core.providers.openai.chat import ChatAnswer, ChatWire
from core.providers.openai.negotiation import Negotiation
from core.providers.openai.responses import COMPACTION, CompactionWire, ResponsesAnswer, ResponsesWire, parse_usage
from core.providers.openai.server_quirks import add_reported
from core.providers.sdk_provider import END, SdkProvider, read_next
from core.providers.wire.request_bytes import RequestBytes, RequestEncoder
from core.providers.wire.wire_values import get_table, get_tables

_PATHS: Final[dict[WireProtocol, str]] = {"chat": "/chat/completions", "responses": "/responses"}
FIRST_POLL: Final = 2.0  # seconds between two looks at an answer in the background, doubled up to the longest
LONGEST_POLL: Final = 30.0
# Seconds to wait for the usage and the end mark once the answer is complete.
_GRACE: Final[dict[WireProtocol, float]] = {"chat": 5.0, "responses": 0.5}


class _Exchange(Struct, frozen=True, kw_only=True):
    wire: WireProtocol
    events: Any
    answer: ChatAnswer | ResponsesAnswer
    report: RequestReport
    options: dict[str, Any]


class BackgroundStream:
    """The states of a response that is made in the background, ending with the whole of it."""

    is_done = True

    def __init__(self, client: Any, response: Any) -> None:
        self._client, self._response = client, response
        self._path, self._pause = f"/responses/{response.get('id')}", FIRST_POLL
        self._is_told = False

    def __aiter__(self) -> BackgroundStream:
        return self

    async def __anext__(self) -> object:
        if not self._is_told:
            self._is_told = True
            return self._response
        if not self._is_waiting:
            raise StopAsyncIteration
        await pause(self._pause)
        self._pause = min(self._pause * 2, LONGEST_POLL)
        self._response = await self._client.get(self._path, cast_to=object)
        return self._response

    @property
    def _is_waiting(self) -> bool:
        return isinstance(self._response, dict) and self._response.get("status") in {"queued", "in_progress"}

    async def close(self) -> None:
        """Cancel the response unless it has ended."""
        if self._is_waiting:
            with suppress(Exception):  # What nobody waits for may as well go on.
                await self._client.post(f"{self._path}/cancel", cast_to=object)


class OpenAIProvider(SdkProvider):
    """One server. `speaks`: its default protocol."""

    sdk = "openai"
    client_class = "AsyncOpenAI"
    models_path = "/models"

    def __init__(self, endpoint: Endpoint, *, speaks: WireProtocol = "chat") -> None:
        super().__init__(endpoint)
        self._official = is_openai_host(endpoint.base_url)
        self._speaks = speaks
        self._encoder = RequestEncoder()
        self._negotiation = Negotiation(endpoint.label, official=self._official)

    async def _stream_answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the deltas of an answer. A server may also ask for another form of the request inside the stream."""
        while True:
            exchange, has_started = await self._send(request), False
            try:
                async with aclosing(self._read_answer(exchange, request)) as deltas:
                    async for delta in deltas:
                        has_started = has_started or not isinstance(delta, RequestReport | PromptProgress)
                        yield delta
                return
            except Exception as error:
                failure = build_exception_error(error, self._build_api(request.model), has_started=has_started)
                if has_started or not self._negotiation.adapt(failure, error, exchange.wire, request, exchange.options):
                    raise failure from None

    async def _read_answer(self, exchange: _Exchange, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        has_started, events, answer = False, exchange.events, exchange.answer
        if exchange.report != RequestReport():
            yield exchange.report
        patience, grace = self._endpoint.patience, _GRACE[exchange.wire]
        try:
            if not isinstance(events, BackgroundStream):
                await refuse_non_stream(events, self._build_api(request.model))
            while (event := await read_next(events, grace if answer.ending else None, patience=patience)) is not END:
                for delta in answer.feed(event):
                    has_started = True
                    yield delta
        finally:
            await events.close()
        ending = answer.ending or (answer.infer_ending() if events.is_done else None)
        if ending is None:
            raise build_cut_error(self._endpoint.build_api(), has_started=has_started)
        for delta in answer.finish():
            yield delta
        if isinstance(answer, ResponsesAnswer) and answer.removed_reasoning:
            yield replace(
                exchange.report, notice="", removed_reasoning=answer.removed_reasoning, removal=answer.removal
            )
        yield ending

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of every text, in their order. Raises `ProviderError`."""
        try:
            client, _ = await self._open_client()
            body = {"model": model, "input": list(texts), "encoding_format": "float"}
            answer = await client.post("/embeddings", body=body, cast_to=object)
        except Exception as error:
            raise build_exception_error(error, self._build_api(model)) from None
        try:
            return _read_vectors(answer, len(texts))
        except ValueError as problem:
            raise ProviderError(f"{self.name} returned no vectors: {problem}.", code="bad_answer") from None

    async def compact(self, request: ModelRequest) -> CompactedHistory:
        """Have the API summarise a history. Raises `ProviderError`."""
        capabilities = self._find_capabilities(request.model, "responses")
        wire = CompactionWire(request, provider=self.name, capabilities=capabilities)
        try:
            client, _ = await self._open_client()
            body = RequestEncoder().encode(wire, request).build_body(wire.tail())
            answer = await client.post("/responses/compact", cast_to=object, content=body)
        except Exception as error:
            raise build_exception_error(error, self._build_api(request.model)) from None
        items = tuple(item for item in get_tables(answer, "output") if item.get("type") == COMPACTION)
        if not items:
            raise ProviderError(f"{self._endpoint.label} wrote no summary.", code="bad_answer")
        return CompactedHistory(items=items, usage=parse_usage(get_table(answer, "usage"), {}))

    async def warm_up(self, request: ModelRequest) -> Usage:
        """Have the API read a request into its cache without an answer. Raises `ProviderError`."""
        capabilities = self._find_capabilities(request.model, "responses")
        wire = ResponsesWire(request, provider=self.name, capabilities=capabilities)
        tail = wire.tail() | {"stream": False}
        tail["prompt_cache_options"] = {**tail.get("prompt_cache_options", {}), "prewarm": True}
        try:
            client, _ = await self._open_client()
            body = self._encoder.encode(wire, request).build_body(tail)
            answer = await client.post("/responses", cast_to=object, content=body)
        except Exception as error:
            raise build_exception_error(error, self._build_api(request.model)) from None
        return parse_usage(get_table(answer, "usage"), get_table({"answer": answer}, "answer"))

    async def _send(self, request: ModelRequest) -> _Exchange:
        """Send the request, again whenever the server asks for another form."""
        negotiation = self._negotiation
        while True:
            name = self._choose_wire(request.model)
            wire = self._build_writer(name, request)
            request_bytes, tail = self._encoder.encode(wire, request), negotiation.filter_options(wire.tail())
            try:
                body = request_bytes.build_body(tail)
                events = await (self._begin if tail.get("background") else self._post)(_PATHS[name], body)
            except Exception as error:
                failure = build_exception_error(error, self._build_api(request.model))
                if not negotiation.adapt(failure, error, name, request, tail):
                    raise failure from None
                continue
            report = RequestReport(dropped_reasoning=request_bytes.dropped_reasoning, notice=negotiation.notice)
            negotiation.notice = ""
            answer = self._build_reader(wire, request, request_bytes)
            return _Exchange(wire=name, events=events, answer=answer, report=report, options=tail)

    async def _begin(self, path: str, body: bytes) -> BackgroundStream:
        """Begin an answer that may take hours."""
        client, _ = await self._open_client()
        return BackgroundStream(client, await client.post(path, cast_to=object, content=body))

    def can_search(self, model: str) -> bool:
        return self._choose_wire(model) == "responses"

    def _choose_wire(self, model: str) -> WireProtocol:
        """Return the protocol for a model; OpenAI has models that take only one of the two."""
        wire = self._negotiation.choose_wire(model)
        if wire is None and self._official:
            wire = self._find_capabilities(model, self._speaks).wire
        return wire or self._speaks

    def _build_writer(self, name: WireProtocol, request: ModelRequest) -> ChatWire | ResponsesWire:
        capabilities = self._find_capabilities(request.model, name)
        quirks = add_reported(self._negotiation.quirks, capabilities)
        if name == "responses":
            takes_grammar = self._negotiation.takes_grammar
            if not self._negotiation.takes_search:
                capabilities = replace(capabilities, tool_search=False)
            return ResponsesWire(
                request,
                provider=self.name,
                capabilities=capabilities,
                takes_grammar=takes_grammar,
                official=self._official,
            )
        return ChatWire(request, provider=self.name, capabilities=capabilities, official=self._official, quirks=quirks)

    def _build_reader(
        self, wire: ChatWire | ResponsesWire, request: ModelRequest, request_bytes: RequestBytes
    ) -> ChatAnswer | ResponsesAnswer:
        api = self._build_api(request.model)
        if isinstance(wire, ResponsesWire):
            return ResponsesAnswer(
                request_bytes.call_ids, wire.freeform, binding=request_bytes.binding, api=api, search=wire.search
            )
        return ChatAnswer(request_bytes.call_ids, api=api, tool_names={tool.name for tool in request.tools})


def _read_vectors(answer: object, count: int) -> list[list[float]]:
    """Return the vectors of an answer by their `index`. Raises `ValueError` for a wrong number of vectors or other
    values."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise ValueError(f"{count} were asked for")
    vectors: dict[int, list[float]] = {}
    for index, row in enumerate(rows):
        vector = row.get("embedding") if isinstance(row, dict) else None
        if not isinstance(vector, list) or not vector:
            raise ValueError("an embedding is not a list")
        vectors[int(row.get("index", index))] = [float(number) for number in vector]
    if sorted(vectors) != list(range(count)) or len({len(numbers) for numbers in vectors.values()}) > 1:
        raise ValueError("they have other places, or other sizes")
    return [vectors[index] for index in range(count)]
