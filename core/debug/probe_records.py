"""Probe records: the log of a run, one JSON object a line, read leniently; and the comparison of two runs.

A line that is no record is counted and is never an error. The names of the fields are those of the known wire format:
sessionId, runId, hypothesisId, location, message, data, timestamp.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.patterns import compile_lazily
from core.protocol.debug import ComparedLocation, ProbeRecord
from core.records import build_json_decoder, parse_json

MAX_LINE_BYTES = 64_000  # bytes read of a line
MAX_RECORDS = 100_000  # records stored of a run
MAX_DATA_LENGTH = 2_000  # characters stored of `data`
MAX_TEXT_LENGTH = 1_000
OUTPUT = "output"  # the location of a command's output
_FIELD = compile_lazily(r'"(hypothesisId|location|message|runId)"\s*:\s*"((?:[^"\\]|\\.){0,200})"')
_PIECE = 1 << 16
_SURROGATE = compile_lazily("[\ud800-\udfff]")  # JSON can escape half a surrogate pair, which UTF-8 cannot encode
_encode_data = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_STORED = build_json_decoder(ProbeRecord)


class ParsedLog(Struct, frozen=True, kw_only=True):
    """The records of a run in order. `broken` counts lines that are no records; `left_out` counts records over the
    limit."""

    records: tuple[ProbeRecord, ...] = ()
    broken: int = 0
    left_out: int = 0


def read_log(chunks: Iterable[bytes], run: str, session: str = "", *, limit: int = MAX_RECORDS) -> ParsedLog:
    """Read the log of one run, whatever ids its lines name. Memory is bounded for lines of any length."""
    records: list[ProbeRecord] = []
    broken_count = omitted_count = 0
    for raw, is_cut in _iterate_raw_lines(chunks):
        if not raw.strip():
            continue
        if len(records) >= limit:
            omitted_count += 1
            continue
        record = parse_record(raw, cut=is_cut)
        if record is None:
            broken_count += 1
        else:
            records.append(replace(record, line=len(records) + 1, run_id=run, session_id=session))
    return ParsedLog(records=tuple(records), broken=broken_count, left_out=omitted_count)


def parse_record(raw: bytes, *, cut: bool = False) -> ProbeRecord | None:
    """Parse one line; None if it is no JSON object. Of a line that was `cut`, parse the beginning."""
    text = raw.decode("utf-8", "replace")
    if cut:
        return _parse_beginning(text)
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        return None
    except (ValueError, RecursionError):  # well-formed so far, but a number is too long or the nesting too deep
        return _parse_beginning(text) if text.lstrip().startswith("{") else None
    return _build_record(value) if isinstance(value, dict) else None


def _build_record(value: dict[str, Any]) -> ProbeRecord:
    data = value.get("data")
    data_text = "" if data is None else _replace_surrogates(_encode_data(data))
    return ProbeRecord(
        line=0,
        hypothesis_id=_clip_text(value.get("hypothesisId"), 80),
        location=_clip_text(value.get("location"), MAX_TEXT_LENGTH),
        message=_clip_text(value.get("message"), MAX_TEXT_LENGTH),
        data=data_text[:MAX_DATA_LENGTH],
        timestamp=_parse_milliseconds(value.get("timestamp")),
        cut=len(data_text) > MAX_DATA_LENGTH,
    )


def _parse_beginning(text: str) -> ProbeRecord:
    fields = dict(_FIELD.findall(text))
    return ProbeRecord(
        line=0,
        hypothesis_id=fields.get("hypothesisId", "")[:80],
        location=fields.get("location", ""),
        message=fields.get("message", ""),
        data=text[:MAX_DATA_LENGTH],
        cut=True,
    )


def _clip_text(value: object, limit: int) -> str:
    if value is None:
        return ""
    return _replace_surrogates(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:limit]


def _replace_surrogates(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _parse_milliseconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0  # NaN is in no range


def _iterate_raw_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield lines of at most `MAX_LINE_BYTES` bytes, and True if the line was truncated."""
    buffer, is_cut = b"", False
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            *lines, rest = chunk[start : start + _PIECE].split(b"\n")
            for line in lines:
                buffer, is_cut = _extend_line(buffer, line, is_cut)
                yield buffer, is_cut
                buffer, is_cut = b"", False
            buffer, is_cut = _extend_line(buffer, rest, is_cut)
    if buffer:
        yield buffer, is_cut


def _extend_line(buffer: bytes, piece: bytes, is_cut: bool) -> tuple[bytes, bool]:
    remaining = MAX_LINE_BYTES - len(buffer)
    return buffer + piece[:remaining], is_cut or len(piece) > remaining


def encode_records(records: Iterable[ProbeRecord]) -> bytes:
    """Encode records for storage."""
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def decode_records(data: bytes) -> tuple[ProbeRecord, ...]:
    """Decode the result of `encode_records`."""
    return tuple(_STORED.decode(line) for line in data.splitlines() if line)


def format_record(record: ProbeRecord) -> str:
    """Format one record as one line, for display and citation."""
    who = f"[{record.hypothesis_id}] " if record.hypothesis_id else ""
    location = f"{record.location}: " if record.location else ""
    data = f" {record.data}" if record.data else ""
    return " ".join(f"{who}{location}{record.message}{data}{' […]' if record.cut else ''}".split())


def filter_records(
    records: Iterable[ProbeRecord], *, hypothesis: str = "", words: Sequence[str] = ()
) -> tuple[ProbeRecord, ...]:
    """Return the records of a hypothesis ("" = of any) that contain all the words, ignoring case."""
    search_words = [word.casefold() for word in words]
    return tuple(
        record for record in records if hypothesis in {"", record.hypothesis_id} and _has_words(record, search_words)
    )


def _has_words(record: ProbeRecord, search_words: Sequence[str]) -> bool:
    text = f"{record.location} {record.message} {record.data}".casefold()
    return all(word in text for word in search_words)


def count_records(records: Iterable[ProbeRecord]) -> dict[str, int]:
    """Count the records by hypothesis; "" counts those without one."""
    return Counter(record.hypothesis_id for record in records)


def compare_runs(first: Sequence[ProbeRecord], second: Sequence[ProbeRecord]) -> tuple[ComparedLocation, ...]:
    """Compare two runs by hypothesis, location and message, in order of appearance and regardless of times. All output
    of a command counts as one location."""
    one, other = _group_records(first), _group_records(second)
    keys = dict.fromkeys([*one, *other])
    return tuple(_compare_place(key, one.get(key, ()), other.get(key, ())) for key in keys)


def narrow_location(location: ComparedLocation, limit: int) -> ComparedLocation:
    """Return the location with at most `limit` records of either side, beginning at the first difference."""
    pairs = zip(location.first, location.second, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: _get_content(pair[0]) == _get_content(pair[1]), pairs))
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


def _get_content(record: ProbeRecord) -> tuple[str, str]:
    return record.message, record.data


def _compare_place(key: _Key, first: tuple[ProbeRecord, ...], second: tuple[ProbeRecord, ...]) -> ComparedLocation:
    hypothesis, location, message = key
    same = list(map(_get_content, first)) == list(map(_get_content, second))
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
