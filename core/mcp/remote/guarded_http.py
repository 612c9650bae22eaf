"""HTTP to a remote server: the network of `web_fetch`, with bounded answers and the fault of the last request in words.

A host in an inner network is reached only if it stands in `inner`, which holds no more than the host that the user's
own configuration names, or that the user said yes to (SAFETY I11). What a server leads to, such as the place of a
login, is held to the public network like a page. Proxies of the environment are not used: what was checked is dialled.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, Final

import httpcore2
import httpx2
from msgspec import Struct

from core.errors import WebFailed
from core.sandbox.addresses import is_public, parse_ip_address
from core.sandbox.proxy import Resolver, resolve_host
from core.web.address import WebAddress
from core.web.network import Connector, GuardedNetwork, connect_directly

MAX_BYTES: Final = 64 << 20  # of one answer
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_ANSWERED: Final = frozenset({400, 404, 409, 413, 422})  # with a JSON body the server's own answer to one request
_SAID: Final = 200
FIRST_REFUSING: Final = 300  # the status from which on a request was not taken: no redirect is followed


class HttpFault(Struct, frozen=True):
    """The fault of a request. `status` 0: there was no answer; `is_unsent`: the server can't have acted on it;
    `is_passing`: it may be gone when it is tried again."""

    text: str
    hint: str = ""
    status: int = 0
    is_unsent: bool = False
    is_passing: bool = False


def build_server_network(
    inner: Collection[str], resolve: Resolver = resolve_host, connect: Connector = connect_directly
) -> GuardedNetwork:
    """Return the network of one server. `inner`: hosts that may be in an inner network."""
    return GuardedNetwork(resolve, connect, is_admitted=lambda target: target.host.lower().removesuffix(".") in inner)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The transport of a client of one server. `fault`: of the last request to `watched`, None = it went well.

    `is_watched` selects the requests whose status counts: a probe of another address says nothing of the server.
    `on_refusal` is called with each request that was not taken.
    """

    def __init__(
        self,
        network: GuardedNetwork,
        context: ssl.SSLContext,
        is_watched: Callable[[httpx2.Request], bool],
        on_refusal: Callable[[httpx2.Request], None] = lambda _: None,
    ) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context, max_connections=20, keepalive_expiry=30.0, network_backend=network
        )
        self._is_watched, self._on_refusal = is_watched, on_refusal
        self.fault: HttpFault | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        core_request = httpcore2.Request(
            request.method, target, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        try:
            answer = await self._pool.handle_async_request(core_request)
        except Exception as problem:
            self.fault = explain_exception(problem, url.host)
            self._on_refusal(request)
            raise httpx2.ConnectError(self.fault.text, request=request) from None
        head = {name.lower(): value for name, value in answer.headers}
        if self._is_watched(request):
            is_json = head.get(b"content-type", b"").lower().startswith(b"application/json")
            is_over = answer.status == 404 and "mcp-session-id" in request.headers
            is_answered = is_json and answer.status in _ANSWERED and not is_over
            if not (is_answered and self.fault is not None and self.fault.status in {401, 403}):
                self.fault = None if is_answered else explain_status(answer.status, url.host)
        if answer.status >= FIRST_REFUSING:
            self._on_refusal(request)
        content_encoding = head.get(b"content-encoding", b"identity").strip().lower()
        stream = _BoundedStream(answer.stream, self, url.host, content_encoding not in {b"", b"identity"})
        return httpx2.Response(answer.status, headers=answer.headers, stream=stream, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer, up to what one may have; a packed one is refused, as it was not asked for."""

    def __init__(self, stream: Any, transport: GuardedTransport, host: str, is_packed: bool) -> None:
        self._stream, self._transport, self._host, self._is_packed = stream, transport, host, is_packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_packed:
            raise self._refuse("packs its answer in a way that was not asked for")
        size = 0
        try:
            async for piece in self._stream:
                size += len(piece)
                if size > MAX_BYTES:
                    raise self._refuse(f"sends an answer of more than {MAX_BYTES >> 20} MB")
                yield piece
        except (OSError, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as problem:
            raise httpx2.ReadError(explain_exception(problem, self._host).text) from None

    def _refuse(self, reason: str) -> Exception:
        self._transport.fault = HttpFault(f"{self._host} {reason}.")
        return httpx2.ReadError(self._transport.fault.text)

    async def aclose(self) -> None:
        await self._stream.aclose()


def explain_status(status: int, host: str) -> HttpFault | None:
    """Return what a status says is wrong, None = nothing is."""
    if status < 400:
        return None
    if status == 401:
        return HttpFault(f"{host} wants a login (401).", status=status)
    if status == 403:
        return HttpFault(f"{host} refuses this: it is not allowed to this login (403).", status=status)
    if status in {404, 410}:
        hint = 'Check its "url".'
        return HttpFault(f"{host} has no server at this address ({status}).", hint, status, is_unsent=True)
    if status == 405:
        return HttpFault(f"{host} takes no messages at this address (405).", 'Check its "url" and "type".', status)
    hint = "Try again later." if status in _PASSING else ""
    return HttpFault(f"{host} answers with an error ({status}).", hint, status, is_passing=status in _PASSING)


def explain_exception(problem: Exception, host: str) -> HttpFault:
    """Return why a host gave no answer."""
    if isinstance(problem, WebFailed):
        if problem.code != "refused_address":
            return HttpFault(problem.message, problem.hint, is_unsent=True, is_passing=problem.code == "unreachable")
        text = f"The host {host} is not out in the public network"
        hint = "A server there has to stand in your own mcp.json."
        return HttpFault(f"{text}, and neither you nor your configuration named it.", hint, is_unsent=True)
    message = " ".join(str(problem).split())[:_SAID].rstrip(".") or type(problem).__name__
    if isinstance(problem, httpcore2.TimeoutException | TimeoutError):
        return HttpFault(f"{host} did not answer in time.", is_passing=True)
    if "CERTIFICATE" in message.upper() or "SSL" in message.upper():
        return HttpFault(f"The connection to {host} can't be trusted: {message}.", "Check its certificate.")
    is_unsent = isinstance(problem, httpcore2.ConnectError | OSError)
    return HttpFault(f"{host} can't be reached: {message}.", is_unsent=is_unsent, is_passing=True)


def is_this_machine(host: str) -> bool:
    """True if a host says by itself that it is this machine."""
    ip_address = parse_ip_address(host)
    return ip_address.is_loopback if ip_address is not None else host == "localhost" or host.endswith(".localhost")


def is_inner_name(address: WebAddress) -> bool:
    """True if an address says by itself that it is on this machine or in an inner network."""
    host = address.host
    ip_address = parse_ip_address(host)
    return not is_public(ip_address) if ip_address is not None else host == "localhost" or host.endswith(".localhost")
