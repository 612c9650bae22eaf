from __future__ import annotations

import pytest

from core.protocol.events import EffectsRecorded
from core.shell import long_output
from core.shell.execution import format_effects
from core.shell.long_output import CommandOutput, read_spilled


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
    assert "80 characters left out; full output: read_file output:call_1.txt" in output.render_text()
    assert read_spilled(tmp_path, output.spilled_path) == text.encode()


def test_what_came_since_the_last_look_is_told_once(tmp_path):
    output = CommandOutput(tmp_path, "call_1")
    output.add("first ")
    place = output.total
    output.add("second")
    assert output.render_since(place) == "second"
    assert output.render_since(output.total) == ""
    output.add("x" * 50 + "end")
    assert output.render_since(place).endswith("xxxend")
    assert "left out" in output.render_since(place)


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
