"""Anthropic's messages through its SDK.

Events are taken as plain JSON (`cast_to=object`), not as the SDK's models: that spares the import of more than two
thousand of them. The SDK's retries are off: the loop retries, visibly. HTTP errors are turned into ours by a
middleware, before the SDK would import its own class for each kind of error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from core.providers import lean_import
from core.providers.anthropic_answer import MessageAnswer
from core.providers.anthropic_request import body_of
from core.providers.base import Delta, ModelInfo, ModelRequest
from core.providers.endpoint import Endpoint, http_client, time_limits, with_near_names
from core.providers.failures import cut, from_exception, from_status
from core.providers.openai import model_infos
from core.providers.tool_calls import known_ids


class AnthropicProvider:
    """One server that speaks messages."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.id
        self._endpoint = endpoint
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._key_source = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """See `Provider`. Raises `ProviderError`, `ContextOverflow`."""
        started = False
        try:
            async for delta in self._answer(request):
                started = True
                yield delta
        except Exception as error:
            api = self._endpoint.api(model=request.model, key=self._key_source)
            failure = from_exception(error, api, started=started)
            raise await with_near_names(failure, self, request.model) from None

    async def models(self) -> tuple[ModelInfo, ...]:
        """See `Provider`."""
        try:
            client, _ = await self._opened()
            found = await client.get("/v1/models", cast_to=object, options={"params": {"limit": 200}})
        except Exception as error:
            raise from_exception(error, self._endpoint.api(key=self._key_source)) from None
        return model_infos(found)

    async def close(self) -> None:
        """See `Provider`."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        answer = MessageAnswer(known_ids(request.messages))
        started = False
        client, module = await self._opened()
        events = await client.post(
            "/v1/messages",
            cast_to=object,
            body=body_of(request, provider=self.name),
            stream=True,
            stream_cls=module.AsyncStream[object],
        )
        try:
            async for event in events:
                for delta in answer.feed(event):
                    started = True
                    yield delta
                if isinstance(event, dict) and event.get("type") == "message_stop":
                    break
        except Exception:
            if answer.finished is None:
                raise
        finally:
            await events.close()
        if answer.finished is None:
            raise cut(self._endpoint.api(), started=started)
        yield answer.finished

    async def _opened(self) -> tuple[Any, Any]:
        """The SDK's client and the module it is from; made in a thread, since it imports, and asks for the key."""
        async with self._opening:
            module = await asyncio.to_thread(lean_import.load, "anthropic")
            if self._client is None:
                self._client = await asyncio.to_thread(self._connected, module)
            return self._client, module

    def _connected(self, module: Any) -> Any:
        secret, self._key_source = self._endpoint.key()
        return module.AsyncAnthropic(
            api_key=secret.reveal() if secret else "none",
            base_url=self._endpoint.base_url,
            default_headers=dict(self._endpoint.headers),
            max_retries=0,
            timeout=time_limits(module, self._endpoint),
            http_client=http_client("anthropic", self._endpoint),
            open_telemetry=False,
            middleware=[self._error_check()],
        )

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
            api = self._endpoint.api(model=model, key=self._key_source)
            raise from_status(raw.status_code, _body(raw), raw.headers, api)

        return check


def _body(response: Any) -> object:
    try:
        return response.json()
    except ValueError:
        return response.text
