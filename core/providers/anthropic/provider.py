"""Anthropic's messages through its SDK.

Events are taken as plain JSON (`cast_to=object`), not as the SDK's models: that spares the import of more than two
thousand of them. HTTP errors are turned into ours by a middleware, before the SDK would import its own class for
each kind of error.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from core.errors import ContextOverflow, ProviderError
from core.providers.anthropic.answer import MessageAnswer
from core.providers.anthropic.options import DISPENSABLE, LOWERED, options_of
from core.providers.anthropic.request import MessagesWire
from core.providers.base import Answered, Delta, ModelRequest, RequestReport
from core.providers.catalog.capabilities import Capabilities, capabilities_of
from core.providers.connection.endpoint import Endpoint
from core.providers.connection.event_stream import refuse_other, stream_class
from core.providers.connection.failures import cut, from_exception, from_status, one_line
from core.providers.connection.sdk_provider import END, SdkProvider, next_of
from core.providers.wire.request_bytes import RequestBytes, RequestEncoder

OFFICIAL_HOST: Final = "api.anthropic.com"
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"  # thinking between calls, for models that think within a budget
MAX_SESSIONS: Final = 32  # whose last answer is remembered
_GRACE_SECONDS: Final = 0.5  # for the end of the stream, once the message itself is whole


class AnthropicProvider(SdkProvider):
    """One server that speaks messages."""

    sdk = "anthropic"
    client_class = "AsyncAnthropic"
    models_path = "/v1/models?limit=200"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._official = urlsplit(endpoint.base_url).hostname == OFFICIAL_HOST
        self._encoder = RequestEncoder()
        self._refused: dict[str, set[str]] = {}
        self._latest: OrderedDict[str, str] = OrderedDict()
        self._untold = ""

    async def _answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        started = False
        events, sent = await self._sent(request)
        answer, patience = MessageAnswer(set(sent.call_ids)), self._endpoint.patience
        try:
            await refuse_other(events, self._api(request.model))
            while (
                event := await next_of(events, _GRACE_SECONDS if answer.finished else None, patience=patience)
            ) is not END:
                for delta in answer.feed(event):
                    started = True
                    yield delta
        finally:
            await events.close()
        if answer.finished is None:
            raise cut(self._endpoint.api(), started=started)
        self._remember(request, answer.id)
        yield RequestReport(
            dropped_reasoning=sent.dropped_reasoning, cache_miss=answer.cache_miss, notice=self._notice(answer.refusal)
        )
        if (wire := answer.wire(sent.binding)) is not None:
            yield Answered(wire)
        yield answer.finished

    async def _sent(self, request: ModelRequest) -> tuple[Any, RequestBytes]:
        """The stream of events. What a server refuses although nobody needs it is left out from then on."""
        client, module = await self._opened()
        able = capabilities_of(self.name, request.model, wire="messages", origin=self._endpoint.base_url)
        refused = self._refused.setdefault(request.model, set())
        while True:
            wire = MessagesWire(request, provider=self.name, marked="cache_control" not in refused)
            sent = self._encoder.encode(wire, request)
            options = self._options(request, able, refused)
            try:
                events = await client.post(
                    "/v1/messages",
                    cast_to=object,
                    content=sent.body(options),
                    options={"headers": self._headers(options)},
                    stream=True,
                    stream_cls=stream_class(module.AsyncStream),
                )
            except Exception as error:
                failure = from_exception(error, self._api(request.model))
                name = _dispensable(failure, options, refused)
                if not name:
                    raise failure from None
                refused.add(name)
                if name in LOWERED:
                    self._untold = f"{self._endpoint.label} does not take {LOWERED[name]}, so it is left out."
            else:
                return events, sent

    def _options(self, request: ModelRequest, able: Capabilities, refused: set[str]) -> dict[str, Any]:
        options = options_of(request, able, without=refused)
        if self._official and request.session and not request.private and "diagnostics" not in refused:
            options["diagnostics"] = {"previous_message_id": self._latest.get(request.session)}
        return options

    def _headers(self, options: dict[str, Any]) -> dict[str, str]:
        budget = options.get("thinking", {}).get("budget_tokens")
        return {"anthropic-beta": INTERLEAVED} if self._official and budget else {}

    def _notice(self, refusal: str) -> str:
        """What the user is to be told of the way of a request, once."""
        untold, self._untold = self._untold, ""
        return " ".join(filter(None, (untold, refusal and f"Why {self._endpoint.label} refused: {one_line(refusal)}.")))

    def _remember(self, request: ModelRequest, message: str) -> None:
        """The answer that the next request of the session is compared with."""
        if not request.session or not message:
            return
        self._latest[request.session] = message
        self._latest.move_to_end(request.session)
        while len(self._latest) > MAX_SESSIONS:
            self._latest.popitem(last=False)

    def _client_options(self) -> dict[str, Any]:
        return {"open_telemetry": False, "middleware": [self._error_check()]}

    def _error_check(self) -> Callable[[Any, Any], Any]:
        """Raises our error for an answer that is none."""

        async def check(request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            raw = response.http_response
            if raw.is_success:
                return response
            await raw.aread()
            raise from_status(raw.status_code, _body(raw), raw.headers, self._api(_model(request.options.content)))

        return check


def _dispensable(failure: ProviderError, options: dict[str, Any], refused: set[str]) -> str:
    """The field of a refused request that the server named as the reason, and that it can do without; "" = none."""
    if failure.code != "request_invalid" or isinstance(failure, ContextOverflow):
        return ""
    sent = {*options, *options.get("thinking", {})}
    for name, words in DISPENSABLE:
        if name in sent and name not in refused and any(word in failure.message for word in words):
            return name
    return ""


def _model(content: object) -> str:
    """The model that a request of ours was for."""
    if not isinstance(content, bytes):
        return ""
    return str(json.loads(content).get("model", ""))


def _body(response: Any) -> object:
    try:
        return response.json()
    except ValueError:
        return response.text
