"""JSON values with their positions in the text, so that one value can be replaced without reformatting the rest."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct

from core.records import parse_json_part

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\r\n"


class JsonProblem(ValueError):
    """Invalid JSON, or JSON of an unexpected type; `at` is an offset in the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.at = offset


class Value(Struct, frozen=True):
    """A value parsed from `text[start:end]`. `key` is the name of an object's member, "" for an item of an array."""

    value: Any
    start: int
    end: int
    key: str = ""
    key_start: int = 0


def scan_value(text: str, offset: int) -> Value:
    """Return the value at `offset`, after white space. Raises `JsonProblem`."""
    start = skip_space(text, offset)
    try:
        value, end = parse_json_part(_DECODER, text, start)
    except json.JSONDecodeError as error:
        raise JsonProblem(error.msg, error.pos) from error
    except ValueError as error:
        raise JsonProblem("nested too deeply", start) from error
    return Value(value, start, end)


def scan_members(text: str, offset: int) -> dict[str, Value]:
    """Return the members of the object at `offset`, in order. Raises `JsonProblem`, also for duplicate keys."""
    members: dict[str, Value] = {}
    offset = _require(text, skip_space(text, offset), "{")
    while text[offset : offset + 1] != "}":
        key = scan_value(text, offset)
        if not isinstance(key.value, str):
            raise JsonProblem("expected a key", key.start)
        if key.value in members:
            raise JsonProblem(f"the key “{key.value}” occurs twice", key.start)
        value = scan_value(text, _require(text, skip_space(text, key.end), ":"))
        members[key.value] = Value(value.value, value.start, value.end, key.value, key.start)
        offset = _find_next(text, value.end, "}")
    return members


def scan_items(text: str, offset: int) -> list[Value]:
    """Return the items of the array at `offset`. Raises `JsonProblem`."""
    values: list[Value] = []
    offset = _require(text, skip_space(text, offset), "[")
    while text[offset : offset + 1] != "]":
        values.append(scan_value(text, offset))
        offset = _find_next(text, values[-1].end, "]")
    return values


def skip_space(text: str, offset: int) -> int:
    while text[offset : offset + 1] and text[offset] in _SPACE:
        offset += 1
    return offset


def _require(text: str, offset: int, sign: str) -> int:
    """Return the offset after `sign`. Raises `JsonProblem` if something else is there."""
    if text[offset : offset + 1] != sign:
        raise JsonProblem(f"expected “{sign}”", offset)
    return skip_space(text, offset + 1)


def _find_next(text: str, offset: int, closing: str) -> int:
    """Return the offset of the next member, or of the closing bracket."""
    offset = skip_space(text, offset)
    if text[offset : offset + 1] == closing:
        return offset
    after = _require(text, offset, ",")
    if text[after : after + 1] == closing:
        raise JsonProblem(f"a comma before “{closing}”", offset)
    return after
