"""Anthropic's messages through its SDK.

Events are taken as plain JSON (`cast_to=object`), not as the SDK's models: that spares the import of more than two
thousand of them. HTTP errors are turned into ours by a middleware, before the SDK would import its own class for
each kind of error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from core.providers.anthropic.answer import MessageAnswer
from core.providers.anthropic.request import body_of
from core.providers.base import Delta, ModelRequest
from core.providers.connection.event_stream import refuse_other, stream_class
from core.providers.connection.failures import cut, from_status
from core.providers.connection.sdk_provider import END, SdkProvider, next_of
from core.providers.wire.tool_calls import known_ids

_GRACE_SECONDS: Final = 0.5  # for the end of the stream, once the message itself is whole


class AnthropicProvider(SdkProvider):
    """One server that speaks messages."""

    sdk = "anthropic"
    client_class = "AsyncAnthropic"
    models_path = "/v1/models?limit=200"

    async def _answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        answer = MessageAnswer(known_ids(request.messages))
        started = False
        client, module = await self._opened()
        events = await client.post(
            "/v1/messages",
            cast_to=object,
            body=body_of(request, provider=self.name),
            stream=True,
            stream_cls=stream_class(module.AsyncStream),
        )
        patience = self._endpoint.patience
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
        yield answer.finished

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
            asked = request.options.json_data
            model = str(asked.get("model", "")) if isinstance(asked, dict) else ""
            raise from_status(raw.status_code, _body(raw), raw.headers, self._api(model))

        return check


def _body(response: Any) -> object:
    try:
        return response.json()
    except ValueError:
        return response.text
