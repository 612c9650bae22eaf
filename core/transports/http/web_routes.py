"""The web page by HTTP: its files, which hold no secret and need no token, and the terminals.

A page gets its token from the fragment of its URL, which no server sees. All of its data comes by the API.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct
from starlette.responses import Response
from starlette.websockets import WebSocket

from core.errors import CommandRejected
from core.protocol.commands import PortOpen
from core.protocol.queries import IdleQuery
from core.transports.http.access import Grant, HttpRefused
from core.transports.http.routing import POLICY_VIOLATED, WEBSOCKET, HttpRoute
from core.transports.http.service import HttpService
from core.transports.http.session_routes import ONE, load_state
from core.transports.http.terminal import Terminals, clamp_size

TERMINALS: Final = "/api/v1/terminals/"
_KINDS: Final = {  # starlette adds the charset of text
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".ttf": "font/ttf",
}
_STATIC: Final = Path(__file__).parent / "static"
# The files that the pages name. Those in `xterm` are copies of textual-serve's front end, which draws the terminal.
_SERVED: Final = frozenset(
    {
        *("api.js", "review.js", "style.css", "terminal.css", "terminal.js", "visible.js", "xterm/css/xterm.css"),
        *("xterm/fonts/RobotoMono-VariableFont_wght.ttf", "xterm/js/textual.js"),
    }
)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; font-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'self'"
)
Page = Annotated[Response, "text/html"]
_HEADERS: Final = {"Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin"}


class TerminalRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session whose screen is wanted."""

    session: str


class TerminalPlace(Struct, frozen=True, kw_only=True):
    """The address of a WebSocket that opens the terminal, once and soon."""

    path: str


async def show_page() -> Page:
    """Serve the web page with sessions, open questions and hunks."""
    return _serve_file("index.html", _POLICY)


async def show_terminal() -> Page:
    """Serve the page of the screen. xterm.js sets styles of its own, so those are allowed here."""
    return _serve_file("terminal.html", f"{_POLICY} 'unsafe-inline'")


async def read_static(name: str) -> Annotated[Response, "*/*"]:
    """Serve a file that the web page uses."""
    if (relative_path := name.strip("/")) not in _SERVED:
        raise HttpRefused(404, "route_unknown", "Not Found")
    return _serve_file(relative_path)


async def ask_terminal(data: TerminalRequest, service: HttpService) -> TerminalPlace:
    """Return the address of a WebSocket with the screen of a session, which can do whatever the user can. Its query
    takes `width` and `height` in cells. It opens once, within 30 s."""
    await service.find(data.session)
    return TerminalPlace(path=TERMINALS + _get_terminals(service).tickets.issue(data.session))


class PortPlace(Struct, frozen=True, kw_only=True):
    """The address of an opened port, for one visit."""

    url: str


async def open_port(session: str, port: int, service: HttpService) -> PortPlace:
    """Open a port of the session's commands, and return an address beside this server's, at which a browser reaches
    what listens there. It works once, within 30 s, and gives the browser a cookie for later visits."""
    client = await service.find(session)
    if not await _find_address(service, session, port):
        await service.submit(client, PortOpen(session=session, port=port))
        await client.query(IdleQuery(session=session))
    address = await _find_address(service, session, port)
    if not address:
        raise CommandRejected(f"port {port} could not be opened.", code="port_refused")
    return PortPlace(url=await _pass_gate(service, address))


async def _find_address(service: HttpService, session: str, port: int) -> str:
    """Return where an opened port is reached on this machine, "" = it is not opened."""
    state = await load_state(service, session)
    return next((open_port.address for open_port in state.ports if open_port.port == port), "")


async def _pass_gate(service: HttpService, address: str) -> str:
    """Return an address beside this server's for one at this machine's loopback."""
    if service.gates is None:
        raise CommandRejected(
            "the server listens at a socket, which has no ports beside it.",
            hint=f"Open {address}.",
            code="port_refused",
        )
    try:
        return await service.gates.open(address)
    except OSError as error:
        reason = error.strerror or "it failed"
        raise CommandRejected(f"no port is free beside this server: {reason}.", code="port_refused") from None


async def open_terminal(socket: WebSocket, ticket: str, service: HttpService) -> None:
    """Run the screen of a session in a tab, until either is gone."""
    terminals = _get_terminals(service)
    session = terminals.tickets.redeem(ticket)
    if session is None:
        await socket.close(POLICY_VIOLATED, "the ticket is used up, or too old")
        return
    width, height = (socket.query_params.get(name, "") for name in ("width", "height"))
    try:
        size = clamp_size(width, height)
    except ValueError:
        size = (80, 24)

    async def map_address(url: str) -> str:
        state = await load_state(service, session)
        is_port = service.gates is not None and url in [port.address for port in state.ports if port.address]
        return await _pass_gate(service, url) if is_port else url

    await socket.accept()
    with service.engines.hold(session):
        await terminals.serve(socket, session, size, map_address)


def _get_terminals(service: HttpService) -> Terminals:
    assert service.terminals is not None  # else these routes are not served
    return service.terminals


def _serve_file(name: str, policy: str = "default-src 'none'") -> Response:
    path = _STATIC / name
    headers = {**_HEADERS, "Content-Security-Policy": policy}
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix], headers=headers)


ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute("GET", "/", show_page, Grant.NONE, "The page"),
    HttpRoute("GET", "/terminal", show_terminal, Grant.NONE, "The page of the screen"),
    HttpRoute("GET", "/static/{name:path}", read_static, Grant.NONE, "A file of the web page"),
    HttpRoute("POST", TERMINALS.rstrip("/"), ask_terminal, Grant.APPROVE, "Open the screen of a session", 201),
    HttpRoute("POST", f"{ONE}/ports/{{port}}", open_port, Grant.APPROVE, "Open a port of the session's commands", 201),
    HttpRoute(WEBSOCKET, TERMINALS + "{ticket}", open_terminal, Grant.NONE),
)
