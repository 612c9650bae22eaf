"""The door for keys and pastes: what is hidden gets none, and a sentence is never taken for commands."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual import events
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui.keymap import MOVES
from tui.sight import sight
from tui.strokes import APART, BY_HAND, Kind, Stroke, Strokes

if TYPE_CHECKING:
    from tui.app import AgentApp

TEXTS: Final = (Input, TextArea)


class KeyDoor:
    """One app's. `let` says whether Textual goes on with an event as it would by itself. `is_by_hand`: the key that is
    being answered came so long after the one before it that no paste holds both."""

    def __init__(self, app: AgentApp) -> None:
        self._app = app
        self.strokes = Strokes(act=self._act, write=self._write, wait=self._wait)
        self._timer: Timer | None = None
        self._struck = self._last = 0.0
        self.is_by_hand = True

    def since_struck(self) -> float:
        """Seconds since the key or button that is being answered was struck."""
        return max(monotonic() - self._struck, 0.0) if self._struck else 0.0

    def let(self, event: events.Event) -> bool:
        """Whether an event of the user's goes on to what has the focus."""
        if event.is_forwarded:
            return True
        if isinstance(event, events.Paste):
            return self._let_paste(event)
        if isinstance(event, events.MouseDown | events.MouseUp):
            self._struck = event.time
            if isinstance(event, events.MouseDown):
                self.strokes.forget()
        return self._let_key(event) if isinstance(event, events.Key) else True

    def bubbled(self, event: events.Key) -> bool:
        """Whether a key that its widget has passed on may be looked up: it never acts for another one, that has got the
        focus meanwhile."""
        self._struck = event.time
        aim = getattr(event, "aim", None)
        return aim is None or aim is self._app.focused

    def _focused(self) -> Widget | None:
        """What has the focus, unless it is hidden: then nothing has it any more."""
        focused = self._app.focused
        if focused is not None and sight(focused) == "hidden":
            self._app.screen.set_focus(None)
            return None
        return focused

    def _let_key(self, event: events.Key) -> bool:
        self._struck = event.time
        focused = self._focused()
        event.aim = focused  # type: ignore[attr-defined]
        self.is_by_hand, self._last = event.time - self._last >= BY_HAND, event.time
        if event.is_printable and event.character and not isinstance(focused, TEXTS) and self._has_keys(focused):
            self.strokes.strike(Stroke(event.character, event.time, self._kind(event), event))
            return False
        if self.strokes.holds:
            self._interrupted(event)
        return True

    def _interrupted(self, event: events.Key) -> None:
        """A key that is no letter ends a burst; Escape takes back what is held, and a paste is not struck by hand."""
        if event.key == "escape":
            self.strokes.forget()
        elif self.strokes.is_pasted(event.time):
            self.strokes.write_all()
        else:
            self.strokes.rest()

    def _has_keys(self, focused: Widget | None) -> bool:
        """Whether letters do something here; a list that is searched by typing takes them as they come."""
        return focused is not None or self._app.screen.is_modal

    def _kind(self, event: events.Key) -> Kind:
        told = getattr(self._app.focused, "kind_of", None)
        if callable(told):
            return told(event)  # type: ignore[no-any-return]
        found = self._app.screen.active_bindings.get(event.key)
        if found is None:
            return "none"
        return "move" if found.binding.id in MOVES else "command"

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._app.set_timer(APART, self.strokes.rest)

    def _act(self, stroke: Stroke) -> None:
        """To the widget it was struck for, if that still has the focus and is still seen."""
        event: Any = stroke.key
        if event.aim is self._focused() and event.aim is not None:
            event.aim._forward_event(event)
        elif event.aim is None and self._app.focused is None:
            self._app.screen._forward_event(event)

    def _write(self, text: str) -> None:
        focused: Any = self._app.focused
        if hasattr(focused, "take_text"):
            focused.take_text(text)
        else:
            self._app.main.take_text(text)

    def _let_paste(self, event: events.Paste) -> bool:
        """A paste is text: where no text is written it goes to the prompt, and is never read as keys."""
        self.strokes.forget()
        focused = self._focused()
        if focused is None or not any(hasattr(focused, name) for name in ("_on_paste", "on_paste")):
            self._app.main.take_paste(event)
            return False
        return True
