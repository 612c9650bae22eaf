"""Records picked by hypothesis, and two runs side by side: what only one of them logged, and where the data differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec.structs import replace

from core.debug.probe_records import OUTPUT
from core.protocol.debug import ComparedLocation, ProbeRecord


def filter_records(
    records: Iterable[ProbeRecord], *, hypothesis: str = "", words: Sequence[str] = ()
) -> tuple[ProbeRecord, ...]:
    """Filter those of a hypothesis ("" = of any) in which all the words stand, whatever their case."""
    search_words = [word.casefold() for word in words]
    return tuple(
        record for record in records if hypothesis in {"", record.hypothesis_id} and _has_words(record, search_words)
    )


def _has_words(record: ProbeRecord, search_words: Sequence[str]) -> bool:
    text = f"{record.location} {record.message} {record.data}".casefold()
    return all(word in text for word in search_words)


def count_records(records: Iterable[ProbeRecord]) -> dict[str, int]:
    """Count the records of each hypothesis; "" are those of none."""
    return Counter(record.hypothesis_id for record in records)


def compare_runs(first: Sequence[ProbeRecord], second: Sequence[ProbeRecord]) -> tuple[ComparedLocation, ...]:
    """Compare by hypothesis, place and message, in the order in which they came up; times do not count. What a
    command said is one place, whatever its lines are."""
    one, other = _group_records(first), _group_records(second)
    keys = dict.fromkeys([*one, *other])
    return tuple(_compare_place(key, one.get(key, ()), other.get(key, ())) for key in keys)


def narrow_place(location: ComparedLocation, limit: int) -> ComparedLocation:
    """Return the place with at most so many records of each side, from the first difference on."""
    pairs = zip(location.first, location.second, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: _content_of(pair[0]) == _content_of(pair[1]), pairs))
    begin = max(0, min(same, max(len(location.first), len(location.second)) - limit))
    return replace(location, first=location.first[begin : begin + limit], second=location.second[begin : begin + limit])


_Key = tuple[str, str, str]


def _group_records(records: Iterable[ProbeRecord]) -> dict[_Key, tuple[ProbeRecord, ...]]:
    groups: defaultdict[_Key, list[ProbeRecord]] = defaultdict(list)
    for record in records:
        groups[record.hypothesis_id, record.location, "" if record.location == OUTPUT else record.message].append(
            record
        )
    return {key: tuple(group) for key, group in groups.items()}


def _content_of(record: ProbeRecord) -> tuple[str, str]:
    return record.message, record.data


def _compare_place(key: _Key, first: tuple[ProbeRecord, ...], second: tuple[ProbeRecord, ...]) -> ComparedLocation:
    hypothesis, location, message = key
    same = list(map(_content_of, first)) == list(map(_content_of, second))
    return ComparedLocation(
        side="first" if not second else "second" if not first else "same" if same else "differs",
        hypothesis=hypothesis,
        location=location,
        message=message,
        first=first,
        second=second,
        first_count=len(first),
        second_count=len(second),
    )
