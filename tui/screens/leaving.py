"""Leaving: what runs is asked about, and so is what a private session would take with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.protocol import commands
from tui.screens.notes import Confirm
from tui.screens.picker import Choice, Picker
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

KEEP, DROP = "keep", "drop"
CHOICES: Final = (
    Choice(KEEP, "Keep the changes", "without the conversation; `agent-tui review` shows them"),
    Choice(DROP, "Drop them", "nothing is left of this session"),
)


def leave(screen: ActingScreen) -> None:
    """Leave, after what has to be asked."""
    if not screen.state.running:
        _end(screen)
        return
    stop = Confirm("A turn is running. Stop it and leave?", "stop and leave")
    _ = screen.app.push_screen(stop, lambda leaves: _end(screen) if leaves else None)


def _end(screen: ActingScreen) -> None:
    waiting = screen.state.pending_hunks
    if not (screen.state.private and waiting):
        screen.app.exit()
        return
    told = f"This session is private, and {waiting} {'hunk waits' if waiting == 1 else 'hunks wait'} for your review"
    _ = screen.app.push_screen(Picker(told, CHOICES), lambda chosen: _chosen(screen, chosen))


def _chosen(screen: ActingScreen, chosen: str | None) -> None:
    if chosen == KEEP:
        begin(screen, _keep, screen, group="commands")
    elif chosen == DROP:
        screen.app.exit()


async def _keep(screen: ActingScreen) -> None:
    if await screen.deliver(commands.PendingKeep()):
        screen.state.kept = True
        screen.app.exit()
