"""The terminal's reply to the query for its background (OSC 11).

It arrives between keys, at any time and in pieces; `tui/terminal/input_parser.py` extracts it.
"""

from __future__ import annotations

from typing import Final

from textual.message import Message

from core.patterns import compile_lazily

ASK_BACKGROUND: Final = "\x1b]11;?\x1b\\"

_REPLY: Final = compile_lazily(
    r"\x1b\]11;(?:rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?"
    r"|#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2}))(?:\x07|\x1b\\)"
)


class TerminalBackground(Message):
    """The terminal reported its background; `brightness` is the luma of it, from 0 to 1."""

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self.brightness = brightness


def read_background(answer: str) -> TerminalBackground | None:
    """Parse the background of a reply; None: it is another reply."""
    channels = _REPLY.fullmatch(answer)
    if channels is None:
        return None
    red, green, blue = (int(digits, 16) / (16 ** len(digits) - 1) for digits in channels.groups() if digits is not None)
    return TerminalBackground(0.299 * red + 0.587 * green + 0.114 * blue)
