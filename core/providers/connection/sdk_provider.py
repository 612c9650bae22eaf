"""The base of the providers over an official SDK: its client, how it is opened and closed, and whose words errors take.

An heir names the SDK and says how a request becomes a stream of deltas. The SDK's retries are off: the loop retries,
visibly.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final

from core.errors import AgentTuiError
from core.protocol.messages import WireProtocol
from core.providers.base import Delta, ModelInfo, ModelRequest
from core.providers.catalog import listing
from core.providers.catalog import reported as told
from core.providers.catalog.capabilities import Capabilities, find_capabilities
from core.providers.connection import keys, lean_import
from core.providers.connection.endpoint import Endpoint, add_near_names, build_http_client, build_timeouts
from core.providers.connection.event_stream import build_stream_class
from core.providers.connection.failures import Api, SilentTooLong, build_exception_error
from core.providers.connection.lean_import import Sdk

END: Final = object()


async def read_next(stream: Any, grace: float | None, *, patience: float) -> object:
    """The next of a stream, or `END`. With a grace (seconds) the answer is whole, and neither silence nor a cut can
    spoil it; a stream that is read to its end leaves a connection that the next call can use. `patience`: seconds in
    which a server may send nothing but signs of life. Raises `TimeoutError` after them."""
    if grace is None:
        try:
            async with asyncio.timeout(patience) as limit:
                return await anext(stream, END)
        except TimeoutError:
            if limit.expired():
                raise SilentTooLong(patience, "nothing but signs of life") from None
            raise
    try:
        async with asyncio.timeout(grace):
            return await anext(stream, END)
    except Exception:
        return END


class SdkProvider(ABC):
    """One server, and the SDK's client for it. `Provider` says what its methods promise."""

    sdk: ClassVar[Sdk]
    client_class: ClassVar[str]
    models_path: ClassVar[str]

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.id
        self._endpoint = endpoint
        self._module: Any = None
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._key_source = ""
        self._learning: asyncio.Task[None] | None = None
        self._asked: set[str] = set()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """One call. Raises `ProviderError`, `ContextOverflow`."""
        has_started = False
        try:
            async for delta in self._stream_answer(request):
                has_started = True
                yield delta
            self._learn_capabilities(request)
        except Exception as error:
            failure = build_exception_error(error, self._build_api(request.model), has_started=has_started)
            if failure.code == "key_rejected":
                await self._forget_key()
            raise await add_near_names(failure, self, request.model) from None

    async def list_models(self) -> tuple[ModelInfo, ...]:
        try:
            client, _ = await self._open_client()
            answer = await client.get(self.models_path, cast_to=object)
        except Exception as error:
            raise build_exception_error(error, self._build_api()) from None
        return told.parse_model_infos(answer)

    async def close(self) -> None:
        learning, self._learning = self._learning, None
        if learning is not None:
            learning.cancel()
            await asyncio.wait({learning})
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _learn_capabilities(self, request: ModelRequest) -> None:
        """After an answer: find out in the background what the model can do, unless the API was asked lately."""
        if request.private or request.model in self._asked:
            return
        if self._learning is None or self._learning.done():
            self._asked.add(request.model)
            self._learning = asyncio.create_task(self._fetch_capabilities(request.model))

    async def _fetch_capabilities(self, model: str) -> None:
        """On a connection of its own, so that no call waits for it."""
        if not await asyncio.to_thread(told.is_due, self._endpoint.base_url, model):
            return
        with contextlib.suppress(AgentTuiError):  # the key that there just was is gone
            secret, _ = await asyncio.to_thread(self._endpoint.load_key)
            await listing.fetch_capabilities(self._endpoint, secret, self.sdk, model)

    async def _forget_key(self) -> None:
        """The next call looks for the key anew: keys of a command may hold for an hour only."""
        keys.forget_key(self._endpoint.key_command)
        await self.close()

    @abstractmethod
    def _stream_answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """The deltas of one call; what goes wrong is raised as it is."""

    def _build_api(self, model: str = "") -> Api:
        return self._endpoint.build_api(model=model, key=self._key_source, is_prefixed=self.sdk == "openai")

    async def _open_client(self) -> tuple[Any, Any]:
        """The SDK's client and the module it is from; made in a thread, since it imports, and asks for the key."""
        async with self._opening:
            if self._module is None:
                self._module = await asyncio.to_thread(lean_import.load_sdk, self.sdk)
            if self._client is None:
                self._client = await asyncio.to_thread(self._build_client, self._module)
            return self._client, self._module

    def _build_client(self, module: Any) -> Any:
        secret, self._key_source = self._endpoint.load_key()
        headers = dict(self._endpoint.headers)
        if secret and self._endpoint.key_header:
            headers[self._endpoint.key_header] = secret.reveal()
        return getattr(module, self.client_class)(
            api_key=secret.reveal() if secret else "none",
            base_url=self._endpoint.base_url,
            default_headers=headers,
            default_query=dict(self._endpoint.query),
            max_retries=0,
            timeout=build_timeouts(module, self._endpoint),
            http_client=build_http_client(self.sdk, self._endpoint),
            **self._client_options(),
        )

    def _client_options(self) -> dict[str, Any]:
        """The options that only this SDK's client takes."""
        return {}

    async def _post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
        """The stream of events that answers a request; their data as it came, parsed."""
        client, module = await self._open_client()
        stream, options = build_stream_class(module.AsyncStream), {"headers": headers or {}}
        return await client.post(path, cast_to=object, content=body, options=options, stream=True, stream_cls=stream)

    def _find_capabilities(self, model: str, wire: WireProtocol) -> Capabilities:
        return find_capabilities(self.name, model, wire=wire, origin=self._endpoint.base_url)
