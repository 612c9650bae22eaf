"""Letters that are commands in one place are text in another: who begins a sentence while a pane has the focus means
the prompt. So a letter that does something is held for a moment; if what follows makes it a text, nothing is done.

What only moves a cursor acts at once. Keys that come faster than a hand strikes them are no commands at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

APART: Final = 0.15  # seconds between two letters from which on they do not belong together
BY_HAND: Final = 0.01  # seconds; no hand strikes two keys within it

Kind = Literal["move", "command", "none"]


@dataclass(frozen=True, slots=True)
class Stroke:
    """A printable key, struck `at` a moment in seconds; `kind`: what it is where the focus is. `key` is passed on."""

    character: str
    at: float
    kind: Kind
    key: Any = None


class Strokes:
    """`act` carries one out, `write` takes what turned out to be text, `wait` is told to call `rest` after `APART`."""

    def __init__(
        self, *, act: Callable[[Stroke], None], write: Callable[[str], None], wait: Callable[[], None]
    ) -> None:
        self._act, self._write, self._wait = act, write, wait
        self._burst: list[Stroke] = []
        self._held: list[Stroke] = []

    @property
    def holds(self) -> bool:
        """Whether a letter waits for what comes next."""
        return bool(self._held)

    def strike(self, stroke: Stroke) -> None:
        """A printable key was struck."""
        if self._burst and stroke.at - self._burst[-1].at >= APART:
            self.rest()
        self._burst.append(stroke)
        if len(self._burst) > 1 and any(each.kind == "none" for each in self._burst):
            self._give_up()
        elif stroke.kind != "move":
            self._held.append(stroke)
            self._wait()
        elif not self._held:
            self._act(stroke)
            self._wait()
        elif self._burst[0].kind == "move" and self._are_commands():
            self._release()
            self._act(stroke)
            self._wait()
        else:
            self._held.append(stroke)
            self._wait()

    def rest(self) -> None:
        """Nothing was struck for a moment: what is held is carried out, unless it is a word."""
        if not self._held or self._are_commands():
            self._release()
            self._burst.clear()
        else:
            self._give_up()

    def is_pasted(self, at: float) -> bool:
        """Whether a key of that moment came faster than a hand strikes it after the last letter."""
        return bool(self._burst) and at - self._burst[-1].at < BY_HAND

    def write_all(self) -> None:
        """It is text."""
        self._give_up()

    def forget(self) -> None:
        """What is held is not meant any more."""
        self._held.clear()
        self._burst.clear()

    def _are_commands(self) -> bool:
        """One command, once or again and again, by hand; two different ones in so short a time are a word."""
        commands = {each.character for each in self._held if each.kind == "command"}
        moments = [each.at for each in self._held]
        too_fast = any(after - before < BY_HAND for before, after in pairwise(moments))
        return not commands or (len(commands) == 1 and not too_fast)

    def _release(self) -> None:
        held, self._held = self._held, []
        for each in held:
            self._act(each)

    def _give_up(self) -> None:
        text = "".join(each.character for each in self._burst)
        self.forget()
        self._write(text)
