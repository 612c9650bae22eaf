"""JSON of a line plan as models write it: in a fence, between sentences, with a comma too many, with line breaks in
its texts. Of two plans in one text neither is taken."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_TEXT_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_BEGINS = re.compile(r"[\[{]")
_DECODER: Final = json.JSONDecoder(strict=False)
_MOST: Final = 200  # places where a plan may begin


def decode_plan(content: str) -> Any:
    """Decode the one value that is a plan: a list of objects, or an object. Raises `ValueError` and
    `RecursionError`."""
    text = content.strip().removeprefix("\ufeff").strip()
    try:
        return _decode_lenient(text)
    except ValueError as problem:
        found = [plan for fenced in _FENCED.findall(text) for plan in _find_plans(fenced)] or _find_plans(text)
        if len(found) > 1:
            raise ValueError("there is more than one plan in the text") from None
        if not found:
            raise problem from None
        return found[0]


def _decode_lenient(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except ValueError:
        return _DECODER.decode(_TEXT_OR_COMMA.sub(lambda match: match[1] or "", text))


def _find_plans(text: str) -> list[Any]:
    """Find every plan that begins somewhere in a text, those inside of others left out."""
    plain = _TEXT_OR_COMMA.sub(lambda match: match[1] or "", text)
    found, place = [], 0
    for _ in range(_MOST):
        begin = _BEGINS.search(plain, place)
        if begin is None:
            break
        try:
            value, place = _DECODER.raw_decode(plain, begin.start())
        except ValueError:
            place = begin.end()
            continue
        if _is_plan(value):
            found.append(value)
    return found


def _is_plan(value: Any) -> bool:
    entries = value if isinstance(value, list) else [value]
    return bool(entries) and all(isinstance(entry, dict) for entry in entries)
