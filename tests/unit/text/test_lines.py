from __future__ import annotations

import re

import pytest

from core.text.lines import clip, cut_lines, find_line_number, find_line_numbers


class _CountedText(str):
    """A text that knows how many characters were searched for line breaks."""

    searched = 0

    def count(self, part, start=0, end=None):
        self.searched += (len(self) if end is None else end) - start
        return super().count(part, start, end)


def test_the_lines_of_many_places_are_counted_in_one_pass():
    text = _CountedText("var a=1;\n" * 10 + "var a=1;" * 2_000)
    places = [match.start() for match in re.finditer("var", text)]
    assert find_line_numbers(text, places) == [find_line_number(str(text), offset) for offset in places]
    assert text.searched <= len(text)


def test_a_cut_keeps_whole_lines_or_whole_characters():
    assert cut_lines(b"one\ntwo\nthree", 9) == b"one\ntwo"
    assert cut_lines(b"one\ntwo", 7) == b"one\ntwo"
    assert cut_lines("äöü".encode(), 3) == "ä".encode()
    assert cut_lines(b"one", 0) == cut_lines(b"one", -5) == b""


@pytest.mark.parametrize(
    ("text", "limit", "clipped"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 1, "…"), ("", 0, ""), ("ab", 0, "…")]
)
def test_a_clipped_text_says_that_it_is(text, limit, clipped):
    assert clip(text, limit) == clipped
