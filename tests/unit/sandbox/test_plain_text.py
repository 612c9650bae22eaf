from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sandbox.plain_text import PlainTextStream, strip_escapes


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x1b[1;31mb\x1b[0m", "ab"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;Zm9v\x07x", "x"),
        ("\x9b31mx\x1bPq#0\x1b\\y", "xy"),
        ("10%\r50%\r100%\r\nnext", "100%\nnext"),
        ("a\tb\x07\x08c\x00", "a\tbc"),
        ("\x1b", ""),
    ],
)
def test_only_text_is_left(raw, shown):
    assert strip_escapes(raw) == shown


@given(st.text(alphabet="\x1b[]0m;\x07\\ab\n\r\x9b\x9c", max_size=80), st.integers(1, 7))
def test_pieces_show_the_same_text_as_the_whole_but_for_rewritten_lines(raw, size):
    def bare(text: str) -> str:
        return "".join(character for character in text if character not in "\x1b\x07\x9b\x9c\r")

    stream = PlainTextStream()
    pieces = [stream.feed(raw[place : place + size]) for place in range(0, len(raw), size)]
    plain_text = "".join(pieces) + stream.finish()
    assert plain_text == bare(plain_text)


def test_a_sequence_cut_in_two_leaves_no_trace():
    stream = PlainTextStream()
    assert stream.feed("a\x1b[3") == "a"
    assert stream.feed("1mb\r") == "b"
    assert stream.feed("\nc") == "\nc"
    assert stream.finish() == ""
