from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.text import (
    expose_line,
    expose_text,
    fit_line,
    guard_renderer,
    render_output,
    render_prose,
    replace_hidden,
    shorten_lines,
    to_content,
)

SEQUENCES = {
    "csi": "\x1b[31mred\x1b[0m",
    "osc title": "\x1b]0;title\x07",
    "osc clipboard": "\x1b]52;c;aGk=\x1b\\",
    "osc link": "\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\",
    "dcs": "\x1bPq#0\x1b\\",
    "apc": "\x1b_G\x1b\\",
    "c1 csi": "\x9b31m",
    "dsr": "\x1b[6n",
    "open osc": "\x1b]0;never ends",
    "bare escape": "\x1b",
    "bell and backspace": "a\x07\x08b",
    "delete": "a\x7fb",
}
HIDDEN = [
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200f",
    "\ufeff",
    "\U000e0041",
    "\u2028",
    "\ud800",
    "\u00ad",
    "\u3164",
    "\x85",
]


@pytest.mark.parametrize("text", SEQUENCES.values(), ids=SEQUENCES)
def test_t1_no_control_code_survives(text):
    for door in (
        expose_text,
        expose_line,
        render_prose,
        render_output,
        fit_line,
        lambda string: to_content(string).plain,
        replace_hidden,
    ):
        assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in door(text))


@pytest.mark.parametrize("letter", HIDDEN, ids=ascii)
def test_t4_hidden_characters_become_visible_escapes(letter):
    for door in (expose_text, render_prose, render_output):
        assert f"U+{ord(letter):04X}" in door(f"a{letter}b")
        assert door(f"a{letter}b").encode()


def test_t4_ten_thousand_combining_marks_become_a_few_and_a_count():
    flood = render_prose("a" + "\u0301" * 10_000)
    assert len(flood) < 40
    assert "9996" in flood


def test_accents_tabs_newlines_and_emoji_are_left_in_peace():
    assert render_prose("e\u0301a 👍🏽\n\tx\r\ny") == "e\u0301a 👍🏽\n    x\ny"


def test_t2_brackets_are_brackets():
    hostile = "[/red] [@click=app.quit]x[/] [link=http://x]y"
    assert to_content(hostile).plain == hostile
    assert to_content(hostile).spans == []


def test_m8_what_has_to_be_judged_keeps_its_escapes_in_sight():
    assert expose_text("rm \x1b[31mx") == "rm ␛[31mx"


def test_a_carriage_return_shows_what_a_terminal_would_show():
    assert render_output("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"


def test_a_long_line_is_shortened_and_says_by_how_much():
    assert shorten_lines("x" * 30, 10) == "xxxxxxxxxx… (20 more characters)"


def test_one_line_has_no_newline_and_a_bound():
    assert fit_line("a\nb  c", 80) == "a b c"
    assert fit_line("x" * 100, 10) == "xxxxxxxxx…"


def test_c8_the_renderer_itself_lets_no_control_code_through():
    guard_renderer()
    strip = Strip([Segment("a\x1b]52;c;x\x07\u202eb", Style(bold=True)), Segment("c\x9bd")])
    written = strip.render(Console(file=io.StringIO(), color_system="truecolor", force_terminal=True))
    assert "\x1b]" not in written
    assert not {"\x07", "\u202e", "\x9b"} & set(written)


def test_c8_a_link_with_control_codes_is_dropped():
    guard_renderer()
    strip = Strip([Segment("x", Style(link="http://x\x1b\\\x1b]52;c;y\x07"))])
    written = strip.render(Console(file=io.StringIO(), color_system="truecolor", force_terminal=True))
    assert "\x1b]8" not in written
