"""The filter for keys and pastes: hidden widgets get none, and a sentence is never taken for commands."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final, Protocol

from textual import events
from textual.app import App
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui.input.keystrokes import BURST_GAP, FASTEST_TYPING, KeyKind, Keystroke, KeystrokeBuffer, TypedWidget
from tui.input.visibility import get_visibility
from tui.keymap import CURSOR_KEYS
from tui.timers import start_timer

TEXT_WIDGETS: Final = (Input, TextArea)


class TextTarget(Protocol):
    """The target of text that was typed or pasted where no text is written."""

    def take_text(self, text: str) -> None:
        """Insert letters that are no commands."""

    def take_paste(self, event: events.Paste) -> None:
        """Paste a text into the prompt, because the focused widget takes none."""


class KeyFilter:
    """Decides for one app which events Textual handles as usual. `is_by_hand`: the current key came so long after
    the previous one that they are not part of a paste."""

    def __init__(self, app: App[int], find_target: Callable[[], TextTarget]) -> None:
        self._app, self._find_target = app, find_target
        self.keystrokes = KeystrokeBuffer(act=self._execute, write=self._insert_text, wait=self._start_timer)
        self._timer: Timer | None = None
        self._struck_at = self._last_key_at = 0.0
        self.is_by_hand = True
        self.is_button_down = False  # of the mouse

    def get_seconds_since_struck(self) -> float:
        """Return the seconds since the press of the current key or button."""
        return max(monotonic() - self._struck_at, 0.0) if self._struck_at else 0.0

    def accepts(self, event: events.Event) -> bool:
        """True if an input event is passed to the focused widget."""
        if event.is_forwarded:
            return True
        if isinstance(event, events.Paste):
            return self._accepts_paste(event)
        if isinstance(event, events.MouseDown | events.MouseUp):
            self._struck_at = event.time
            self.is_button_down = isinstance(event, events.MouseDown)
            if self.is_button_down:
                self.keystrokes.clear()
        return self._accepts_key(event) if isinstance(event, events.Key) else True

    def accepts_bubbled_key(self, event: events.Key) -> bool:
        """True if a key that its widget has passed on may be looked up; never if another one has the focus by now, or
        one has it now where none had."""
        self._struck_at = event.time
        if not self._app.screen_stack:  # the app is about to end
            return False
        return getattr(event, "aim", self._app.focused) is self._app.focused

    def _get_visible_focus(self) -> Widget | None:
        """Return the focused widget; None if it is hidden."""
        widget = self._app.focused
        if widget is not None and get_visibility(widget) == "hidden":
            self._app.screen.set_focus(None)
            return None
        return widget

    def _accepts_key(self, event: events.Key) -> bool:
        self._struck_at = event.time
        visible_focus = self._get_visible_focus()
        event.aim = visible_focus  # type: ignore[attr-defined]
        self.is_by_hand, self._last_key_at = event.time - self._last_key_at >= FASTEST_TYPING, event.time
        # Letters are commands where something has the focus, and in a dialog; a text takes them as they come.
        has_letter_keys = not isinstance(visible_focus, TEXT_WIDGETS) and (
            visible_focus is not None or self._app.screen.is_modal
        )
        if event.is_printable and event.character and has_letter_keys:
            self.keystrokes.add(Keystroke(event.character, event.time, self._classify_key(event), event))
            return False
        if self.keystrokes.is_pending:
            self._end_burst(event)
        return True

    def _end_burst(self, event: events.Key) -> None:
        """End a burst by a key that is no letter; Escape drops delayed letters, and a paste is not typed by hand."""
        if event.key == "escape":
            self.keystrokes.clear()
        elif self.keystrokes.is_pasted(event.time):
            self.keystrokes.write_burst()
        else:
            self.keystrokes.flush()

    def _classify_key(self, event: events.Key) -> KeyKind:
        if isinstance(widget := self._app.focused, TypedWidget):
            return widget.classify_key(event)
        if (active_binding := self._app.screen.active_bindings.get(event.key)) is None:
            return "none"
        return "move" if active_binding.binding.id in CURSOR_KEYS else "command"

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = start_timer(self._app, BURST_GAP, self._flush)

    def _flush(self) -> None:
        if self._app.screen_stack:  # else the app is about to end
            self.keystrokes.flush()

    def _execute(self, stroke: Keystroke) -> None:
        """Forward a key to the widget that was focused when it was pressed, if it still is and is visible."""
        event: Any = stroke.event
        visible_focus = self._get_visible_focus()
        if event.aim is visible_focus and event.aim is not None:
            event.aim._forward_event(event)
        elif isinstance(event.aim, TypedWidget) and visible_focus is not None and event.aim in visible_focus.ancestors:
            event.aim.take_text(stroke.character)  # its line has the focus by now
        elif event.aim is None and self._app.focused is None:
            self._app.screen._forward_event(event)

    def _insert_text(self, text: str) -> None:
        widget = self._app.focused
        (widget if isinstance(widget, TypedWidget) else self._find_target()).take_text(text)

    def _accepts_paste(self, event: events.Paste) -> bool:
        """True if the focused text widget takes the paste. Otherwise it goes to the prompt; it is never interpreted
        as keys."""
        self.keystrokes.clear()
        visible_focus = self._get_visible_focus()
        if visible_focus is None or not any(hasattr(visible_focus, name) for name in ("_on_paste", "on_paste")):
            self._find_target().take_paste(event)
            return False
        return True
