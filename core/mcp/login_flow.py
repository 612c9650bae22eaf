"""The login flow of a remote server: the user's browser goes to the issuer and returns to a port on loopback.

The SDK discovers the issuer, registers this program, and verifies the returning browser (PKCE, state, issuer). The
result is a `Login`, which `logins` stores and refreshes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from msgspec import Struct

from core.errors import ConfigError, ToolFailed
from core.mcp.http_link import HttpLink, RemoteTarget, build_target, is_loopback_host
from core.mcp.logins import Login, LoginStore, update_tokens
from core.mcp.server_config import OAuthOptions, ServerConfig, Variables
from core.mcp.wire.elicitation import Elicitation, ElicitationAnswer
from core.mcp.wire.sdk_connection import SdkConnection
from core.sandbox.plain_text import strip_escapes

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider

SECONDS: Final = 300.0  # limit of a login
MAX_HEAD: Final = 16_384  # bytes of a browser's request
_PATH: Final = "/callback"
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>agent-tui</title><p>{}</p>"


class RedirectResult(Struct, frozen=True):
    """The result of a redirect back to this program."""

    code: str = ""
    state: str = ""
    issuer: str | None = None
    problem: str = ""


class RedirectListener:
    """An HTTP listener on loopback for the browser that returns with the expected state."""

    def __init__(self, options: OAuthOptions) -> None:
        self._port = options.port
        # The user registered their own client with this name.
        self._host = "localhost" if options.client_id else "127.0.0.1"
        self._server: asyncio.Server | None = None
        self._redirect: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
        self.state = ""

    async def __aenter__(self) -> RedirectListener:
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=MAX_HEAD)
        except OSError as problem:
            raise ConfigError(
                f"the port {self._port} for the login is in use: {problem.strerror}.",
                hint="Stop the program that uses it.",
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def address(self) -> str:
        """The redirect address."""
        return f"http://{self._host}:{self._port}{_PATH}"

    async def wait(self) -> RedirectResult:
        """Return the result of the redirect. Raises `ToolFailed` for a refusal."""
        result = await self._redirect
        if result.problem:
            raise ToolFailed(f"the login was refused: {result.problem}")
        return result

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(10.0):
                head = await reader.readuntil(b"\r\n\r\n")
                status, message = self._parse_request(head.decode("latin-1").partition("\r\n")[0])
                body = _PAGE.format(message).encode()
                lines = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{lines}Connection: close\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()

    def _parse_request(self, line: str) -> tuple[str, str]:
        """Parse a request line; return the status and the text of the page."""
        method, _, rest = line.partition(" ")
        url = urlsplit(rest.partition(" ")[0])
        if method != "GET" or url.path != _PATH:
            return "404 Not Found", "There is nothing here."
        fields = {name: values[0] for name, values in parse_qs(url.query).items()}
        if not self.state or fields.get("state") != self.state:
            return "400 Bad Request", "This is not the login that agent-tui is waiting for."
        problem = " ".join(filter(None, (fields.get("error"), fields.get("error_description"))))
        result = RedirectResult(
            code=fields.get("code", ""),
            state=self.state,
            issuer=fields.get("iss"),
            problem=strip_escapes(problem)[:300],
        )
        if not self._redirect.done():
            self._redirect.set_result(result)
        return "200 OK", "The login was refused." if problem else "You are logged in. You can close this window."


class _TokenStorage:
    """The SDK's storage during a login. It provides the user's own client, if one is configured."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def get_tokens(self) -> None:
        return None

    async def set_tokens(self, tokens: object) -> None:
        """Leave the tokens in the provider."""

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: object) -> None:
        """Leave the client in the provider."""


async def log_in(
    config: ServerConfig, variables: Variables, show_page: Callable[[str], None], *, seconds: float = SECONDS
) -> str:
    """Log in to a server; return the outcome as a sentence. `show_page` shows the user the address to open.

    Raises `ConfigError`, `StateError`, `ToolFailed`.
    """
    if not config.is_remote:
        raise ConfigError(f"{config.name} is a local program: it has no login.", hint="")
    target = await asyncio.to_thread(build_target, config, variables)
    before = await asyncio.to_thread(list_scopes, LoginStore(str(target.address)))
    async with RedirectListener(config.oauth) as listener:
        provider: Any = None

        async def open_login_page(url: str) -> None:
            check_addresses(url, provider._get_token_endpoint())
            url = choose_scope(url, config.oauth.scopes, before)
            listener.state = parse_qs(urlsplit(url).query)["state"][0]
            show_page(url)

        provider = _build_provider(config, variables, target, listener, open_login_page)
        link = HttpLink(config, target, provider)
        connection = SdkConnection(link.open_streams(), lambda: None, cancel_elicitation)
        await connection.load()
        try:
            await connection.open(seconds, "")
        except TimeoutError:
            raise ToolFailed(f"nobody logged in within {seconds:.0f} seconds.", hint="Try it again.") from None
        except ToolFailed as problem:
            is_unreached = link.fault is not None and not link.fault.status
            raise (link.build_error(problem.message) if is_unreached else problem) from None
        finally:
            await connection.close()
    if provider.context.current_tokens is None:
        return f"{config.name} needs no login."
    login = _build_login(provider)
    location = await asyncio.to_thread(LoginStore(str(target.address)).save, login)
    return f"Logged in to {config.name} at {login.issuer}; stored in {location}."


