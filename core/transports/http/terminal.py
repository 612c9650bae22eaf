"""The screen in a browser: one `agent-tui attach` process per tab, driven by the front end of textual-serve.

A page can't send headers with a WebSocket, so it first requests a ticket with its token; the ticket opens one terminal,
once, within half a minute. The front end speaks JSON lists (`["stdin", text]`, `["resize", {width, height}]`, `ping`,
`focus`, `blur`). The screen speaks the packets of Textual's web driver: a letter, four bytes of length, the payload.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from core.clock import monotonic
from core.errors import CommandRejected
from core.records import decode_json
from core.tasks import TaskOwner

TICKET_SECONDS: Final = 30.0
MAX_TERMINALS: Final = 16
MAX_PACKET: Final = 16 * 1024 * 1024
MAX_MESSAGE: Final = 1024 * 1024
STOP_LIMIT: Final = 5.0
PRELUDE: Final = b"__GANGLION__\n"  # the driver's mark before the first packet
_INHERITED: Final = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
_INHERITED_PREFIXES: Final = ("AGENT_TUI_", "LC_", "XDG_")
_OPENED_SCHEMES: Final = ("http://", "https://")


class TabSocket(Protocol):
    """The WebSocket of a tab, as starlette provides it."""

    async def receive_text(self) -> str: ...

    async def send_bytes(self, data: bytes) -> None: ...

    async def send_text(self, data: str) -> None: ...

    async def close(self, code: int = ..., reason: str | None = ...) -> None: ...


class Tickets:
    """Issued tickets: a ticket opens the terminal of one session, once, within `TICKET_SECONDS`."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[str, float]] = {}

    def issue(self, session: str) -> str:
        """Issue a ticket for a session. Raises `CommandRejected` if there are too many."""
        now = monotonic()
        self._sessions = {key: entry for key, entry in self._sessions.items() if entry[1] > now}
        if len(self._sessions) >= MAX_TERMINALS:
            raise CommandRejected("too many terminals were asked for.", hint="Wait half a minute.", code="busy")
        ticket = secrets.token_urlsafe(32)
        self._sessions[ticket] = (session, now + TICKET_SECONDS)
        return ticket

    def redeem(self, ticket: str) -> str | None:
        """Use up a ticket and return its session; None: it is unknown or expired."""
        session, deadline = self._sessions.pop(ticket, ("", 0.0))
        return session if deadline > monotonic() else None


MapAddress = Callable[[str], Awaitable[str]]


