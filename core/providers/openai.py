"""OpenAI's chat completions through its SDK, and every server that speaks the same dialect.

Chunks are taken as plain JSON (`cast_to=object`), not as the SDK's models: that spares their import, and compatible
servers send what those models do not know. The SDK's retries are off: the loop retries, visibly.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

from core.errors import ContextOverflow, ProviderError
from core.providers import lean_import
from core.providers.base import Delta, ModelInfo, ModelRequest
from core.providers.endpoint import Endpoint, http_client, time_limits, with_near_names
from core.providers.failures import cut, from_exception
from core.providers.openai_answer import ChatAnswer
from core.providers.openai_request import OFFICIAL_HOST, body_of
from core.providers.tool_calls import known_ids

_OPTIONAL: Final = ("stream_options", "prompt_cache_key", "reasoning_effort", "temperature")
_LIMITS: Final = ("max_completion_tokens", "max_tokens")
_UNKNOWN_FIELD: Final = re.compile(
    r"extra (inputs|fields)|additional propert|(unknown|unsupported) (field|parameter|argument)|unrecognized",
    re.IGNORECASE,
)
_GRACE_SECONDS: Final = 5.0  # for the usage and the end mark, once the answer itself is whole
_END: Final = object()


class OpenAIProvider:
    """One server that speaks chat completions."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.id
        self._endpoint = endpoint
        self._official = urlsplit(endpoint.base_url).hostname == OFFICIAL_HOST
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._key_source = ""
        self._refused: set[str] = set()

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
            found = await client.get("/models", cast_to=object)
        except Exception as error:
            raise from_exception(error, self._endpoint.api(key=self._key_source)) from None
        return model_infos(found)

    async def close(self) -> None:
        """See `Provider`."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        answer = ChatAnswer(known_ids(request.messages))
        started = False
        chunks = await self._sent(request)
        try:
            while (chunk := await _next(chunks, answer)) is not _END:
                for delta in answer.feed(chunk):
                    started = True
                    yield delta
        finally:
            await chunks.close()
        if answer.finished is None:
            raise cut(self._endpoint.api(), started=started)
        yield answer.finished

    async def _sent(self, request: ModelRequest) -> Any:
        """The stream of chunks. What a server refuses although nobody needs it is left out from then on."""
        client, module = await self._opened()
        body = body_of(request, official=self._official)
        while True:
            for name in self._refused & body.keys():
                _leave_out(body, name)
            try:
                return await client.post(
                    "/chat/completions",
                    cast_to=object,
                    body=body,
                    stream=True,
                    stream_cls=module.AsyncStream[object],
                )
            except Exception as error:
                api = self._endpoint.api(model=request.model, key=self._key_source)
                failure = from_exception(error, api)
                names = self._dispensable(failure, str(getattr(error, "body", "")), body) - self._refused
                if not names:
                    raise failure from None
                self._refused |= names

    def _dispensable(self, failure: ProviderError, text: str, body: dict[str, Any]) -> set[str]:
        """The fields of a refused request that the server named as the reason, and that it can do without."""
        if failure.code != "request_invalid" or isinstance(failure, ContextOverflow):
            return set()
        named: set[str] = {name for name in (*_OPTIONAL, *_LIMITS) if name in text and name in body}
        if not named and not self._official and "stream_options" in body and _UNKNOWN_FIELD.search(text):
            return {"stream_options"}
        return named

    async def _opened(self) -> tuple[Any, Any]:
        """The SDK's client and the module it is from; made in a thread, since it imports, and asks for the key."""
        async with self._opening:
            module = await asyncio.to_thread(lean_import.load, "openai")
            if self._client is None:
                self._client = await asyncio.to_thread(self._connected, module)
            return self._client, module

    def _connected(self, module: Any) -> Any:
        secret, self._key_source = self._endpoint.key()
        return module.AsyncOpenAI(
            api_key=secret.reveal() if secret else "none",
            base_url=self._endpoint.base_url,
            default_headers=dict(self._endpoint.headers),
            max_retries=0,
            timeout=time_limits(module, self._endpoint),
            http_client=http_client("openai", self._endpoint),
        )


async def _next(chunks: Any, answer: ChatAnswer) -> object:
    """The next chunk, or `_END`. Once the answer is whole, neither silence nor a cut can spoil it."""
    if answer.finished is None:
        return await anext(chunks, _END)
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            return await anext(chunks, _END)
    except Exception:
        return _END


def _leave_out(body: dict[str, Any], name: str) -> None:
    value = body.pop(name)
    if name == "max_completion_tokens":
        body["max_tokens"] = value
    elif name == "max_tokens":
        body["max_completion_tokens"] = value


def model_infos(found: object) -> tuple[ModelInfo, ...]:
    """What an answer to GET /models lists; servers put the window under several names."""
    data = found.get("data") if isinstance(found, dict) else None
    listed = [each for each in data if isinstance(each, dict) and each.get("id")] if isinstance(data, list) else []
    return tuple(ModelInfo(name=str(each["id"]), context_window=_window(each)) for each in listed)


def _window(entry: dict[str, Any]) -> int:
    meta = entry.get("meta")
    places = (entry, meta if isinstance(meta, dict) else {})
    names = ("context_length", "max_model_len", "context_window", "max_input_tokens", "loaded_context_length", "n_ctx")
    found = (place.get(name) for name in names for place in places)
    return next((value for value in found if isinstance(value, int) and value > 0), 0)
