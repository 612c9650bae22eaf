"""Positions in the units of a server and in characters; wrong ones are brought into the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.lsp.messages import ENCODINGS, LineTable, Position

TEXT = "a\r\né😀b\rx\nlast"


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 6), ("utf-16", 3), ("utf-32", 2)])
def test_units_of_each_encoding_become_characters(encoding, units):
    lines = LineTable(TEXT, encoding)
    assert lines.find_location(Position(1, units)) == (2, 3)
    assert lines.find_position(2, 3) == Position(1, units)
    assert TEXT[lines.find_offset(Position(1, units))] == "b"


def test_a_lone_carriage_return_ends_a_line_of_the_protocol_and_none_of_ours():
    lines = LineTable(TEXT, "utf-32")
    assert [lines.get_line(number) for number in range(1, 5)] == ["a", "é😀b\rx", "last", ""]
    assert lines.list_lines() == ["a", "é😀b\rx", "last"]
    assert lines.find_location(Position(3, 1)) == (3, 2), "what the protocol calls line 3, 0-indexed, is our third"
    assert lines.find_location(Position(2, 0)) == (2, 5)
    assert [lines.find_position(2, 5), lines.find_position(3, 2)] == [Position(2, 0), Position(3, 1)]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(line=st.integers(-5, 2**32), character=st.integers(-5, 2**32))
def test_any_position_is_brought_into_the_text(encoding, line, character):
    lines = LineTable(TEXT, encoding)
    found_line, column = lines.find_location(Position(line, character))
    assert 1 <= found_line <= 3
    assert 1 <= column <= len(lines.get_line(found_line)) + 1
    assert 0 <= lines.find_offset(Position(line, character)) <= len(TEXT)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=st.text(alphabet="aé😀\r\n", max_size=30), data=st.data())
def test_a_place_survives_the_way_there_and_back(encoding, text, data):
    lines = LineTable(text, encoding)
    line = data.draw(st.integers(1, len(lines.list_lines())))
    number = data.draw(st.integers(1, len(lines.get_line(line)) + 1))
    assert lines.find_location(lines.find_position(line, number)) == (line, number)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_very_many_places_of_a_long_line_are_found(encoding):
    lines = LineTable("ä😀" * 100_000, encoding)
    width = {"utf-8": 6, "utf-16": 3}[encoding]
    for number in range(90_000, 92_000):
        assert lines.find_location(Position(0, number * width)) == (1, 2 * number + 1)
