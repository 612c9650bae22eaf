"""Text that is Unicode: what can't be encoded never gets further than here.

A lone surrogate is half a character: of an emoji that a stream cut in two, or a byte that is no UTF-8 and that Python
keeps as U+DC80 ... U+DCFF (a path, an argument, a line of a file in another encoding). No JSON, log or terminal takes
it. Halves that meet become the character that they are; what is left alone becomes U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final, TypeVar

import msgspec

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RECORD = TypeVar("_RECORD")


def well_formed(text: str) -> str:
    """`text` with pairs of surrogates joined and each lone one as U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encoded(record: object) -> bytes:
    """A record as JSON, whatever its texts hold."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return msgspec.json.encode(mapped(msgspec.to_builtins(record)))


def converted(record: _RECORD, change: Any = well_formed) -> _RECORD:
    """The same record with `change` made to every text in it."""
    return msgspec.convert(mapped(msgspec.to_builtins(record), change), type(record))


def mapped(value: Any, change: Any = well_formed) -> Any:
    """Plain data with `change` made to every text in it, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: mapped(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(each, change) for each in value]
    return value


class Halves:
    """Joins what a stream cut between the halves of a character, for each of the texts that it brings."""

    def __init__(self) -> None:
        self._held: dict[Hashable, str] = {}

    def join(self, key: Hashable, piece: str) -> str:
        """The next of a text that may be passed on; half a character at its end waits for the other half."""
        if not piece:
            return ""
        piece = self._held.pop(key, "") + piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self._held[key], piece = piece[-1], piece[:-1]
        return well_formed(piece)

    def rest(self, key: Hashable) -> str:
        """What is left of a text at its end: nothing, or U+FFFD."""
        return REPLACEMENT if self._held.pop(key, "") else ""

    def waiting(self) -> list[Hashable]:
        """The texts of which half a character waits."""
        return list(self._held)
