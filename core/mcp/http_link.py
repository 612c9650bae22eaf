"""HTTP to a remote server: its address and headers, a guarded transport with bounded answers, and the streams of the
SDK.

A remote server is outside of every sandbox: it learns nothing of the project but the arguments of calls. It may be in
an inner network only if the user's own configuration names its host, or the user consented to the entry. Whatever the
server refers to, such as the endpoint of a login, has to be in the public network. Proxies of the environment are not
used: the address that was checked is the address that is dialled. The command that prints headers (`headersHelper`)
runs in the sandbox before each connection, without network, after the consent to its entry.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import httpcore2
import httpx2
import msgspec
from msgspec import Struct

from core.errors import ConfigError, ToolFailed, WebFailed
from core.mcp.logins import LoginStore, StoredLogin
from core.mcp.server_config import ServerConfig, Variables
from core.mcp.wire.sdk_connection import open_http_streams
from core.records import decode_json
from core.sandbox.addresses import is_public, parse_ip_address
from core.sandbox.proxy import Resolver, resolve_host
from core.secrets import register_secret
from core.shell.command_host import CommandHost
from core.shell.server_process import ServerProcess
from core.web.address import WebAddress, parse_address
from core.web.network import Connector, GuardedNetwork, connect_directly

MAX_BYTES: Final = 64 << 20  # per response
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_ANSWERED: Final = frozenset({400, 404, 409, 413, 422})  # with a JSON body these are answers to one request, not faults
_MAX_REASON: Final = 200
FIRST_REFUSED_STATUS: Final = 300  # redirects are not followed, so they refuse a request, too
CONNECT_SECONDS: Final = 15.0
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
HEADERS_SECONDS: Final = 10.0
MAX_HEADERS_TEXT: Final = 65_536  # characters of output
_HEADERS_HINT: Final = 'It has to print an object such as {"Authorization": "Bearer …"}, without using the network.'


class RemoteTarget(Struct, frozen=True):
    """The address of a server and the headers for it. `inner`: hosts that may have private addresses."""

    address: WebAddress
    headers: Mapping[str, str]
    inner: frozenset[str]


def build_target(
    config: ServerConfig, variables: Variables, command_headers: Mapping[str, str] = NO_HEADERS
) -> RemoteTarget:
    """Build the target of an entry with the headers that its command printed. Raises `ConfigError`."""
    try:
        address = parse_address(variables.expand(config.url))
    except WebFailed as problem:
        raise ConfigError(f'its "url" can\'t be used: {problem.message}') from None
    headers = {}
    for name, value in ({**variables.expand_all(config.headers), **command_headers}).items():
        if name.lower() in _OWN_HEADERS or not (name.isascii() and name.replace("-", "").isalnum()):
            raise ConfigError(f"its header {name!r} can't be set")
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"its header {name!r} is invalid: it has to be one line of ASCII")
        if value != config.headers.get(name):
            register_secret(value)
            register_secret(value.rpartition(" ")[2])
        headers[name] = value
    is_named = not config.is_project or is_private_address(address)
    return RemoteTarget(address, headers, frozenset({address.host} if is_named else ()))


class HttpLink:
    """One connection. `problem`: why it is unusable, "" = it is usable. `auth`: None = the stored login, unless the
    entry has an authorization header. `on_loss` is called when no answer can arrive any more."""

    def __init__(self, config: ServerConfig, target: RemoteTarget, auth: httpx2.Auth | None = None) -> None:
        self._config, self._target = config, target
        is_authorized = any(name.lower() == "authorization" for name in target.headers)
        self._auth = auth or (None if is_authorized else StoredLogin(LoginStore(str(target.address))))
        self._transport: GuardedTransport | None = None
        self._closed = ""
        self.on_loss: Callable[[], None] = lambda: None

    @property
    def fault(self) -> HttpFault | None:
        """The fault of the last request; None = it succeeded."""
        return self._transport.fault if self._transport is not None else None

    @property
    def problem(self) -> str:
        fault = self.fault
        return self._closed or (self._describe(fault) if fault is not None else "")

    def _describe(self, fault: HttpFault) -> str:
        command = f"agent-tui mcp login {self._config.name}"
        if fault.status == 401 and self._auth is not None:
            return f"{fault.text.removesuffix('.')}: {command}"
        if fault.status == 403 and isinstance(self._auth, StoredLogin) and self._auth.missing_scope:
            return (
                f"{self._target.address.host} requires a login with more rights ({self._auth.missing_scope}): {command}"
            )
        return fault.text

    def close(self, reason: str) -> None:
        """Record why the link is unusable."""
        self._closed = self._closed or reason

    def is_watched(self, request: httpx2.Request) -> bool:
        """True if the status of this request describes the server."""
        is_here = str(request.url) == str(self._target.address)
        if self._config.transport == "sse":
            return is_here or request.method == "POST"
        return is_here and request.method == "POST"

    def _report_refusal(self, request: httpx2.Request) -> None:
        """Report a refused message: over SSE the SDK then sends nothing more, and does not notify the callers."""
        if self._config.transport == "sse" and request.method == "POST":
            self.on_loss()

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Open the streams that the SDK reads from and writes to."""
        target = self._target
        context = await asyncio.to_thread(ssl.create_default_context)
        network = build_server_network(target.inner)
        self._transport = transport = GuardedTransport(network, context, self.is_watched, self._report_refusal)
        client = httpx2.AsyncClient(
            transport=transport,
            headers={"User-Agent": "agent-tui", "Accept-Encoding": "identity", **target.headers},
            auth=self._auth,
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
            trust_env=False,
        )
        async with open_http_streams(str(target.address), client, is_sse=self._config.transport == "sse") as streams:
            yield streams

    def build_error(self, message: str) -> ToolFailed:
        """Build the error of a failed connection."""
        fault = self.fault
        return ToolFailed(self._describe(fault), hint=fault.hint) if fault is not None else ToolFailed(message)