def open_in_browser(url: str) -> bool:
    """Open a page in the user's browser. False: there is no display, or no browser opened."""
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    with suppress(webbrowser.Error, OSError):
        return webbrowser.open(url)
    return False


def log_out(config: ServerConfig, variables: Variables) -> bool:
    """Remove the login to a server. False: there was none. Raises `ConfigError`, `StateError`."""
    return LoginStore(str(build_target(config, variables).address)).remove()


def _build_provider(
    config: ServerConfig, variables: Variables, target: RemoteTarget, listener: RedirectListener, open_login_page: Any
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

    async def wait_for_redirect() -> AuthorizationCodeResult:
        result = await listener.wait()
        return AuthorizationCodeResult(code=result.code, state=result.state, iss=result.issuer)

    options, addresses, client = config.oauth, [listener.address], None
    if options.client_id:
        client_fields = {"client_id": variables.expand(options.client_id), "redirect_uris": addresses}
        if secret := variables.expand(options.client_secret):
            client_fields |= {"client_secret": secret, "token_endpoint_auth_method": "client_secret_basic"}
        client = OAuthClientInformationFull.model_validate(client_fields)
    metadata = {"client_name": "agent-tui", "redirect_uris": addresses, "token_endpoint_auth_method": "none"}
    try:
        return OAuthClientProvider(
            str(target.address),
            OAuthClientMetadata.model_validate(metadata),
            _TokenStorage(client),
            redirect_handler=open_login_page,
            callback_handler=wait_for_redirect,
            client_metadata_url=variables.expand(options.metadata_url) or None,
        )
    except ValueError as problem:
        raise ConfigError(f"its login can't be used: {problem}") from None


def list_scopes(store: LoginStore) -> tuple[str, ...]:
    """List the scopes of the last login and those that the server has required since; () = it required none."""
    missing_rights = store.find_entry().wanted.split()
    login = store.load() if missing_rights else None
    return (*(login.scope.split() if login is not None else ()), *missing_rights)


def choose_scope(url: str, configured_scopes: tuple[str, ...], extra_scopes: tuple[str, ...]) -> str:
    """Return the login address with the configured scopes (() = those in the address) and further ones."""
    parts = urlsplit(url)
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not configured_scopes and not extra_scopes:
        return url
    fields["scope"] = " ".join(dict.fromkeys((*(configured_scopes or fields.get("scope", "").split()), *extra_scopes)))
    return parts._replace(query=urlencode(fields)).geturl()


def check_addresses(*addresses: str) -> None:
    """Raise `ToolFailed` for an issuer that is reached neither by https nor on loopback: the login could be
    intercepted."""
    for address in addresses:
        url = urlsplit(address)
        if url.scheme != "https" and not is_loopback_host(url.hostname or ""):
            raise ToolFailed(f"its issuer is not reached over https ({url.hostname}), so a login could be intercepted")


def _build_login(provider: OAuthClientProvider) -> Login:
    context = provider.context
    tokens, client, metadata = context.current_tokens, context.client_info, context.oauth_metadata
    assert tokens is not None
    assert client is not None
    login = Login(
        issuer=str(metadata.issuer) if metadata is not None else context.get_authorization_base_url(context.server_url),
        token_endpoint=provider._get_token_endpoint(),
        client_id=client.client_id or "",
        client_secret=client.client_secret or "",
        auth_method=client.token_endpoint_auth_method or "",
        resource=context.get_resource_url() if context.protected_resource_metadata is not None else "",
    )
    return update_tokens(login, tokens.access_token, tokens.refresh_token or "", tokens.scope or "", tokens.expires_in)


async def cancel_elicitation(_: Elicitation) -> ElicitationAnswer:
    return ElicitationAnswer(action="cancel")
