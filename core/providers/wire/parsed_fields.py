"""Reading fields of parsed JSON of which nothing is sure: what is missing or of another kind reads as empty."""

from __future__ import annotations

from typing import Any


def get_table(record: object, key: str) -> dict[str, Any]:
    """An object; {} for anything else."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


def get_tables(record: object, key: str) -> list[dict[str, Any]]:
    """The objects of a list."""
    value = record.get(key) if isinstance(record, dict) else None
    return [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []


def get_text(record: object, key: str) -> str:
    """A text; "" for anything else."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def get_count(record: dict[str, Any], key: str) -> int:
    """A number of tokens; 0 for anything else."""
    value = record.get(key)
    return int(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0
