"""The conversation's controller: moving in it, copying, pictures, and text that was typed elsewhere."""

from __future__ import annotations

import time
from typing import Final

from textual import events, on

from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.screens.controller import Controller, ScreenContext
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.sessions import SessionController

QUIT_TWICE_SECONDS: Final = 2.0  # between two presses of the key


class ChatController(Controller):
    """Scrolls the conversation and copies from it; brings text and files to the prompt."""

    def __init__(self, context: ScreenContext, panes: PaneController, sessions: SessionController) -> None:
        super().__init__(context)
        self._panes, self._sessions = panes, sessions
        self._quit_asked_at = float("-inf")

    def action_focus_chat(self) -> None:
        self.context.transcript.focus()

    def action_scroll_chat(self, step: int) -> None:
        self.context.transcript.scroll_page(step)

    def take_text(self, text: str) -> None:
        """Insert text into the prompt that was typed somewhere else and is no command there."""
        self._show_prompt().insert(text)

    def take_paste(self, event: events.Paste) -> None:
        """Paste into the prompt what was pasted where no text is written."""
        self._show_prompt()._forward_event(event)

    def _show_prompt(self) -> Prompt:
        self._panes.uncover_prompt()
        self.context.focus_prompt()
        return self.context.prompt

    # Copying

    def action_copy_or_clear(self) -> None:
        """Copy the selection, else empty the prompt; twice on an empty prompt leaves if nothing runs."""
        prompt, screen = self.context.prompt, self.context.screen
        if selected_text := screen.get_selected_text():
            screen.app.copy_to_clipboard(selected_text)
        elif prompt.has_focus:
            prompt.call_later(self._clear_prompt, prompt)  # behind the letters that were typed before it
        else:
            self.context.notify_user("esc goes back to the prompt, ctrl+q leaves.")

    def _clear_prompt(self, prompt: Prompt) -> None:
        state = self.context.state
        if prompt.text:
            prompt.clear()
        elif state.is_running or state.is_running_command:
            self.context.notify_user("esc stops what runs, ctrl+q leaves.")
        elif time.monotonic() - self._quit_asked_at < QUIT_TWICE_SECONDS:
            self._sessions.action_quit()
        else:
            self._quit_asked_at = time.monotonic()
            self.context.notify_user("ctrl+q leaves, or ctrl+c once more.")

    @on(Transcript.Copied)
    def _copy_text(self, event: Transcript.Copied) -> None:
        self.context.screen.app.copy_to_clipboard(event.text)
