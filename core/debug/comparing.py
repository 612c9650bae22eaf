"""Records picked by hypothesis, and two runs side by side: what only one of them logged, and where the data differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.protocol.debug import ComparedPlace, ProbeRecord


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


def compared(first: Sequence[ProbeRecord], second: Sequence[ProbeRecord]) -> tuple[ComparedPlace, ...]:
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


def _row(key: _Key, first: tuple[ProbeRecord, ...], second: tuple[ProbeRecord, ...]) -> ComparedPlace:
    hypothesis, location, message = key
    same = [each.data for each in first] == [each.data for each in second]
    return ComparedPlace(
        side="first" if not second else "second" if not first else "same" if same else "differs",
        hypothesis=hypothesis,
        location=location,
        message=message,
        first=first,
        second=second,
    )