async def read_headers(
    config: ServerConfig, variables: Variables, host: CommandHost, log: Callable[[str], None]
) -> Mapping[str, str]:
    """Return the headers that an entry's command prints; none without a command. `log` receives its errors.

    Raises `ConfigError` for invalid output, `ToolFailed` without a sandbox.
    """
    if not config.headers_command:
        return {}
    env = {
        **variables.expand_all(config.env),
        "CLAUDE_PROJECT_DIR": str(variables.workspace),
        "CLAUDE_CODE_MCP_SERVER_NAME": config.name,
        "CLAUDE_CODE_MCP_SERVER_URL": variables.expand(config.url),
    }
    process = ServerProcess(host, keeps_effects=False, folder=config.folder)
    pieces: list[str] = []
    too_much = asyncio.Event()

    def collect(piece: str) -> None:
        pieces.append(piece)
        if sum(map(len, pieces)) > MAX_HEADERS_TEXT:
            too_much.set()

    running = await process.start(("/bin/sh", "-c", config.headers_command), env, collect, log)
    flood = asyncio.ensure_future(too_much.wait())
    end = asyncio.ensure_future(running.wait())
    try:
        await asyncio.wait((flood, end), timeout=HEADERS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if too_much.is_set():
            raise _build_headers_error(f"prints more than {MAX_HEADERS_TEXT:,} characters")
        if not end.done():
            raise _build_headers_error(f"did not end within {HEADERS_SECONDS:.0f} seconds")
        if code := end.result().exit_code:
            raise _build_headers_error(f"ended with exit code {code}")
    finally:
        flood.cancel()
        await process.stop()
    return _parse_headers("".join(pieces))


def _parse_headers(text: str) -> Mapping[str, str]:
    try:
        return decode_json(text, dict[str, str])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise _build_headers_error("printed no JSON object of texts") from None


def _build_headers_error(problem: str) -> ConfigError:
    return ConfigError(f'its "headersHelper" {problem}', hint=_HEADERS_HINT)


class HttpFault(Struct, frozen=True):
    """The fault of a request. `status` 0: no response; `is_unsent`: the server can't have acted on it; `is_transient`:
    a retry may succeed."""

    text: str
    hint: str = ""
    status: int = 0
    is_unsent: bool = False
    is_transient: bool = False


def build_server_network(
    inner: Collection[str], resolve: Resolver = resolve_host, connect: Connector = connect_directly
) -> GuardedNetwork:
    """Return the network of one server. `inner`: hosts that may have private addresses."""
    return GuardedNetwork(resolve, connect, is_admitted=lambda target: target.host.lower().removesuffix(".") in inner)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The HTTP transport for one server. `fault`: of the last watched request, None = it succeeded.

    `is_watched` selects the requests whose status describes the server; probes of other addresses do not. `on_refusal`
    is called with every refused request.
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
            is_session_lost = answer.status == 404 and "mcp-session-id" in request.headers
            is_answered = is_json and answer.status in _ANSWERED and not is_session_lost
            if not (is_answered and self.fault is not None and self.fault.status in {401, 403}):
                self.fault = None if is_answered else explain_status(answer.status, url.host)
        if answer.status >= FIRST_REFUSED_STATUS:
            self._on_refusal(request)
        content_encoding = head.get(b"content-encoding", b"identity").strip().lower()
        stream = _BoundedStream(answer.stream, self, url.host, content_encoding not in {b"", b"identity"})
        return httpx2.Response(answer.status, headers=answer.headers, stream=stream, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of a response, up to `MAX_BYTES`. A compressed one is refused, because the request does not allow it."""

    def __init__(self, stream: Any, transport: GuardedTransport, host: str, is_packed: bool) -> None:
        self._stream, self._transport, self._host, self._is_packed = stream, transport, host, is_packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_packed:
            raise self._refuse("uses an encoding that was not requested")
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
    """Return the fault of a status; None = success."""
    if status < 400:
        return None
    if status == 401:
        return HttpFault(f"{host} requires a login (401).", status=status)
    if status == 403:
        return HttpFault(f"{host} refused: this login is not allowed to do that (403).", status=status)
    if status in {404, 410}:
        hint = 'Check its "url".'
        return HttpFault(f"{host} has no server at this address ({status}).", hint, status, is_unsent=True)
    if status == 405:
        return HttpFault(f"{host} accepts no messages at this address (405).", 'Check its "url" and "type".', status)
    hint = "Try again later." if status in _TRANSIENT else ""
    return HttpFault(f"{host} returned an error ({status}).", hint, status, is_transient=status in _TRANSIENT)


def explain_exception(problem: Exception, host: str) -> HttpFault:
    """Return the fault of a failed request."""
    if isinstance(problem, WebFailed):
        if problem.code != "refused_address":
            return HttpFault(problem.message, problem.hint, is_unsent=True, is_transient=problem.code == "unreachable")
        text = f"The host {host} is not on the public network"
        hint = "Such a server has to be in your own mcp.json."
        return HttpFault(f"{text}, and neither you nor your configuration named it.", hint, is_unsent=True)
    message = " ".join(str(problem).split())[:_MAX_REASON].rstrip(".") or type(problem).__name__
    if isinstance(problem, httpcore2.TimeoutException | TimeoutError):
        return HttpFault(f"{host} did not answer in time.", is_transient=True)
    if "CERTIFICATE" in message.upper() or "SSL" in message.upper():
        return HttpFault(f"The connection to {host} can't be trusted: {message}.", "Check its certificate.")
    is_unsent = isinstance(problem, httpcore2.ConnectError | OSError)
    return HttpFault(f"{host} can't be reached: {message}.", is_unsent=is_unsent, is_transient=True)


def is_loopback_host(host: str) -> bool:
    """True if a host name denotes this machine without a lookup."""
    ip_address = parse_ip_address(host)
    return ip_address.is_loopback if ip_address is not None else host == "localhost" or host.endswith(".localhost")


def is_private_address(address: WebAddress) -> bool:
    """True if an address denotes this machine or a private network without a lookup."""
    host = address.host
    ip_address = parse_ip_address(host)
    return not is_public(ip_address) if ip_address is not None else host == "localhost" or host.endswith(".localhost")
