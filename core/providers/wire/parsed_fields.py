"""Reading fields of parsed JSON of which nothing is sure: what is missing or of another kind reads as empty."""

from __future__ import annotations

from typing import Any


def get_table(found: object, key: str) -> dict[str, Any]:
    """An object; {} for anything else."""
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, dict) else {}


def get_tables(found: object, key: str) -> list[dict[str, Any]]:
    """The objects of a list."""
    value = found.get(key) if isinstance(found, dict) else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def get_text(found: object, key: str) -> str:
    """A text; "" for anything else."""
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def get_count(found: dict[str, Any], key: str) -> int:
    """A number of tokens; 0 for anything else."""
    value = found.get(key)
    return int(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0
