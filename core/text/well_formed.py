"""Well-formed Unicode: what can't be encoded never gets further than here.

A lone surrogate is half a character: of an emoji that a stream cut in two, or a byte that is no UTF-8 and that Python
keeps as U+DC80 ... U+DCFF (a path, an argument, a line of a file in another encoding). No JSON, log or terminal takes
it. Halves that meet become the character that they are; what is left alone becomes U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from core.records import convert

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RECORD = TypeVar("_RECORD")


def make_well_formed(text: str) -> str:
    """Return `text` with pairs of surrogates joined and each lone one as U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_utf8(data: bytes) -> bool:
    """Return True if bytes are text in UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def encode_record(record: object) -> bytes:
    """Return a record as JSON, whatever its texts hold."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return msgspec.json.encode(map_texts(msgspec.to_builtins(record)))


def convert_record(record: _RECORD, change: Any = make_well_formed) -> _RECORD:
    """Return the same record with `change` applied to every text in it."""
    return convert(map_texts(msgspec.to_builtins(record), change), type(record))


def map_texts(value: Any, change: Any = make_well_formed) -> Any:
    """Return plain data with `change` applied to every text in it, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: map_texts(child, change) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(child, change) for child in value]
    return value


class SurrogateJoiner(Struct, eq=False):
    """Joins what a stream cut between the halves of a character, for each of the texts that it brings.

    `waiting`: by text, the half of a character at its end.
    """

    waiting: dict[Hashable, str] = field(default_factory=dict)

    def join(self, key: Hashable, piece: str) -> str:
        """Return the part of a text that may be passed on; half a character at its end waits for the other half."""
        if not piece:
            return ""
        piece = self.waiting.pop(key, "") + piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self.waiting[key], piece = piece[-1], piece[:-1]
        return make_well_formed(piece)

    def flush(self, key: Hashable) -> str:
        """Return what is left of a text at its end: nothing, or U+FFFD."""
        return REPLACEMENT if self.waiting.pop(key, "") else ""
