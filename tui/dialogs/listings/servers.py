"""The dialog of the MCP servers: their status, their share of the model's window, and the switches of their tools.

Another dialog asks whether a server of the project may run, and shows its whole entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from core.protocol.commands import ServerControl
from core.protocol.queries import ServerRow, ServersAnswer, ServerToolRow
from core.text.counting import count
from tui.dialogs.listings.listing import ListingDialog
from tui.dialogs.pages import ConfirmDialog, PageDialog
from tui.keymap import get_bindings
from tui.text import expose_content, expose_line, expose_text, render_output, render_prose
from tui.timers import start_timer
from tui.workers import start_worker

_WIDE: Final = 80  # columns, from which there is room for these, too
_RUNNING_HINTS: Final = (("servers.restart", "start"), ("servers.stop", "stop"))
KEY_HINTS: Final = (
    ("servers.unfold", "tools"),
    ("servers.switch", "on/off"),
    ("servers.allow", "allow"),
    ("servers.look", "log"),
    ("servers.leave", "back"),
)
STATES: Final = {
    "unasked": "needs approval",
    "refused": "not allowed",
    "off": "off",
    "idle": "not started",
    "starting": "starting",
    "running": "running",
    "failed": "failed",
}
SIGNS: Final = {"unasked": "?", "refused": "-", "off": "-", "failed": "!"}
BOXED: Final = "Sandboxed, no network. File changes go to review."
REMOTE: Final = "Reached over the network, not sandboxed."
_NONE: Final = "No MCP servers here. /help mcp says how to add one."
_UNTRUSTED: Final = "This project is not trusted: its own servers are not loaded."
_MAX_NAME: Final = 24
_MAX_PROBLEMS: Final = 3
LOOK_AGAIN: Final = 0.5  # seconds, while a server is being started
_ALLOWED: Final = frozenset({"idle", "starting", "running", "failed"})
Act = Callable[[ServerControl], Awaitable[ServersAnswer | None]]
Look = Callable[[], Awaitable[ServersAnswer | None]]
Action = Literal["on", "off", "stop", "restart", "allow", "withdraw"]


class ServersDialog(ListingDialog[None]):
    """Shows servers, those unfolded with their tools. `act` carries a command out and returns the servers after it;
    None = it was refused. `look` returns them as they are: it is asked while one of them is being started."""

    BINDINGS = get_bindings("servers")

    def __init__(self, answer: ServersAnswer, act: Act, look: Look) -> None:
        super().__init__("MCP servers")
        self._answer, self._act, self._load_servers = answer, act, look
        self._timer: Timer | None = None
        self._unfolded = {server.name for server in answer.servers} if len(answer.servers) == 1 else set[str]()

    def set_up(self) -> None:
        *first, leave = KEY_HINTS
        is_wide = self.app.size.width >= _WIDE
        self.show_keys((*first, *(_RUNNING_HINTS if is_wide else ()), leave))
        self._show(0)

    def _show(self, index: int) -> None:
        answer = self._answer
        tools = [tool for server in answer.servers for tool in server.tools if tool.is_on and server.state in _ALLOWED]
        tokens = sum(tool.tokens for tool in tools)
        total = f"{count('server', len(answer.servers))}, {count('tool', len(tools))} on: {tokens:,} tokens"
        width = min(max((len(server_row.name) for server_row in answer.servers), default=0), _MAX_NAME)
        rows = [_format_tool(tool) if tool else _format_server(server, width) for server, tool in self._rows]
        hidden_count = len(answer.problems) - _MAX_PROBLEMS
        notes = (*answer.problems[:_MAX_PROBLEMS], *((f"and {hidden_count:,} more",) if hidden_count > 0 else ()))
        self.show_rows(total if rows else "", rows, (*notes, *(() if answer.is_trusted else (_UNTRUSTED,))), index)
        if self._timer is not None:
            self._timer.stop()
        starts = any(server_row.state == "starting" for server_row in answer.servers)
        self._timer = start_timer(self, LOOK_AGAIN, self._start_poll) if starts else None

    def _start_poll(self) -> None:
        start_worker(self, self._poll, group="servers look")

    async def _poll(self) -> None:
        self._take(await self._load_servers())

    def _take(self, answer: ServersAnswer | None) -> None:
        """Show the servers as they are now, with the mark where it was."""
        if answer is not None and self.is_attached:
            index = self.marked or 0
            self._answer = answer
            self._show(index)

    @property
    def _rows(self) -> list[tuple[ServerRow, ServerToolRow | None]]:
        """The rows in order: every server, and the tools of unfolded ones."""
        rows: list[tuple[ServerRow, ServerToolRow | None]] = []
        for server in self._answer.servers:
            rows.append((server, None))
            rows += [(server, tool) for tool in server.tools if server.name in self._unfolded]
        return rows

    @property
    def _row(self) -> tuple[ServerRow, ServerToolRow | None] | None:
        index, rows = self.marked, self._rows
        return rows[index] if index is not None and index < len(rows) else None

    def show_reason(self) -> None:
        if (row := self._row) is None:
            self.show_note(_NONE if self._answer.is_trusted else "")
            return
        server, tool = row
        if tool is not None:
            if tool.is_held:
                self.show_note("Its description has changed: look at it, then turn it on.", "$text-warning")
                return
            if tool.flags:
                self.show_note(f"Check its description: {', '.join(tool.flags)}.", "$text-warning")
                return
            reads = "It claims to change nothing. " if tool.is_reading else ""
            self.show_note(f"{reads}{tool.description}")
        else:
            detail = server.problem or server.entry.replace("\n", ", ")
            self.show_note(f"{server.source}: {detail}", "$text-warning" if server.problem else "$foreground 60%")

    def action_unfold(self) -> None:
        """Show or hide the tools of a server; one whose tools nobody knows yet is started for that."""
        if (row := self._row) is None:
            return
        server = row[0]
        self._unfolded ^= {server.name}
        if server.state == "idle" and not server.tools:
            self._unfolded.add(server.name)
            self.action_restart()
        else:
            self._show([server_row for server_row, _ in self._rows].index(server))

    def action_switch(self) -> None:
        if (row := self._row) is None:
            return
        server, tool = row
        is_waiting = any(tool_row.is_held for tool_row in server.tools)
        is_on = tool.is_on if tool is not None else server.state != "off" and not is_waiting
        self._carry_out(server, "off" if is_on else "on", tool=tool.name if tool else "")

    def action_restart(self) -> None:
        if (row := self._row) is not None:
            self.show_note("Starting…")
            self._carry_out(row[0], "restart")

    def action_stop(self) -> None:
        if (row := self._row) is not None:
            self._carry_out(row[0], "stop")

    def action_allow(self) -> None:
        """Ask for approval of the current server, or revoke it immediately."""
        if (row := self._row) is None:
            return
        server = row[0]
        if not server.is_project:
            self.show_note("It is in your own configuration, so it is already allowed.", "$text-warning")
        elif server.state == "off":
            self.show_note("It is off: turn it on first.", "$text-warning")
        elif server.state in _ALLOWED:
            self._carry_out(server, "withdraw")
        else:
            _ = self.app.push_screen(
                ServerConsentDialog(server), lambda is_agreed: self._allow(server) if is_agreed else None
            )

    def _allow(self, server: ServerRow) -> None:
        self._carry_out(server, "allow")

    def action_look(self) -> None:
        if (row := self._row) is not None:
            _ = self.app.push_screen(build_tool_page(row[1]) if row[1] else build_server_page(row[0]))

    def _carry_out(self, server: ServerRow, action: Action, *, tool: str = "") -> None:
        command = ServerControl(server=server.name, action=action, tool=tool, digest=server.digest)
        start_worker(self, self._submit, command, group="servers")

    async def _submit(self, command: ServerControl) -> None:
        self._take(await self._act(command))


class ServerConsentDialog(ConfirmDialog):
    """Asks for approval of a server that the project configures, and shows all of its entry."""

    def __init__(self, server: ServerRow) -> None:
        super().__init__(f"Let {server.name} run in this project?", "allow", no="not now")
        self._server = server

    def compose(self) -> ComposeResult:
        server = self._server
        variables_note = f"\nIt gets your variables {', '.join(server.variables)}." if server.variables else ""
        with Vertical(classes="dialog page"):
            yield Static(self._title, classes="dialog-title")
            with VerticalScroll():
                reach = REMOTE if server.is_remote else BOXED
                explanation = f"From {server.source}:\n\n{server.entry}\n{variables_note}\n{reach}"
                yield Static(expose_content(explanation))
            yield self._build_keys()

    def set_up(self) -> None:
        self.query_one(VerticalScroll).focus()


def build_server_page(server: ServerRow) -> PageDialog:
    """Build the page of a server: its entry, its errors, and the end of its log."""
    parts = [
        (f"{STATES[server.state]}, {render_prose(server.source)}\n\n", "$foreground 60%"),
        (f"{expose_text(server.entry)}\n", ""),
    ]
    parts += [(f"\n! {render_prose(server.problem)}\n", "$text-warning")] if server.problem else []
    log = render_output(server.log).strip()
    parts += [("\nEnd of its log:\n", "bold"), (log, "")] if log else [("\nIts log is empty.", "$foreground 60%")]
    return PageDialog(f"MCP server {server.name}", Content.assemble(*parts))


def build_tool_page(tool: ServerToolRow) -> PageDialog:
    """Build the page of a tool: its description for the model, and the previous one if that changed."""
    now = [(f"! {', '.join(tool.flags)}\n\n", "$text-warning")] if tool.flags else []
    now += [("Now:\n", "bold")] if tool.is_held else []
    parts = [*now, (expose_text(tool.text), "")]
    if tool.is_held:
        parts += [("\n\nBefore:\n", "bold"), (expose_text(tool.before) or "Not saved.", "$foreground 60%")]
    return PageDialog(f"Tool {tool.name}", Content.assemble(*parts))


def _format_server(server: ServerRow, width: int) -> Content:
    is_used = server.state in _ALLOWED
    on = [tool for tool in server.tools if tool.is_on]
    some = (
        f"{len(on):,} of {count('tool', len(server.tools))}" if len(on) < len(server.tools) else count("tool", len(on))
    )
    size = f"{some}, {sum(tool.tokens for tool in on):,} tokens" if server.tools else ""
    is_waiting = server.state in {"unasked", "failed"}
    return Content.assemble(
        (
            f"{SIGNS.get(server.state, '+')} ",
            "$text-warning" if is_waiting else "$accent" if is_used else "$foreground 60%",
        ),
        (expose_line(server.name, width).ljust(width + 2), "" if is_used or is_waiting else "$foreground 60%"),
        (f"{STATES[server.state]:<16}", "$text-warning" if is_waiting else "$foreground 60%"),
        (size, "" if is_used else "$foreground 60%"),
    )


def _format_tool(tool: ServerToolRow) -> Content:
    style = "" if tool.is_on else "$foreground 60%"
    sign, colour = (
        ("! ", "$text-warning")
        if tool.is_held or (tool.flags and tool.is_on)
        else ("+ ", "$accent")
        if tool.is_on
        else ("- ", style)
    )
    return Content.assemble(
        ("    ", ""),
        (sign, colour),
        (expose_line(tool.name, 28).ljust(28), style),
        (f" {tool.tokens:>6,} tokens", "$foreground 60%"),
        ("  changed" if tool.is_held else "" if tool.is_on else "  off", "$foreground 60%"),
    )
