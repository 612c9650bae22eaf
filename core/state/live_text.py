"""Text that is read while it grows, such as the output of a running command, and whose last lines may still change.

It arrives in pieces of plain text with two control characters: `TAKE_BACK` takes the current line back, and
`TAKE_BACK_ABOVE` takes it back together with the line break before it. So a progress bar takes one line, however often
it is drawn.
"""

from __future__ import annotations

from core.patterns import compile_lazily

TAKE_BACK = "\r"
TAKE_BACK_ABOVE = "\v"
_PARTS = compile_lazily(r"[\r\v]|[^\r\v]+")


def split_piece(piece: str) -> list[str]:
    """Split a piece into its control characters and the text between them."""
    return _PARTS.findall(piece)


def append_piece(text: str, piece: str) -> str:
    """Return the text with the next piece of it."""
    if TAKE_BACK not in piece and TAKE_BACK_ABOVE not in piece:
        return text + piece
    for part in split_piece(piece):
        if part in {TAKE_BACK, TAKE_BACK_ABOVE}:
            text = text[: count_before_line(text, is_above=part == TAKE_BACK_ABOVE)]
        else:
            text += part
    return text


def count_before_line(text: str, *, is_above: bool) -> int:
    """Return the number of characters before the current line; with `is_above`, before its line break, too."""
    line_break = text.rfind("\n")
    return max(line_break, 0) if is_above else line_break + 1
