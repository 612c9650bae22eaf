"""Unions of records: what can be decoded is every class without subclasses, and is listed nowhere else."""

from __future__ import annotations

from collections.abc import Iterator


def list_leaves(base: type) -> Iterator[type]:
    """Iterate over the classes below `base` that have no subclasses themselves, in the order of their definition."""
    below: list[type] = base.__subclasses__()
    for subclass in below:
        yield from list_leaves(subclass) if subclass.__subclasses__() else (subclass,)
