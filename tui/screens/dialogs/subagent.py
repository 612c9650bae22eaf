"""The dialog of one subagent: what it says and does, from its own log and then live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from textual.app import ComposeResult
from textual.timer import Timer

from core.protocol.events import Envelope
from tui.chat.transcript import Transcript
from tui.keymap import get_bindings
from tui.screens.dialogs.dialog import Dialog
from tui.state import ViewState, show_event
from tui.state.batches import FLUSH_INTERVAL
from tui.text import fit_line
from tui.widgets.key_hints import Hint, KeyHints
from tui.workers import start_worker

Follow = Callable[[str], AsyncIterator[Envelope]]
LEAVE: Hint = ("subagent.leave", "back")
KEY_HINTS: tuple[Hint, ...] = (("transcript.next", "below"), ("transcript.toggle", "open"), LEAVE)


class SubagentDialog(Dialog[str]):
    """Shows the conversation of a subagent; answers with its id if it is to be stopped. `follow`: its events."""

    BINDINGS = get_bindings("subagent")
    shape = "subagent"

    def __init__(self, name: str, title: str, follow: Follow, *, is_working: bool) -> None:
        super().__init__(fit_line(title, 120))
        self._subagent, self._follow, self._is_working = name, follow, is_working
        self._view = ViewState(session_id=name)
        self._timer: Timer | None = None

    def compose_body(self) -> ComposeResult:
        yield Transcript()
        yield KeyHints(id="subagent-keys")

    def set_up(self) -> None:
        self._show_keys()
        self.query_one(Transcript).focus()
        self._timer = self.set_interval(FLUSH_INTERVAL, self._show, pause=True)
        start_worker(self, self._read, group="subagent", exclusive=True)

    def _show_keys(self) -> None:
        hints = (*KEY_HINTS[:-1], ("subagent.stop", "stop it"), LEAVE) if self._is_working else KEY_HINTS
        for widget in self.query(KeyHints):  # none: it is being closed
            widget.show(hints)

    async def _read(self) -> None:
        async for envelope in self._follow(self._subagent):
            if show_event(self._view, envelope) and self._timer is not None:
                self._timer.resume()
        self._is_working = False
        self._show_keys()
        self._show()

    def _show(self) -> None:
        """Show what has come since the last time; nothing is drawn while nothing comes, or once it is closed."""
        if self._timer is not None:
            self._timer.pause()
        if self not in self.app.screen_stack:
            return
        for transcript in self.query(Transcript):
            transcript.show(self._view.blocks)

    def action_stop(self) -> None:
        if self._is_working:
            self.answer(self._subagent)
