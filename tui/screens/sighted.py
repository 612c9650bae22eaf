"""The focus is where the user looks: it leaves what is hidden, and comes back when that is seen again."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.screen import Screen
from textual.widget import Widget

from tui.sight import sight
from tui.widgets.prompt import Prompt


class SightedScreen(Screen[None]):
    """Looks after each layout whether what has the focus is still seen."""

    _displaced: Widget | None = None
    _refuge: Widget | None = None

    def watch_the_focus(self) -> None:
        """From now on."""
        self.screen_layout_refresh_signal.subscribe(self, self._laid_out, immediate=True)

    def laid_out(self) -> None:
        """What else is to be done then."""

    def _laid_out(self, _: object) -> None:
        if self.app.screen is self:
            self._mind_the_focus()
            self.laid_out()

    def _mind_the_focus(self) -> None:
        focused = self.focused
        if focused is not None and sight(focused) == "hidden":
            if self.comes_to_front(focused):  # it is seen, and has the focus, after the next layout
                self._displaced = focused
                self.set_focus(None)
                return
            if focused is not self._refuge:
                self._displaced = focused
            self._seek_refuge()
        elif self._displaced is not None and sight(self._displaced) == "seen":
            self._restore_focus(focused)
        elif focused is None:
            self._seek_refuge()

    def _restore_focus(self, focused: Widget | None) -> None:
        """A prompt gets the focus back from where it was put meanwhile; a pane with commands only if nothing has it."""
        displaced = self._displaced
        if focused is None or (focused is self._refuge and isinstance(displaced, Prompt)):
            self.set_focus(displaced, scroll_visible=False)
            self._displaced = self._refuge = None

    def _seek_refuge(self) -> None:
        self._refuge = next((each for each in self.refuges() if sight(each) == "seen"), None)
        self.set_focus(self._refuge, scroll_visible=False)

    def uncover(self) -> None:
        """What covers conversation and prompt is put away."""

    def focus_prompt(self) -> None:
        """Where typing goes, at once: the next letter may be on its way."""
        self.set_focus(self.query_one(Prompt))

    def take_text(self, text: str) -> None:
        """What was typed somewhere else and is no command there: it is meant for the prompt."""
        self.uncover()
        self.focus_prompt()
        self.query_one(Prompt).insert(text)

    def take_paste(self, event: events.Paste) -> None:
        """The same for a paste."""
        self.uncover()
        self.focus_prompt()
        self.query_one(Prompt)._forward_event(event)

    def refuges(self) -> list[Widget]:
        """Where the focus goes when what had it is hidden; the first that is seen."""
        return [*self.query(Prompt)]

    def comes_to_front(self, _: Widget) -> bool:
        """Whether what has the focus, and is covered now, is brought to the front instead."""
        return False

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget is not self._refuge:
            self._displaced = self._refuge = None

    def on_screen_suspend(self) -> None:
        """A dialog covers all of it: what is judged here has to be seen anew."""
        for each in self.query("*").results(Widget):
            renew: Any = getattr(each, "unseen", None)
            if renew is not None:
                renew()
