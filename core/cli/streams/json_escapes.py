"""JSON as it is printed: the same value, in which nothing hides or acts on a terminal, in an encoding that JSON has."""

from __future__ import annotations

import codecs
import json
import re
import sys
from typing import Final, TextIO

from core.text.display_names import HIDDEN

_BEYOND: Final = 0x10000  # characters from here on are two escapes
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_HIDDEN: Final = re.compile(f"[{HIDDEN}]")  # everything that is there and not seen


def write_json(text: str | bytes, output: TextIO | None = None) -> None:
    """Write JSON and the end of its line to `output`, else to standard output."""
    stream = output or sys.stdout
    stream.write(f"{fit_json(text if isinstance(text, str) else text.decode('utf-8'), stream)}\n")


def fit_json(text: str, stream: TextIO) -> str:
    """Return JSON as a stream is to have it. It is UTF-8, whatever the locale: for a stream with another encoding
    everything beyond ASCII is escaped."""
    escaped_text = escape_hidden(text)
    if codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8":
        return escaped_text
    return _NOT_ASCII.sub(lambda sign: escape_sign(sign[0]), escaped_text)


def escape_hidden(text: str) -> str:
    """JSON of the same value in which nothing moves a cursor, reorders or hides what is read in a terminal: C1, DEL,
    bidi, zero-width, tag and other invisible characters are written as escapes (those below U+0020 are already)."""
    return (
        text if text.isascii() and "\x7f" not in text else _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    )


def escape_sign(sign: str) -> str:
    """Return a character as JSON escapes it, one beyond the first 65,536 as two halves."""
    number = ord(sign)
    if number < _BEYOND:
        return f"\\u{number:04x}"
    number -= _BEYOND
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
