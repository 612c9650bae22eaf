from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from core.debug.probe_records import (
    MAX_LINE_BYTES,
    MAX_RECORDS,
    OUTPUT,
    compare_runs,
    count_records,
    decode_records,
    encode_records,
    filter_records,
    format_record,
    narrow_location,
    parse_record,
    read_log,
)
from core.protocol.debug import ProbeRecord

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["sessionId", "runId", "hypothesisId", "location", "message", "data", "timestamp", "other"])


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=7), max_size=6), st.integers(min_value=1, max_value=50))
def test_every_object_is_one_record_whatever_its_fields_hold_and_however_it_arrives(objects, size):
    data = b"".join(json.dumps(json_object).encode() + b"\n" for json_object in objects)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    log = read_log(chunks, "r1", "ses_1")
    assert (len(log.records), log.broken, log.left_out) == (len(objects), 0, 0)
    assert [record.line for record in log.records] == list(range(1, len(objects) + 1))
    assert {record.run_id for record in log.records} <= {"r1"}
    assert decode_records(encode_records(log.records)) == log.records
    assert all("\n" not in format_record(record) for record in log.records)


@given(st.binary(max_size=200))
def test_no_bytes_at_all_are_an_error(data):
    log = read_log([data], "r1")
    lines = [raw_line for raw_line in data.split(b"\n") if raw_line.strip()]
    assert len(log.records) + log.broken == len(lines)


def test_a_line_of_10_mb_is_cut_and_the_next_one_is_read():
    piece = b"y" * 100_000
    chunks = [b'{"hypothesisId": "H2", "message": "huge", "data": "', *[piece] * 100, b'"}\n', line(message="next")]
    log = read_log(chunks, "r1")
    assert [(record.message, record.cut) for record in log.records] == [("huge", True), ("next", False)]
    assert log.records[0].hypothesis_id == "H2"
    assert len(encode_records(log.records)) < MAX_LINE_BYTES


def test_broken_lines_are_counted_and_the_rest_is_read():
    log = read_log([b"no json\n[1]\n", line(message="good"), b"\n", b'{"half": '], "r1")
    assert [record.message for record in log.records] == ["good"]
    assert log.broken == 3


def test_more_records_than_are_kept_are_counted():
    log = read_log([line(message="x")] * (MAX_RECORDS + 5), "r1")
    assert (len(log.records), log.left_out) == (MAX_RECORDS, 5)


def test_times_that_are_none_are_left_out():
    assert parse_record(line(timestamp=1_700_000_000_000)).timestamp == 1_700_000_000_000
    assert [parse_record(line(timestamp=stamp)).timestamp for stamp in ("x", True, -1, 1e300, None)] == [0] * 5
    assert parse_record(b'{"timestamp": NaN}').timestamp == 0


def test_half_a_character_a_huge_number_and_a_depth_beyond_sense_are_records_that_can_be_kept():
    raw = [b'{"message": "a\\ud800b", "data": "\\udfff"}', b'{"message": "n", "data": ' + b"9" * 6_000 + b"}"]
    raw += [b'{"message": "deep", "data": ' + b"[" * 60_000]
    log = read_log([b"\n".join(raw)], "r1")
    assert [record.message for record in log.records] == ["a\N{REPLACEMENT CHARACTER}b", "n", "deep"]
    assert [record.cut for record in log.records] == [False, True, True]
    assert decode_records(encode_records(log.records)) == log.records


def record(number: int, **fields: str) -> ProbeRecord:
    return ProbeRecord(line=number, **fields)


def test_records_are_picked_by_hypothesis_and_by_text():
    records = [record(1, hypothesis_id="H1", message="Key"), record(2, hypothesis_id="H2", data='{"key":1}'), record(3)]
    assert filter_records(records) == tuple(records)
    assert filter_records(records, hypothesis="H2") == (records[1],)
    assert filter_records(records, words=["KEY"]) == tuple(records[:2])
    assert filter_records(records, words=["key", "1"]) == (records[1],)
    assert count_records(records) == {"H1": 1, "H2": 1, "": 1}


def test_two_runs_are_compared_place_by_place_and_what_a_command_said_is_one_place():
    first = [record(1, location="a:1", data="1"), record(2, location="b:2", data="1"), record(3, location="c:3")]
    second = [record(1, location="b:2", data="2"), record(2, location="c:3"), record(3, location="d:4")]
    output_records = [record(number, location=OUTPUT, message=f"line {number}") for number in range(4, 9)]
    rows = compare_runs([*first, *output_records], [*second, *output_records[:3]])
    assert [(row.location, row.side) for row in rows] == [
        ("a:1", "first"),
        ("b:2", "differs"),
        ("c:3", "same"),
        ("output", "differs"),
        ("d:4", "second"),
    ]
    assert (rows[3].first_count, rows[3].second_count) == (5, 3)
    near = narrow_location(rows[3], 2)
    assert ([probe_record.line for probe_record in near.first], list(near.second)) == ([7, 8], [])
    assert narrow_location(rows[2], 5) == rows[2]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12")), max_size=8))
def test_a_run_compared_with_itself_differs_nowhere(pairs):
    records = [record(number, location=where, data=data) for number, (where, data) in enumerate(pairs)]
    assert {row.side for row in compare_runs(records, records)} <= {"same"}
    assert sum(len(row.first) for row in compare_runs(records, records)) == len(records)
