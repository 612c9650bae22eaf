"""The web page by HTTP: its files, which hold no secret and need no token, and the terminals.

A page gets its token from the fragment of its URL, which no server sees. All of its data comes by the API.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from litestar import Response, WebSocket, get, post, websocket
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from core.transports.http.service import APPROVES, PUBLIC, HttpService, Served
from core.transports.http.terminal import Terminals, clamp_size

TERMINALS: Final = "/api/v1/terminals/"
POLICY_VIOLATED: Final = 1008  # close code of a WebSocket
_KINDS: Final = {  # litestar adds the charset of text
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".ttf": "font/ttf",
}
_OWN: Final = ("api.js", "review.js", "style.css", "terminal.css", "terminal.js", "visible.js")
# Files of textual-serve's front end, which draws the terminal (xterm.js).
_XTERM: Final = ("css/xterm.css", "fonts/RobotoMono-VariableFont_wght.ttf", "js/textual.js")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; font-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'self'"
)
_HEADERS: Final = {"Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin"}


class TerminalRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session whose screen is wanted."""

    session: str


class TerminalPlace(Struct, frozen=True, kw_only=True):
    """The address of a WebSocket that opens the terminal, once and soon."""

    path: str


@get("/", opt=PUBLIC, summary="The page")
async def show_page() -> Response[bytes]:
    """Serve the page for a phone: sessions, what waits, hunks."""
    return _serve_file(_find_own("index.html"), _POLICY)


@get("/terminal", opt=PUBLIC, summary="The page of a terminal")
async def show_terminal() -> Response[bytes]:
    """Serve the page of the screen. xterm.js sets styles of its own, so those are allowed here."""
    return _serve_file(_find_own("terminal.html"), f"{_POLICY} 'unsafe-inline'")


@get("/static/{name:path}", opt=PUBLIC, summary="A file of the pages")
async def read_static(name: FromPath[str]) -> Response[bytes]:
    """Serve a file that the pages name."""
    relative_path = str(name).strip("/")
    if relative_path in _OWN:
        return _serve_file(_find_own(relative_path))
    if (of_xterm := relative_path.removeprefix("xterm/")) != relative_path and of_xterm in _XTERM:
        return _serve_file(_find_xterm() / of_xterm)
    raise NotFoundException


@post(TERMINALS.rstrip("/"), opt=APPROVES, summary="Ask for the terminal of a session")
async def ask_terminal(data: JSONBody[TerminalRequest], service: Served) -> TerminalPlace:
    """Return where the screen of a session is, which can do whatever the user can: the address of a WebSocket, with
    `width` and `height` in cells as its query. It opens once, within 30 s."""
    await service.find(data.session)
    return TerminalPlace(path=TERMINALS + _get_terminals(service).tickets.issue(data.session))


@websocket(TERMINALS + "{ticket:str}", opt=PUBLIC)
async def open_terminal(socket: WebSocket[Any, Any, Any], ticket: FromPath[str], service: Served) -> None:
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
    if service.terminals is None:
        raise NotFoundException
    return service.terminals


def _serve_file(path: Path, policy: str = "") -> Response[bytes]:
    headers = {**_HEADERS, "Content-Security-Policy": policy or "default-src 'none'"}
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix], headers=headers)


def _find_own(name: str) -> Path:
    return Path(__file__).parent / "static" / name


def _find_xterm() -> Path:
    """Return the directory of textual-serve's front end. The package itself, which has its own server, is not
    imported."""
    spec = find_spec("textual_serve")
    if spec is None or spec.origin is None:
        raise NotFoundException
    return Path(spec.origin).parent / "static"


HANDLERS: Final[tuple[Any, ...]] = (show_page, show_terminal, read_static, ask_terminal, open_terminal)
