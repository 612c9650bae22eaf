"""The controller of the focus, which leaves what a pane hides and comes back to it."""

from __future__ import annotations

from textual import events, on
from textual.widget import Widget

from tui.chat.prompt import Prompt
from tui.input.visibility import get_visibility
from tui.screens.controller import Controller, ScreenContext
from tui.screens.controllers.panes import PaneController


class FocusController(Controller):
    """Checks after each layout whether the widget with the focus is still visible."""

    def __init__(self, context: ScreenContext, panes: PaneController) -> None:
        super().__init__(context)
        self._panes = panes
        self._displaced: Widget | None = None
        self._refuge: Widget | None = None

    def move_hidden_focus(self) -> None:
        screen = self.context.screen
        widget = screen.focused
        if widget is not None and get_visibility(widget) == "hidden":
            if self._bring_to_front(widget):  # it is visible, and has the focus, after the next layout
                self._displaced = widget
                screen.set_focus(None)
                return
            if widget is not self._refuge:
                self._displaced = widget
            self._focus_refuge()
        elif self._displaced is not None and get_visibility(self._displaced) == "seen":
            self._restore_focus(widget)
        elif widget is None:
            self._focus_refuge()

    def _restore_focus(self, widget: Widget | None) -> None:
        """Give a prompt the focus back from where it was put meanwhile; a pane with commands only if nothing has it."""
        displaced_widget = self._displaced
        if widget is None or (widget is self._refuge and isinstance(displaced_widget, Prompt)):
            self.context.screen.set_focus(displaced_widget, scroll_visible=False)
            self._displaced = self._refuge = None

    def _focus_refuge(self) -> None:
        """Focus the first visible one of the prompt, the side pane and the files."""
        refuges = [self.context.prompt, *self._panes.list_focusable()]
        self._refuge = next((refuge for refuge in refuges if get_visibility(refuge) == "seen"), None)
        self.context.screen.set_focus(self._refuge, scroll_visible=False)

    def _bring_to_front(self, widget: Widget) -> bool:
        """Hide the pane that covers `widget` in a window that got narrow, if text is written or answered there."""
        screen = self.context.screen
        if screen.has_class("-tiny") or screen.has_class("-flat"):
            return False
        is_covered = self._panes.is_narrow and (screen.has_class("-side") or screen.has_class("-files"))
        if not is_covered or screen.query_one("#centre") not in widget.ancestors or not widget.display:
            return False
        self._panes.uncover_prompt()
        return True

    @on(events.DescendantFocus)
    def _forget_displaced(self, event: events.DescendantFocus) -> None:
        if event.widget is not self._refuge:
            self._displaced = self._refuge = None

    @on(events.ScreenSuspend)
    def _restart_grace_periods(self) -> None:
        """A dialog covers the screen: what is judged here has to be seen anew."""
        for widget in self.context.screen.query("*").results(Widget):
            getattr(widget, "restart_grace", lambda: None)()
