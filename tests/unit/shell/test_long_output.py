from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol.events import EffectsRecorded
from core.shell import long_output
from core.shell.execution import format_effects
from core.shell.long_output import CommandOutput, clip_text, read_spilled
from core.state.live_text import append_piece

PIECES = st.lists(st.text(alphabet="ab\n\r\v", max_size=12), max_size=12)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(long_output, "HEAD_CHARS", 10)
    monkeypatch.setattr(long_output, "TAIL_CHARS", 10)


def test_a_short_output_is_whole_and_makes_no_file(tmp_path):
    output = CommandOutput(tmp_path, "call_1")
    for piece in ("abc", "defghij", "0123456789"):
        output.add(piece)
    assert (output.render_text(), output.spilled_path, output.is_clipped) == ("abcdefghij0123456789", "", False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_long_one_keeps_head_and_tail_and_the_file_has_it_all(tmp_path, size):
    text = "".join(chr(ord("a") + number % 26) for number in range(100))
    output = CommandOutput(tmp_path, "call_1")
    for start in range(0, 100, size):
        output.add(text[start : start + size])
    output.close()
    assert output.render_text().startswith(text[:10])
    assert output.render_text().endswith(text[-10:])
    gap = "80 characters left out, in lines 1 to 1 of 1; the whole output (100 characters): read_file output:call_1.txt"
    assert gap in output.render_text()
    assert read_spilled(tmp_path, output.spilled_path) == text.encode()


def test_the_gap_lies_between_whole_lines_and_names_those_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(long_output, "HEAD_CHARS", 400)
    monkeypatch.setattr(long_output, "TAIL_CHARS", 800)
    lines = [f"line {number}" for number in range(1, 1001)]
    output = CommandOutput(tmp_path, "call_1")
    output.add("\n".join(lines))
    for text in (output.render_text(), clip_text(tmp_path, "call_1", "\n".join(lines), 1_200)[0]):
        rows = text.split("\n")
        index = next(index for index, row in enumerate(rows) if row.startswith("[…"))
        first, last, total = map(int, re.findall(r"[0-9]+", rows[index].replace(",", ""))[1:4])
        assert rows[:index] == lines[: first - 1]
        assert rows[index + 1 :] == lines[last:]
        assert total == 1_000
        assert f"read_file output:call_1.txt from offset {first}, or grep with this path" in rows[index]


def test_what_came_since_the_last_look_is_told_once(tmp_path):
    output = CommandOutput(tmp_path, "call_1")
    output.add("first ")
    assert output.read_new() == "first "
    output.add("second")
    assert output.read_new() == "second"
    assert output.read_new() == ""
    output.add("x" * 50 + "end")
    text = output.read_new()
    assert text.endswith("xxxend")
    assert "left out" in text


def test_a_line_that_is_rewritten_is_told_again_and_in_its_last_state(tmp_path):
    output = CommandOutput(tmp_path, "call_1")
    output.add("a\n10%")
    assert output.read_new() == "a\n10%"
    output.add("\r20%")
    output.add("\r30%")
    assert output.read_new() == "30%"
    assert output.render_text() == "a\n30%"


@given(PIECES)
def test_an_output_is_what_its_pieces_make_whether_it_has_a_file_or_not(tmp_path_factory, pieces):
    directory = tmp_path_factory.mktemp("out")
    output = CommandOutput(directory, "call_1")
    text = ""
    for piece in pieces:
        text = append_piece(text, piece)
        output.add(piece)
    output.close()
    if not output.spilled_path:
        assert output.render_text() == text
    elif max(map(len, text.split("\n"))) < 5 and "\v" not in "".join(pieces):
        assert read_spilled(directory, output.spilled_path) == text.encode()


def test_a_disk_that_refuses_costs_the_middle_and_nothing_else(tmp_path):
    (tmp_path / "outputs").write_text("in the way")
    output = CommandOutput(tmp_path, "call_1")
    output.add("a" * 100)
    assert output.spilled_path == ""
    assert "could not be saved" in output.render_text()


@pytest.mark.parametrize(
    ("effects", "line"),
    [
        ({}, "changed nothing"),
        ({"edited": ("a",), "created": ("b", "c")}, "changed: edited a; created b, c; pending review"),
        ({"deleted": tuple(f"build/{n}" for n in range(12))}, "changed: deleted 12 files below build; pending review"),
        ({"generated": 1200}, "changed: 1,200 generated files; kept outside the review"),
        ({"notes": ("p: dropped",)}, "changed nothing; p: dropped"),
        ({"discarded": True}, "its changes were discarded"),
    ],
)
def test_what_a_command_did_is_one_line(effects, line):
    assert format_effects(EffectsRecorded(call="c", command="x", **effects)) == line