class Terminals:
    """The open terminals. `program`: the argv prefix that starts this program."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self.tickets = Tickets()
        self._program = program
        self._open = 0

    async def serve(self, page: TabSocket, session: str, size: tuple[int, int], map_address: MapAddress) -> None:
        """Run a screen of a session for a tab, until either closes. `size`: columns, rows. `map_address` returns the
        address at which the tab reaches what the screen opens."""
        if self._open >= MAX_TERMINALS:
            await page.close(1013, "too many terminals are open")
            return
        self._open += 1
        try:
            await self._run(page, session, size, map_address)
        finally:
            self._open -= 1

    async def _run(self, page: TabSocket, session: str, size: tuple[int, int], map_address: MapAddress) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._program,
                "attach",
                session,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=build_environment(os.environ, size),
                start_new_session=True,
            )
        except OSError:
            await page.close(1011, "the screen can't be started")
            return
        tasks = TaskOwner()
        screen = tasks.start(_forward_output(process, page, map_address), name="screen of a tab")
        keys = tasks.start(_forward_input(process, page), name="keys of a tab")
        try:
            await asyncio.wait({screen, keys}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await tasks.cancel()
            await _end(process)
            with contextlib.suppress(Exception):  # the tab may be closed
                await page.close(1000)


def build_environment(environment: Mapping[str, str], size: tuple[int, int]) -> dict[str, str]:
    """Return the environment of a screen in a browser. It has no provider keys, since the engine runs elsewhere."""
    inherited_variables = {
        key: value for key, value in environment.items() if key in _INHERITED or key.startswith(_INHERITED_PREFIXES)
    }
    return {
        **inherited_variables,
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "TEXTUAL_FPS": "60",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "TERM_PROGRAM": "textual",
        "COLUMNS": str(size[0]),
        "ROWS": str(size[1]),
    }


def encode_packet(kind: bytes, payload: bytes) -> bytes:
    """Encode a packet for the driver. `kind`: `D` = data, `M` = JSON about the terminal."""
    return b"%s%s%s" % (kind, len(payload).to_bytes(4, "big"), payload)


async def _forward_output(process: asyncio.subprocess.Process, page: TabSocket, map_address: MapAddress) -> None:
    """Send the output of a screen to the tab, until it ends."""
    assert process.stdout is not None
    read = process.stdout.readexactly
    with contextlib.suppress(asyncio.IncompleteReadError, ValueError, ConnectionError):
        while await process.stdout.readline() != PRELUDE:
            if process.stdout.at_eof():
                return
        while True:
            kind, size = await read(1), int.from_bytes(await read(4), "big")
            if size > MAX_PACKET:
                return
            payload = await read(size)
            if kind == b"D":
                await page.send_bytes(payload)
            elif kind == b"M":
                meta = decode_json(payload, dict[str, Any])
                if meta.get("type") == "exit":
                    return
                if url := _find_opened(meta):
                    opened = ["open_url", {"url": await map_address(url), "new_tab": True}]
                    await page.send_text(msgspec.json.encode(opened).decode())


def _find_opened(meta: dict[str, Any]) -> str:
    """Return the address that the screen asks to open, "" = it asks for something else."""
    url = meta.get("url")
    is_opening = meta.get("type") == "open_url" and isinstance(url, str) and url.startswith(_OPENED_SCHEMES)
    return str(url) if is_opening else ""


async def _forward_input(process: asyncio.subprocess.Process, page: TabSocket) -> None:
    """Send the input of the tab to its screen, until the tab closes."""
    stdin = process.stdin
    assert stdin is not None
    handlers: Mapping[str, Callable[[Any], bytes]] = {
        "stdin": lambda text: encode_packet(b"D", str(text).encode()),
        "resize": _encode_resize,
        "focus": lambda _: encode_packet(b"M", b'{"type":"focus"}'),
        "blur": lambda _: encode_packet(b"M", b'{"type":"blur"}'),
    }
    with contextlib.suppress(Exception):  # any error of the connection ends the screen
        while True:
            raw = await page.receive_text()
            if len(raw) > MAX_MESSAGE:
                return
            kind, *rest = decode_json(raw.encode(), list[Any])
            argument = rest[0] if rest else None
            if kind == "ping":
                await page.send_text(msgspec.json.encode(["pong", argument]).decode())
            elif (encode := handlers.get(kind)) is not None:
                stdin.write(encode(argument))
                await stdin.drain()


def _encode_resize(size: Any) -> bytes:
    width, height = clamp_size(size["width"], size["height"])
    return encode_packet(b"M", msgspec.json.encode({"type": "resize", "width": width, "height": height}))


def clamp_size(width: Any, height: Any) -> tuple[int, int]:
    """Return a terminal size (columns, rows) within the limits. Raises `ValueError`, `TypeError`."""
    return min(max(int(width), 20), 1000), min(max(int(height), 5), 500)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a screen to quit, then end its process."""
    if process.stdin is not None:
        with contextlib.suppress(OSError, RuntimeError):
            process.stdin.write(encode_packet(b"M", b'{"type":"quit"}'))
            process.stdin.close()
    for stop in (None, process.terminate, process.kill):
        if stop is not None:
            with contextlib.suppress(ProcessLookupError):
                stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_LIMIT)
            return
