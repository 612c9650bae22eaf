"""The terminal's answer to the one question that it is asked in words: its background (OSC 11).

It comes by the way of keys, at any time and in pieces; `tui/terminal/input_parser.py` takes it out of them.
"""

from __future__ import annotations

import re
from typing import Final

from textual.message import Message

ASK_BACKGROUND: Final = "\x1b]11;?\x1b\\"

_REPLY: Final = re.compile(
    r"\x1b\]11;(?:rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?"
    r"|#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2}))(?:\x07|\x1b\\)"
)


class TerminalBackground(Message):
    """The terminal has said what its background is; `brightness` is its luma, from 0 to 1."""

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self.brightness = brightness


def read_background(answer: str) -> TerminalBackground | None:
    """Return the background that an answer tells; None: it is another answer."""
    channels = _REPLY.fullmatch(answer)
    if channels is None:
        return None
    red, green, blue = (int(digits, 16) / (16 ** len(digits) - 1) for digits in channels.groups() if digits is not None)
    return TerminalBackground(0.299 * red + 0.587 * green + 0.114 * blue)
