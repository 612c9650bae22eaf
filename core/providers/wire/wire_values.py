"""Values on the wire: typed access to parsed JSON, and texts, names, ids and arguments that every API accepts.

The rules are the strictest of the providers', and each is a function of its input alone, so that a message is sent in
the same bytes every time and prompt caches are hit.
"""

from __future__ import annotations

import json
from typing import Any, Final

from core.patterns import compile_lazily
from core.records import parse_json
from core.text.json_repairs import extract_call_name, repair_arguments
from core.text.well_formed import make_well_formed

_NAME: Final = compile_lazily(r"[^A-Za-z0-9_-]")
_ID: Final = compile_lazily(r"[!-~]{1,64}")
MAX_NAME: Final = 64
NO_OUTPUT: Final = "(no output)"  # For an empty result, which not every API accepts.
# Why an API removed reasoning from a history, by its word for it.
REMOVALS: Final = {
    "model_mismatch": "it came from another model",
    "prefix_mismatch": "the conversation before it has changed",
    "organization_mismatch": "it came from another organization",
    "end_user_mismatch": "it came from another end user",
    "turn_boundary": "its turn has ended",
}
clean = make_well_formed


def clean_tool_name(name: str) -> str:
    """Return a name that every API accepts in a history, even if the model invented an invalid one."""
    return _NAME.sub("_", extract_call_name(name))[:MAX_NAME] or "unknown_tool"


def is_call_id(text: object) -> bool:
    """Return True if the text can be a call id of an API; it is only sent back to that API."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Return a call's arguments as the JSON object that a history needs; anything else is wrapped in
    `invalid_arguments`."""
    try:
        value = parse_json(clean(repair_arguments(arguments))) if arguments.strip() else {}
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"invalid_arguments": clean(arguments)}


def encode_arguments(arguments: str) -> str:
    """Return the arguments unchanged if they are a JSON object, so that the bytes stay the same; else wrap
    them in one."""
    fields = parse_arguments(arguments)
    if arguments.strip() and "invalid_arguments" not in fields:
        return clean(repair_arguments(arguments))
    return json.dumps(fields, ensure_ascii=False)


def get_table(record: object, key: str) -> dict[str, Any]:
    """Return an object; {} for anything else."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


def get_tables(record: object, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    value = record.get(key) if isinstance(record, dict) else None
    return [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []


def get_text(record: object, key: str) -> str:
    """Return a text; "" for anything else."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def get_count(record: dict[str, Any], key: str) -> int:
    """Return a number of tokens; 0 for anything else."""
    value = record.get(key)
    return int(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0
