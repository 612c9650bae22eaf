"""Focus keeping: the focus leaves a hidden widget, and comes back when that is visible again."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.screen import Screen
from textual.widget import Widget

from tui.chat.prompt import Prompt
from tui.input.visibility import get_visibility


class FocusKeepingScreen(Screen[None]):
    """A screen that checks after each layout whether the widget with the focus is still visible."""

    _displaced: Widget | None = None
    _refuge: Widget | None = None

    def watch_focus(self) -> None:
        """From now on."""
        self.screen_layout_refresh_signal.subscribe(self, self._after_layout, immediate=True)

    def handle_layout(self) -> None:
        """Do what else depends on the layout."""

    def _after_layout(self, _: object) -> None:
        if self.app.screen is self:
            self._move_hidden_focus()
            self.handle_layout()

    def _move_hidden_focus(self) -> None:
        focused = self.focused
        if focused is not None and get_visibility(focused) == "hidden":
            if self.bring_to_front(focused):  # it is seen, and has the focus, after the next layout
                self._displaced = focused
                self.set_focus(None)
                return
            if focused is not self._refuge:
                self._displaced = focused
            self._focus_refuge()
        elif self._displaced is not None and get_visibility(self._displaced) == "seen":
            self._restore_focus(focused)
        elif focused is None:
            self._focus_refuge()

    def _restore_focus(self, focused: Widget | None) -> None:
        """Give a prompt the focus back from where it was put meanwhile; a pane with commands only if nothing has
        it."""
        displaced = self._displaced
        if focused is None or (focused is self._refuge and isinstance(displaced, Prompt)):
            self.set_focus(displaced, scroll_visible=False)
            self._displaced = self._refuge = None

    def _focus_refuge(self) -> None:
        self._refuge = next((each for each in self.list_refuges() if get_visibility(each) == "seen"), None)
        self.set_focus(self._refuge, scroll_visible=False)

    def uncover_prompt(self) -> None:
        """Hide the pane that covers conversation and prompt."""

    def focus_prompt(self) -> None:
        """Focus the prompt, at once: the next letter may be on its way."""
        self.set_focus(self.query_one(Prompt))

    def take_text(self, text: str) -> None:
        """Insert text into the prompt that was typed somewhere else and is no command there."""
        self.uncover_prompt()
        self.focus_prompt()
        self.query_one(Prompt).insert(text)

    def take_paste(self, event: events.Paste) -> None:
        """Paste into the prompt what was pasted where no text is written."""
        self.uncover_prompt()
        self.focus_prompt()
        self.query_one(Prompt)._forward_event(event)

    def list_refuges(self) -> list[Widget]:
        """Return the widgets that take the focus when the one that had it is hidden; the first visible one gets it."""
        return [*self.query(Prompt)]

    def bring_to_front(self, _: Widget) -> bool:
        """True if the covered widget that has the focus is brought to the front instead."""
        return False

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget is not self._refuge:
            self._displaced = self._refuge = None

    def on_screen_suspend(self) -> None:
        """Restart the grace periods: a dialog covers the screen, so what is judged here has to be seen anew."""
        for each in self.query("*").results(Widget):
            renew: Any = getattr(each, "restart_grace", None)
            if renew is not None:
                renew()
