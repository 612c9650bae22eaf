"""Well-formed Unicode: text that can't be encoded is repaired here.

A lone surrogate is half a character: of an emoji that a stream cut in two, or a byte of invalid UTF-8, which Python
represents as U+DC80 ... U+DCFF (a path, an argument, a line of a file in another encoding). No JSON, log or terminal
accepts it. Adjacent halves are joined; a lone one becomes U+FFFD.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from core.patterns import compile_lazily
from core.records import convert

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SURROGATE: Final = compile_lazily("[\ud800-\udfff]")
_RECORD = TypeVar("_RECORD")


def make_well_formed(text: str) -> str:
    """Return `text` with pairs of surrogates joined, and lone ones as U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_utf8(data: bytes) -> bool:
    """Return True if bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def encode_record(record: object) -> bytes:
    """Return a record as JSON, repairing its texts if necessary."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return msgspec.json.encode(map_texts(msgspec.to_builtins(record)))


def convert_record(record: _RECORD, change: Any = make_well_formed) -> _RECORD:
    """Return the record with `change` applied to every text in it."""
    return convert(map_texts(msgspec.to_builtins(record), change), type(record))


def map_texts(value: Any, change: Any = make_well_formed) -> Any:
    """Return plain data with `change` applied to every text in it, including keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: map_texts(child, change) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(child, change) for child in value]
    return value


class SurrogateJoiner(Struct, eq=False):
    """A joiner of characters that a stream cuts in two, for several texts at once.

    `waiting`: the half character at the end of every text.
    """

    waiting: dict[Hashable, str] = field(default_factory=dict)

    def join(self, key: Hashable, piece: str) -> str:
        """Return the part of a text that can be passed on; a half character at its end waits for the other half."""
        if not piece:
            return ""
        piece = self.waiting.pop(key, "") + piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self.waiting[key], piece = piece[-1], piece[:-1]
        return make_well_formed(piece)

    def flush(self, key: Hashable) -> str:
        """Return the rest at the end of a text: nothing, or U+FFFD."""
        return REPLACEMENT if self.waiting.pop(key, "") else ""
