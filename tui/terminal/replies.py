"""Answers of the terminal, taken out of the keys.

Its background is asked for (OSC 11), and the answer comes by the way of keys, at any time and in pieces. While one is
awaited, the start of one is held back for a moment; what turns out to be something else is a key as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic
from typing import Final

from textual.message import Message

ASK_BACKGROUND: Final = "\x1b]11;?\x1b\\"
REPLY_TIMEOUT: Final = 5.0  # seconds for which an answer is awaited, and the start of one held back
ESCAPE_TIMEOUT: Final = 0.1  # seconds for which Escape is, which may be a key

_REPLY: Final = re.compile(
    r"\x1b\]11;(?:rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?"
    r"|#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2}))(?:\x07|\x1b\\)"
)
_START: Final = re.compile(
    r"\x1b(?:\](?:1(?:1(?:;(?:r(?:g(?:b(?:a?(?::(?:[0-9a-fA-F/]{0,20}\x1b?)?)?)?)?)?|#[0-9a-fA-F]{0,6}\x1b?)?)?)?)?)?\Z"
)


class TerminalBackground(Message):
    """The terminal has said what its background is; `brightness` is its luma, from 0 to 1."""

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self.brightness = brightness


class ReplyReader:
    """Takes answers out of what comes from the terminal. `report` gets each."""

    def __init__(self, report: Callable[[TerminalBackground], None], clock: Callable[[], float] = monotonic) -> None:
        self._report, self._clock = report, clock
        self._held = ""
        self._held_since = 0.0
        self._asked_at = float("-inf")
        self.has_answered = False

    def note_asked(self) -> None:
        """Take note that an answer is on its way, or that there may be none."""
        self._asked_at = self._clock()

    def feed(self, data: str) -> str:
        """Return what was typed of what came."""
        data = self._held + data
        self._held = ""
        data = _REPLY.sub(self._take, data)
        if self._is_awaited() and (start := _START.search(data)):
            self._held, self._held_since = start.group(), self._clock()
            data = data[: start.start()]
        return data

    def release(self) -> str:
        """Return what was held back for too long; "" = nothing."""
        patience = ESCAPE_TIMEOUT if len(self._held) <= 2 else REPLY_TIMEOUT
        if not self._held or self._clock() - self._held_since < patience:
            return ""
        held, self._held = self._held, ""
        return held

    def _is_awaited(self) -> bool:
        return self._clock() - self._asked_at < REPLY_TIMEOUT

    def _take(self, found: re.Match[str]) -> str:
        self._asked_at, self.has_answered = float("-inf"), True
        red, green, blue = (int(each, 16) / (16 ** len(each) - 1) for each in found.groups() if each is not None)
        self._report(TerminalBackground(0.299 * red + 0.587 * green + 0.114 * blue))
        return ""
