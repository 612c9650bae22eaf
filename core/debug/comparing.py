"""Records picked by hypothesis, and two runs side by side: what only one of them logged, and where the data differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from core.protocol.debug import ProbeRecord

Side = Literal["first", "second", "differs", "same"]


class Compared(Struct, frozen=True, kw_only=True):
    """What two runs logged at one place with one message. `first` and `second` are its records in each."""

    side: Side
    hypothesis: str
    location: str
    message: str
    first: tuple[ProbeRecord, ...] = ()
    second: tuple[ProbeRecord, ...] = ()


def picked(records: Iterable[ProbeRecord], *, hypothesis: str = "", containing: str = "") -> tuple[ProbeRecord, ...]:
    """Those of a hypothesis ("" = of any) in which the text stands, whatever its case."""
    wanted = containing.casefold()
    return tuple(
        record
        for record in records
        if (not hypothesis or record.hypothesis_id == hypothesis)
        and (not wanted or wanted in f"{record.location} {record.message} {record.data}".casefold())
    )


def counts(records: Iterable[ProbeRecord]) -> dict[str, int]:
    """How many records each hypothesis has; "" are those of none."""
    found: dict[str, int] = {}
    for record in records:
        found[record.hypothesis_id] = found.get(record.hypothesis_id, 0) + 1
    return found


def compared(first: Sequence[ProbeRecord], second: Sequence[ProbeRecord]) -> tuple[Compared, ...]:
    """By hypothesis, place and message, in the order in which they came up; times do not count."""
    one, other = _grouped(first), _grouped(second)
    keys = dict.fromkeys([*one, *other])
    return tuple(_row(key, one.get(key, ()), other.get(key, ())) for key in keys)


_Key = tuple[str, str, str]


def _grouped(records: Iterable[ProbeRecord]) -> dict[_Key, tuple[ProbeRecord, ...]]:
    found: dict[_Key, list[ProbeRecord]] = {}
    for record in records:
        found.setdefault((record.hypothesis_id, record.location, record.message), []).append(record)
    return {key: tuple(group) for key, group in found.items()}


def _row(key: _Key, first: tuple[ProbeRecord, ...], second: tuple[ProbeRecord, ...]) -> Compared:
    hypothesis, location, message = key
    side: Side = "differs"
    if not second:
        side = "first"
    elif not first:
        side = "second"
    elif [each.data for each in first] == [each.data for each in second]:
        side = "same"
    return Compared(side=side, hypothesis=hypothesis, location=location, message=message, first=first, second=second)
