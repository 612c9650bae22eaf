"""The word before the cursor that asks for completion: a mention, a command, a snippet, or a path as it is typed."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

WordKind = Literal["@", "/", ";", ""]

_MENTION: Final = re.compile(r"(?:^|\s)@([^\s@]*)$")
_COMMAND: Final = re.compile(r"/([A-Za-z0-9_.:-]*)")
_SNIPPET: Final = re.compile(r"(?:^|\s);([A-Za-z0-9_.-]*)$")
_PATH: Final = re.compile(r"(?:^|[\s\"'=(])((?:[\w.+~-]+/)+[\w.+~-]*|[\w+~-]{2,}\.\w*)$")


class CompletedWord(NamedTuple):
    """The word that is completed: the sign before it, and what is typed behind that."""

    kind: WordKind
    pattern: str


NO_WORD: Final = CompletedWord("", "")


def find_completed_word(before: str, *, is_first_line: bool) -> CompletedWord:
    """Return the word that ends a line before the cursor."""
    if is_first_line and (match := _COMMAND.fullmatch(before)):
        return CompletedWord("/", match[1])
    if match := _MENTION.search(before):
        return CompletedWord("@", match[1])
    if match := _SNIPPET.search(before):
        return CompletedWord(";", match[1])
    return NO_WORD


def find_typed_path(before: str) -> str:
    """Return what ends a line and may become a path: it has a slash, or a dot; "" = nothing does."""
    match = _PATH.search(before)
    return match[1] if match else ""


def remove_word(text: str, row: int, column: int, *, length: int) -> str:
    """Return a text without the last `length` characters before a cursor."""
    lines = text.split("\n")
    lines[row] = lines[row][: column - length] + lines[row][column:]
    return "\n".join(lines)
