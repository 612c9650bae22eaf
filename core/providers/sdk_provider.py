"""The base of the providers over an official SDK: its client, its lifetime, and the mapping of its errors.

A subclass names the SDK and turns a request into a stream of deltas. The SDK's retries are off: the agent loop retries,
so that the user sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, ClassVar, Final

from core.errors import AgentTuiError, ContextOverflow
from core.protocol.messages import WireProtocol
from core.providers.base import Delta, ModelInfo, ModelRequest
from core.providers.catalog import reported, server_reports
from core.providers.catalog.capabilities import Capabilities, find_capabilities
from core.providers.connection import keys, lean_import
from core.providers.connection.addresses import is_loopback
from core.providers.connection.endpoint import Endpoint, add_similar_names, build_http_client, build_timeouts
from core.providers.connection.event_stream import build_stream_class
from core.providers.connection.failures import Api, SilentTooLong, build_exception_error
from core.providers.connection.lean_import import Sdk

END: Final = object()


async def read_next(stream: Any, grace: float | None, *, patience: float) -> object:
    """Return the next item of a stream, or `END`. With a `grace` (seconds) the answer is complete, so silence and cuts
    are ignored; a stream that is read to its end leaves a connection that the next call can reuse. `patience`: seconds
    in which a server may send only pings. Raises `SilentTooLong` after them."""
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
    """One server and the SDK's client for it. See `Provider` for the contract of its methods."""

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
        self._refresh: asyncio.Task[None] | None = None
        self._asked: set[str] = set()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Make one call. Raises `ProviderError`, `ContextOverflow`."""
        has_started = False
        try:
            async for delta in self._stream_answer(request):
                has_started = True
                yield delta
            self._refresh_capabilities(request)
        except Exception as error:
            failure = build_exception_error(error, self._build_api(request.model), has_started=has_started)
            if failure.code == "key_rejected":
                await self._forget_key()
            if isinstance(failure, ContextOverflow):
                await self._remember_window(request, failure.window)
            raise await add_similar_names(failure, self, request.model) from None

    async def list_models(self) -> tuple[ModelInfo, ...]:
        try:
            client, _ = await self._open_client()
            answer = await client.get(self.models_path, cast_to=object)
        except Exception as error:
            raise build_exception_error(error, self._build_api()) from None
        return reported.parse_model_infos(answer)

    async def close(self) -> None:
        refresh, self._refresh = self._refresh, None
        if refresh is not None:
            refresh.cancel()
            await asyncio.wait({refresh})
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def learn(self, model: str, *, private: bool = False, load: bool = False) -> None:
        """Ask a server of this machine what it says of a model, and any other server of the user's own once, as long as
        the window is not known; a server that does not answer soon is not waited for. The makers' own APIs are asked
        after an answer."""
        base_url = self._endpoint.base_url
        if not is_loopback(base_url):
            report = reported.load_reported(base_url, model)
            is_known = report is not None and report.context_window > 0
            if self._endpoint.needs_key or private or is_known or model in self._asked:
                return
        self._asked.add(model)
        with contextlib.suppress(AgentTuiError):  # Without a key, the request will say so.
            secret, _ = await asyncio.to_thread(self._endpoint.load_key)
            server = server_reports.AskedServer(self._endpoint, secret, self.sdk)
            await server_reports.fetch_reports(server, model, keep=not private, load=load)

    def _refresh_capabilities(self, request: ModelRequest) -> None:
        """Fetch the model's capabilities in the background after an answer, unless they were fetched lately."""
        if request.private or request.model in self._asked:
            return
        if self._refresh is None or self._refresh.done():
            self._asked.add(request.model)
            self._refresh = asyncio.create_task(self._fetch_capabilities(request.model))

    async def _fetch_capabilities(self, model: str) -> None:
        """Fetch the capabilities on a separate connection, so that no call waits for them."""
        if not await asyncio.to_thread(reported.is_due, self._endpoint.base_url, model):
            return
        with contextlib.suppress(AgentTuiError):  # The key of a moment ago is gone.
            secret, _ = await asyncio.to_thread(self._endpoint.load_key)
            await server_reports.fetch_reports(server_reports.AskedServer(self._endpoint, secret, self.sdk), model)

    async def _remember_window(self, request: ModelRequest, window: int) -> None:
        """Store the window that a server of the user's own named in a refusal; the makers' windows are listed."""
        if window and not self._endpoint.needs_key:
            reports = {request.model: reported.ReportedCapabilities(context_window=window)}
            save = partial(reported.save_reports, keep=not request.private)
            await asyncio.to_thread(save, self._endpoint.base_url, reports)

    async def _forget_key(self) -> None:
        """Make the next call look for the key again, since the keys of a command may expire within an hour."""
        keys.forget_key(self._endpoint.key_command)
        await self.close()

    @abstractmethod
    def _stream_answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the deltas of one call. Errors are raised unconverted."""

    def _build_api(self, model: str = "") -> Api:
        return self._endpoint.build_api(model=model, key=self._key_source, is_prefixed=self.sdk == "openai")

    async def _open_client(self) -> tuple[Any, Any]:
        """Return the SDK's client and module. Both are made in a thread, since this imports the SDK and looks for the
        key."""
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
        """Return the options that only this SDK's client takes."""
        return {}

    async def _post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
        """Return the stream of parsed events that answers a request."""
        client, module = await self._open_client()
        stream, options = build_stream_class(module.AsyncStream), {"headers": headers or {}}
        return await client.post(path, cast_to=object, content=body, options=options, stream=True, stream_cls=stream)

    def _find_capabilities(self, model: str, wire: WireProtocol) -> Capabilities:
        return find_capabilities(self.name, model, wire=wire, origin=self._endpoint.base_url)
