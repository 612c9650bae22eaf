"""Leaving: asks about a running turn, and about the changes of a private session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.protocol import commands, queries
from tui.screens.dialogs.pages import ConfirmDialog
from tui.screens.dialogs.picker import PickerDialog, PickerOption
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

KEEP, DROP = "keep", "drop"
OPTIONS: Final = (
    PickerOption(KEEP, "Keep the changes", "without the conversation"),
    PickerOption(DROP, "Drop them", "nothing is left"),
)


def leave_app(screen: ActingScreen) -> None:
    """Leave the app, after the questions that have to be asked."""
    if not screen.state.is_running:
        _exit_app(screen)
        return
    stop = ConfirmDialog("A turn is running. Stop it and leave?", "stop and leave")
    _ = screen.app.push_screen(stop, lambda leaves: _exit_app(screen) if leaves else None)


def _exit_app(screen: ActingScreen) -> None:
    if screen.state.is_private:
        start_worker(screen, _ask_about_changes, screen, group="leaving", exclusive=True)
    else:
        screen.app.exit()


async def _ask_about_changes(screen: ActingScreen) -> None:
    """Ask about the changes of this private session, and of those before it."""
    state = screen.state
    found = await screen.bridge.query(queries.SessionsQuery())
    listed = found.sessions if isinstance(found, queries.SessionsAnswer) else ()
    others = [each.id for each in listed if each.pending and each.id != state.session_id]
    sessions = [*([state.session_id] if state.pending_hunk_count else []), *others]
    if not sessions:
        screen.app.exit()
        return
    also = f" (and of {len(others)} earlier ones)" if others else ""
    told = f"Changes of this private session{also} wait for your review"
    about = "What is kept, `agent-tui review` shows."
    _ = screen.app.push_screen(
        PickerDialog(told, OPTIONS, about=about), lambda chosen: _apply_choice(screen, chosen, sessions)
    )


def _apply_choice(screen: ActingScreen, chosen: str | None, sessions: list[str]) -> None:
    if chosen == KEEP:
        start_worker(screen, _keep_changes, screen, sessions, group="leaving", exclusive=True)
    elif chosen == DROP:
        screen.app.exit()


async def _keep_changes(screen: ActingScreen, sessions: list[str]) -> None:
    for session in sessions:
        if not await screen.submit(commands.PendingKeep(session=session)):
            return
    screen.state.is_pending_kept = True
    screen.app.exit()
