"""Leaving: what runs is asked about, and so is what a private session would take with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.protocol import commands, queries
from tui.screens.notes import Confirm
from tui.screens.picker import Choice, Picker
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

KEEP, DROP = "keep", "drop"
CHOICES: Final = (
    Choice(KEEP, "Keep the changes", "without the conversation"),
    Choice(DROP, "Drop them", "nothing is left"),
)


def leave(screen: ActingScreen) -> None:
    """Leave, after what has to be asked."""
    if not screen.state.running:
        _end(screen)
        return
    stop = Confirm("A turn is running. Stop it and leave?", "stop and leave")
    _ = screen.app.push_screen(stop, lambda leaves: _end(screen) if leaves else None)


def _end(screen: ActingScreen) -> None:
    if screen.state.private:
        begin(screen, _ask, screen, group="leaving", exclusive=True)
    else:
        screen.app.exit()


async def _ask(screen: ActingScreen) -> None:
    """What waits in this session, and in private ones that it came after."""
    state = screen.state
    found = await screen.bridge.query(queries.SessionsQuery())
    listed = found.sessions if isinstance(found, queries.Sessions) else ()
    others = [each.id for each in listed if each.pending and each.id != state.session]
    sessions = [*([state.session] if state.pending_hunks else []), *others]
    if not sessions:
        screen.app.exit()
        return
    also = f" (and of {len(others)} earlier ones)" if others else ""
    told = f"Changes of this private session{also} wait for your review"
    about = "What is kept, `agent-tui review` shows."
    _ = screen.app.push_screen(Picker(told, CHOICES, about=about), lambda chosen: _chosen(screen, chosen, sessions))


def _chosen(screen: ActingScreen, chosen: str | None, sessions: list[str]) -> None:
    if chosen == KEEP:
        begin(screen, _keep, screen, sessions, group="leaving", exclusive=True)
    elif chosen == DROP:
        screen.app.exit()


async def _keep(screen: ActingScreen, sessions: list[str]) -> None:
    for session in sessions:
        if not await screen.deliver(commands.PendingKeep(session=session)):
            return
    screen.state.kept = True
    screen.app.exit()
