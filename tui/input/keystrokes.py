"""Letters typed while a pane has the focus: commands of the pane, or a sentence that belongs into the prompt.

A command letter is delayed for a moment; if a sentence follows, nothing is done. A letter that only moves a cursor acts
at once. Keys that arrive faster than a hand can type are no commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from textual.dom import DOMNode
from textual.events import Key
from textual.widget import Widget

BURST_GAP: Final = 0.15  # seconds between two letters from which on they do not belong together
FASTEST_TYPING: Final = 0.01  # seconds; no hand strikes two keys within it
KeyKind = Literal["move", "command", "none"]


@dataclass(frozen=True, slots=True)
class Keystroke:
    """A printable key, pressed at the time `at` in seconds; `kind`: its meaning for the focused widget. `event` is
    passed on."""

    character: str
    at: float
    kind: KeyKind
    event: Any = None


class TypedWidget(Widget):
    """A widget that is no line of text and typed at all the same: it knows its keys, and words become its text."""

    def classify_key(self, event: Key) -> KeyKind:
        raise NotImplementedError

    def take_text(self, text: str) -> None:
        raise NotImplementedError


class KeystrokeBuffer:
    """Letters of one burst. `act` runs a key, `write` inserts text, `wait` calls `flush` after `BURST_GAP`."""

    def __init__(
        self, *, act: Callable[[Keystroke], None], write: Callable[[str], None], wait: Callable[[], None]
    ) -> None:
        self._run_binding, self._write, self._wait = act, write, wait
        self._burst: list[Keystroke] = []
        self._held: list[Keystroke] = []
        self._written_at = float("-inf")  # when the last letter of a text was pressed

    @property
    def is_pending(self) -> bool:
        """True while a letter waits for the next key."""
        return bool(self._held)

    def add(self, stroke: Keystroke) -> None:
        """Add a printable key: run it, delay it, or insert the burst as text."""
        if self._burst and stroke.at - self._burst[-1].at >= BURST_GAP:
            self.flush()
        self._burst.append(stroke)
        if 0 <= stroke.at - self._written_at < BURST_GAP:
            self.write_burst()
            return
        if len(self._burst) > 1 and any(keystroke.kind == "none" for keystroke in self._burst):
            self.write_burst()
            return
        if stroke.kind == "move" and (not self._held or (self._burst[0].kind == "move" and self._are_commands())):
            self._execute_pending()
            self._run_binding(stroke)
        else:
            self._held.append(stroke)
        self._wait()

    def flush(self) -> None:
        """Carry out the delayed letter after a pause, unless a word was typed."""
        if not self._held or self._are_commands():
            self._execute_pending()
            self._burst.clear()
        else:
            self.write_burst()

    def is_pasted(self, timestamp: float) -> bool:
        """True if a key came faster after the last letter than a hand can type."""
        return bool(self._burst) and timestamp - self._burst[-1].at < FASTEST_TYPING

    def write_burst(self) -> None:
        text = "".join(keystroke.character for keystroke in self._burst)
        written_at = max((keystroke.at for keystroke in self._burst), default=self._written_at)
        self.clear()
        self._written_at = written_at
        self._write(text)

    def clear(self) -> None:
        self._held.clear()
        self._burst.clear()
        self._written_at = float("-inf")

    def _are_commands(self) -> bool:
        """True for one command, once or repeated, by hand; two different ones in so short a time are a word."""
        commands = {keystroke.character for keystroke in self._held if keystroke.kind == "command"}
        moments = [keystroke.at for keystroke in self._held]
        too_fast = any(after - before < FASTEST_TYPING for before, after in pairwise(moments))
        return not commands or (len(commands) == 1 and not too_fast)

    def _execute_pending(self) -> None:
        keystrokes, self._held = self._held, []
        for keystroke in keystrokes:
            self._run_binding(keystroke)


class OrderedBindings(DOMNode):
    """A text widget that runs its bindings itself, in the order of the key presses.

    Textual runs a binding only after the key has bubbled to the app, which is after the letters that follow it where a
    slow connection delivers several keys at a time.
    """

    async def _run_binding(self, key: str) -> bool:
        """Run the binding of a key on this widget; False if there is none, or none that is enabled."""
        for binding in self._bindings.key_to_bindings.get(key, ()):
            if not binding.priority and await self.app.run_action(binding.action, self):
                return True
        return False
