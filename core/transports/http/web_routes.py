"""The web page by HTTP: its files, which hold no secret and need no token, and the terminals.

A page gets its token from the fragment of its URL, which no server sees. All of its data comes by the API.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct
from starlette.responses import Response
from starlette.websockets import WebSocket

from core.transports.http.access import Grant, HttpRefused
from core.transports.http.routing import POLICY_VIOLATED, WEBSOCKET, HttpRoute
from core.transports.http.service import HttpService
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
    await socket.accept()
    with service.engines.hold(session):
        await terminals.serve(socket, session, size)


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
    HttpRoute(WEBSOCKET, TERMINALS + "{ticket}", open_terminal, Grant.NONE),
)
