"""The dialog of the ports at which the session's commands listen, and where the user reaches those that are opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.content import Content

from core.protocol.events import OpenPort
from tui.dialogs.listings.listing import ListingDialog
from tui.keymap import get_bindings
from tui.text import expose_line, fit_line

REFRESH_SECONDS: Final = 0.5
NONE_LISTENS: Final = "No command of this session is listening at a port."
_OPEN, _CLOSE, _LEAVE = ("ports.open", "open in your browser"), ("ports.close", "close"), ("ports.leave", "back")
_MUTED: Final = "$foreground 60%"
PortAct = Callable[[int], None]


class PortsDialog(ListingDialog[None]):
    """Lists ports; `load` returns those of the moment, `open_port` and `close_port` act on one."""

    BINDINGS = get_bindings("ports")

    def __init__(self, load: Callable[[], tuple[OpenPort, ...]], open_port: PortAct, close_port: PortAct) -> None:
        super().__init__("Ports")
        self._load, self._open, self._close = load, open_port, close_port
        self._ports = load()

    def set_up(self) -> None:
        self._show()
        self.set_interval(REFRESH_SECONDS, self._refresh_ports)

    def _refresh_ports(self) -> None:
        ports = self._load()
        if ports != self._ports and self.is_attached:
            self._ports = ports
            self._show()

    def _show(self) -> None:
        total = "" if self._ports else NONE_LISTENS
        self.show_rows(total, [_format_port(port) for port in self._ports], (), self.marked or 0)

    @property
    def _marked_port(self) -> OpenPort | None:
        index = self.marked
        return self._ports[index] if index is not None and index < len(self._ports) else None

    def show_reason(self) -> None:
        """Say who reaches the marked port, and show the keys that act on it."""
        port = self._marked_port
        is_open = port is not None and bool(port.address)
        self.show_keys([*([_OPEN] if port is not None else []), *([_CLOSE] if is_open else []), _LEAVE])
        if port is None:
            self.show_note("A server that the agent starts in the background appears here.")
        elif not port.address:
            self.show_note("In the sandbox: only the session's commands reach it.")
        elif port.is_listening:
            self.show_note("Forwarded: every program on this machine reaches it.")
        else:
            self.show_note("Forwarded, but nothing is listening now.")

    def action_open(self) -> None:
        if (port := self._marked_port) is not None:
            self._open(port.port)

    def action_close_port(self) -> None:
        if (port := self._marked_port) is not None and port.address:
            self._close(port.port)


def _format_port(port: OpenPort) -> Content:
    program, _, arguments = port.command.partition(" ")
    words = f"{program.rpartition('/')[2]} {arguments}".strip()
    command = fit_line(expose_line(words, 200), 60) if port.is_listening else "not listening now"
    address = (port.address, "$text-success") if port.address else ("", "")
    return Content.assemble((f"{port.port:<6}", "bold"), " ", address, "  " if port.address else "", (command, _MUTED))
