"""The ports of the session's commands: the list, the chip, and opening one in the browser."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import OptionList, Static

from core.protocol import commands as c
from core.protocol import events as e
from tests.support import recorded
from tui.app import AgentApp
from tui.dialogs.listings.ports import PortsDialog
from tui.widgets.status_bar import StatusBar

VITE = e.OpenPort(port=5173, command="/usr/bin/node node_modules/.bin/vite")
API = e.OpenPort(port=8000, command="python3 -m http.server")
OPENED = e.OpenPort(port=5173, command=VITE.command, address="http://localhost:5173")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was opened at."""
    addresses: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.delenv("SSH_TTY", raising=False)
    monkeypatch.setattr(AgentApp, "open_url", lambda _, address: addresses.append(address))
    return addresses


def react(client: Any, command: c.AnyCommand) -> c.Reply | None:
    if isinstance(command, c.PortOpen):
        client.emit(e.PortsChanged(ports=(OPENED, API)))
    if isinstance(command, c.PortClose):
        client.emit(e.PortsChanged(ports=(VITE, API)))
    return None


def rows(on: Any) -> list[str]:
    return [str(option.prompt) for option in on.app.screen.query_one(OptionList).options]


def status(on: Any) -> str:
    return str(on.screen.query_one(StatusBar).render())


def note(on: Any) -> str:
    return str(on.app.screen.query_one("#listing-reason", Static).render())


async def test_a_port_is_opened_after_one_yes_and_closed_again(stage, opened):
    async with stage(recorded.opening(), react=react) as on:
        await on.emit(e.PortsChanged(ports=(VITE, API)))
        await on.open_listing("/ports", "PortsDialog")
        assert rows(on) == ["5173   node node_modules/.bin/vite", "8000   python3 -m http.server"]
        assert note(on) == "In the sandbox: only the session's commands reach it."
        await on.pilot.press("x")
        assert on.sent(c.PortClose) == []
        await on.pilot.press("o")
        await on.asked()
        await on.pilot.press("n")
        await on.until(lambda: isinstance(on.app.screen, PortsDialog))
        assert on.sent(c.PortOpen) == []
        await on.pilot.press("enter")
        await on.asked()
        await on.pilot.press("y")
        await on.until(lambda: opened)
        assert [command.port for command in on.sent(c.PortOpen)] == [5173]
        await on.until(lambda: "http://localhost:5173" in rows(on)[0])
        assert note(on) == "Forwarded: every program on this machine reaches it."
        await on.pilot.press("o")
        await on.until(lambda: len(opened) == 2)
        assert len(on.sent(c.PortOpen)) == 1
        await on.pilot.press("x")
        await on.until(lambda: "localhost" not in rows(on)[0])
        assert opened == ["http://localhost:5173"] * 2
        await on.pilot.press("down", "k", "j", "up")
        assert on.app.screen.marked == 0
        for leave in ("escape", "q"):
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)
            await on.open_listing("/ports", "PortsDialog")


async def test_over_ssh_the_address_is_shown_with_the_command_for_the_own_machine(stage, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22")
    async with stage(recorded.opening(), react=react) as on:
        await on.emit(e.PortsChanged(ports=(OPENED,)))
        await on.screen.run_action("jobs.show_ports('5173')")
        await on.until(lambda: on.app._notifications)
        [toast] = [notification.message for notification in on.app._notifications]
        assert toast == ("Open http://localhost:5173 From your own machine: ssh -L 5173:localhost:5173 HOST")


async def test_the_status_line_counts_the_ports_and_the_list_follows_them(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(e.PortsChanged(ports=(VITE,)))
        await on.until(lambda: "port 5173" in status(on))
        await on.emit(e.PortsChanged(ports=(VITE, API)))
        await on.until(lambda: "2 ports" in status(on))
        await on.open_listing("/ports", "PortsDialog")
        await on.emit(e.PortsChanged())
        await on.until(lambda: rows(on) == [])
        assert note(on) == "A server that the agent starts in the background appears here."
        await on.emit(e.PortsChanged(ports=(e.OpenPort(port=80, is_listening=False, address="http://localhost:80"),)))
        await on.until(lambda: rows(on) == ["80     http://localhost:80  not listening now"])
        assert note(on) == "Forwarded, but nothing is listening now."
