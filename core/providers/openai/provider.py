"""OpenAI's chat completions through its SDK, and every server that speaks the same dialect.

Chunks are taken as plain JSON (`cast_to=object`), not as the SDK's models: that spares their import, and compatible
servers send what those models do not know.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

from core.errors import ContextOverflow, ProviderError
from core.providers.base import Delta, ModelRequest
from core.providers.connection.endpoint import Endpoint
from core.providers.connection.event_stream import refuse_other, stream_class
from core.providers.connection.failures import cut, from_exception
from core.providers.connection.sdk_provider import END, SdkProvider, next_of
from core.providers.openai.chat_answer import ChatAnswer
from core.providers.openai.chat_request import OFFICIAL_HOST, body_of
from core.providers.wire.tool_calls import known_ids

_OPTIONAL: Final = ("stream_options", "prompt_cache_key", "reasoning_effort", "temperature")
_LIMITS: Final = ("max_completion_tokens", "max_tokens")
_UNKNOWN_FIELD: Final = re.compile(
    r"extra (inputs|fields)|additional propert|(unknown|unsupported) (field|parameter|argument)|unrecognized",
    re.IGNORECASE,
)
_GRACE_SECONDS: Final = 5.0  # for the usage and the end mark, once the answer itself is whole


class OpenAIProvider(SdkProvider):
    """One server that speaks chat completions."""

    sdk = "openai"
    client_class = "AsyncOpenAI"
    models_path = "/models"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._official = urlsplit(endpoint.base_url).hostname == OFFICIAL_HOST
        self._refused: set[str] = set()

    async def _answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        answer = ChatAnswer(known_ids(request.messages))
        started = False
        chunks, patience = await self._sent(request), self._endpoint.patience
        try:
            await refuse_other(chunks, self._api(request.model))
            while (
                chunk := await next_of(chunks, _GRACE_SECONDS if answer.finished else None, patience=patience)
            ) is not END:
                for delta in answer.feed(chunk):
                    started = True
                    yield delta
        finally:
            await chunks.close()
        finished = answer.finished or (answer.unstated() if chunks.is_done else None)
        if finished is None:
            raise cut(self._endpoint.api(), started=started)
        yield finished

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
                    stream_cls=stream_class(module.AsyncStream),
                )
            except Exception as error:
                failure = from_exception(error, self._api(request.model))
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


def _leave_out(body: dict[str, Any], name: str) -> None:
    value = body.pop(name)
    if name == "max_completion_tokens":
        body["max_tokens"] = value
    elif name == "max_tokens":
        body["max_completion_tokens"] = value
