"""JSON with the places of its values, so that one of them can be replaced and all else stays as it was written."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct

from core.records import parse_json_part

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\r\n"


class JsonProblem(ValueError):
    """Text that is no JSON, or not of the kind that was looked for; `at` is an offset in the text."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Value(Struct, frozen=True):
    """A value and its characters: `text[start:end]` is what it was read from. `key` of a member, "" of an item."""

    value: Any
    start: int
    end: int
    key: str = ""
    key_start: int = 0


def scan_value(text: str, at: int) -> Value:
    """Return the value that begins at `at`, white space left out. Raises `JsonProblem`."""
    start = skip_space(text, at)
    try:
        value, end = parse_json_part(_DECODER, text, start)
    except json.JSONDecodeError as error:
        raise JsonProblem(error.msg, error.pos) from error
    except ValueError as error:
        raise JsonProblem("nested too deeply", start) from error
    return Value(value, start, end)


def scan_members(text: str, at: int) -> dict[str, Value]:
    """Return the members of the object that begins at `at`, in order. Raises `JsonProblem`, also for a key that occurs
    twice."""
    found: dict[str, Value] = {}
    at = _require(text, skip_space(text, at), "{")
    while text[at : at + 1] != "}":
        key = scan_value(text, at)
        if not isinstance(key.value, str):
            raise JsonProblem("expected a key", key.start)
        if key.value in found:
            raise JsonProblem(f"the key “{key.value}” occurs twice", key.start)
        value = scan_value(text, _require(text, skip_space(text, key.end), ":"))
        found[key.value] = Value(value.value, value.start, value.end, key.value, key.start)
        at = _find_next(text, value.end, "}")
    return found


def scan_items(text: str, at: int) -> list[Value]:
    """Return the items of the array that begins at `at`. Raises `JsonProblem`."""
    found: list[Value] = []
    at = _require(text, skip_space(text, at), "[")
    while text[at : at + 1] != "]":
        found.append(scan_value(text, at))
        at = _find_next(text, found[-1].end, "]")
    return found


def skip_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


def _require(text: str, at: int, sign: str) -> int:
    """Return the place of what follows `sign`."""
    if text[at : at + 1] != sign:
        raise JsonProblem(f"expected “{sign}”", at)
    return skip_space(text, at + 1)


def _find_next(text: str, at: int, closing: str) -> int:
    """Return the place of the next member, or of the closing bracket."""
    at = skip_space(text, at)
    if text[at : at + 1] == closing:
        return at
    after = _require(text, at, ",")
    if text[after : after + 1] == closing:
        raise JsonProblem(f"a comma before “{closing}”", at)
    return after
