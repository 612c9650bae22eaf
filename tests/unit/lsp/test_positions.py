"""Positions in the units of a server and in characters; wrong ones are brought into the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.lsp.positions import ENCODINGS, LineTable, Position

TEXT = "a\r\né😀b\rx\nlast"


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 6), ("utf-16", 3), ("utf-32", 2)])
def test_units_of_each_encoding_become_characters(encoding, units):
    lines = LineTable(TEXT, encoding)
    assert lines.find_place(Position(1, units)) == (2, 3)
    assert lines.find_position(2, 3) == Position(1, units)
    assert TEXT[lines.find_offset(Position(1, units))] == "b"


def test_carriage_returns_end_lines_as_the_protocol_has_it():
    lines = LineTable(TEXT, "utf-32")
    assert [lines.get_line(number) for number in range(5)] == ["a", "é😀b", "x", "last", ""]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(line=st.integers(-5, 2**32), character=st.integers(-5, 2**32))
def test_any_position_is_brought_into_the_text(encoding, line, character):
    lines = LineTable(TEXT, encoding)
    found_line, column = lines.find_place(Position(line, character))
    assert 1 <= found_line <= 4
    assert 1 <= column <= len(lines.get_line(found_line - 1)) + 1
    assert 0 <= lines.find_offset(Position(line, character)) <= len(TEXT)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=st.text(alphabet="aé😀\r\n", max_size=30), data=st.data())
def test_a_place_survives_the_way_there_and_back(encoding, text, data):
    lines = LineTable(text, encoding)
    number = data.draw(st.integers(1, len(lines.get_line(0)) + 1))
    assert lines.find_place(lines.find_position(1, number)) == (1, number)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_very_many_places_of_a_long_line_are_found(encoding):
    lines = LineTable("ä😀" * 100_000, encoding)
    width = {"utf-8": 6, "utf-16": 3}[encoding]
    for number in range(90_000, 92_000):
        assert lines.find_place(Position(0, number * width)) == (1, 2 * number + 1)
