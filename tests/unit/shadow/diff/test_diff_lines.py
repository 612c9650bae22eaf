"""A diff shows every changed line once, decoded as well as can be, and says what it leaves out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.protocol.review import Change, FileState
from core.secrets import MASK, Secret
from core.shadow.diff import diff_lines as difflines
from core.shadow.diff.diff_lines import build_diff, compute_marks
from core.shadow.diff.hunks import compute_hunks
from tests.support.work import counted

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))


def rows(diff):
    sign = {"context": " ", "removed": "-", "added": "+", "gap": "~"}
    return [sign[line.kind] + line.text for line in diff.lines]


def test_context_gaps_and_numbers(review):
    review.put("a", TEN)
    review.shadow.write("a", TEN.replace(b"line 6\n", b"line six\n"))
    diff = review.shadow.diff("a", context=1)
    assert rows(diff) == ["~4 unchanged lines", " line 5", "-line 6", "+line six", " line 7", "~3 unchanged lines"]
    assert [(line.old, line.new) for line in diff.lines][1:5] == [(5, 5), (6, 0), (0, 6), (7, 7)]
    assert (diff.lines[2].marks, diff.lines[3].marks) == (((5, 6),), ((5, 8),))
    assert len(review.shadow.diff("a", context=-1).lines) == 11
    assert review.shadow.diff("b") is None


def test_p8_endings_that_differ_from_the_rest_are_named(review):
    review.put("a", b"one\r\ntwo\r\nthree\r\n")
    review.shadow.write("a", b"one\r\ntwo\nthree")
    assert [(line.text, line.eol) for line in review.shadow.diff("a").lines] == [
        ("one", ""),
        ("two", ""),
        ("three", ""),
        ("two", "lf"),
        ("three", "none"),
    ]


def test_p9_a_line_that_is_no_utf_8_is_shown_and_spares_the_others(review):
    review.put("a", "grün\n".encode() + b"gr\xfcn\nend\n")
    review.shadow.write("a", "grün\n".encode() + b"gr\xfcn\nEND\n")
    assert rows(review.shadow.diff("a")) == [" grün", " grün", "-end", "+END"]
    review.shadow.resolve("a")
    assert review.disk("a") == "grün\n".encode() + b"gr\xfcn\nEND\n"


def test_p8_utf_16_and_byte_order_marks(review):
    review.put("wide", "eins\r\nzwei\r\n".encode("utf-16"))
    review.shadow.write("wide", "eins\r\ndrei\r\n".encode("utf-16"))
    assert rows(review.shadow.diff("wide")) == [" eins", "-zwei", "+drei"]
    review.put("bom", b"\xef\xbb\xbfa\nb\n")
    review.shadow.write("bom", b"a\nb\n")
    assert review.shadow.diff("bom").note == "byte order mark removed"


def test_n21_a_mark_within_a_file_is_a_part_of_its_line(review):
    review.shadow.write("within", "a\n\ufeffb\n".encode())
    assert [line.text for line in review.shadow.diff("within").lines] == ["a", "\ufeffb"]
    review.shadow.write("first", "\ufeffa\n".encode())
    diff = review.shadow.diff("first")
    assert ([line.text for line in diff.lines], "byte order mark" in diff.note) == (["a"], True)


def test_long_lines_are_clipped_and_modes_noted(review):
    review.put("a", b"x" * 5000 + b"\n", 0o644)
    review.shadow.write("a", b"y" * 5000 + b"\n", None, 0o755)
    diff = review.shadow.diff("a")
    assert diff.lines[0].text.endswith("… [3,000 more characters]")
    assert diff.note == "mode 0644 → 0755"


@given(st.text("ab _.é ", max_size=30), st.text("ab _.é ", max_size=30))
@settings(max_examples=300)
def test_without_its_marks_a_line_is_the_same_on_both_sides(removed, added):
    ours, theirs = compute_marks(removed, added)

    def rest(text: str, ranges) -> str:
        marked = {index for start, end in ranges for index in range(start, end)}
        return "".join(character for index, character in enumerate(text) if index not in marked)

    if ours or theirs:
        assert rest(removed, ours) == rest(added, theirs)
    for text, ranges in ((removed, ours), (added, theirs)):
        assert all(0 <= start < end <= len(text) for start, end in ranges)


def test_of_ten_thousand_new_lines_only_some_are_compared_word_by_word(review, monkeypatch):
    compared: list[str] = []
    monkeypatch.setattr(
        difflines, "compute_marks", lambda one, other: compared.append(one) or compute_marks(one, other)
    )

    def work(count: int) -> int:
        compared.clear()
        name = f"of_{count}"
        same, half = b"".join(b"same %d\n" % number for number in range(6)), range(count // 2)
        review.put(name, same.join([b"".join(b"old value %d = 1\n" % number for number in half)] * 2))
        review.shadow.write(name, same.join([b"".join(b"new value %d = 2\n" % number for number in half)] * 2))
        with counted() as done:
            assert len(review.shadow.diff(name).lines) == 2 * count + 6
        return done.lines

    few, many = work(2_000), work(10_000)
    assert len(compared) == difflines.MARKED_PAIRS
    assert many < 5 * 1.2 * few


def test_k2_an_excerpt_is_short_and_has_no_key(review):
    key = Secret("sk-planted-0123456789").reveal()
    review.put("a", b"one\r\n")
    change = review.shadow.write("a", f"{key} x\n{'y' * 300}\n".encode())
    excerpts = (
        difflines.build_excerpt(change, change.hunks, b"one\r\n", review.shadow.read("a"), limit=at) for at in (2, 3)
    )
    assert list(excerpts) == [f"-one\n+{MASK} x\n…", f"-one\n+{MASK} x\n+{'y' * 200}"]


def test_n21_all_of_a_long_line_is_there_if_it_is_asked_for(review):
    line = b"x" * 3_000 + b"; import os"
    review.put("a", b"k = 1\n")
    review.shadow.write("a", b"k = 1\n" + line + b"\n")
    assert rows(review.shadow.diff("a", width=0))[-1] == f"+{line.decode()}"
    assert rows(review.shadow.diff("a"))[-1].endswith("… [1,011 more characters]")


def test_a_late_change_of_a_very_long_line_is_displayed_with_what_stands_before_it(review):
    words = [f"f{number}();" for number in range(2_000)]
    review.put("a.min.js", "".join(words).encode())
    words[1_500] = "evil();"
    review.shadow.write("a.min.js", "".join(words).encode())
    removed, added = review.shadow.diff("a.min.js").lines
    start = len("".join(words[:1_500])) - difflines.LEAD_IN
    for line, word in ((removed, "f1500"), (added, "evil")):
        assert line.text.startswith(f"[{start:,} characters] …")
        assert line.text.endswith(" more characters]")
        assert [line.text[slice(*mark)] for mark in line.marks] == [word]
    assert [line.text for line in review.shadow.diff("a.min.js", width=0).lines][1] == "".join(words)


@given(st.integers(0, 6_000), st.integers(1, 500), st.integers(0, 4_000), st.integers(0, 3_000))
@settings(max_examples=100)
def test_the_first_change_of_a_long_line_is_always_in_what_is_displayed(head, changed, tail, width):
    old, new = (f"{'x' * head}{letter * changed}{'x' * tail}".encode() for letter in "ab")
    states = [FileState(size=len(data)) for data in (old, new)]
    change = Change(path="a", operation="edit", base=states[0], pending=states[1], hunks=compute_hunks(old, new))
    removed, added = build_diff(change, old, new, width=width).lines
    assert "a" in removed.text.replace("characters", "")
    assert "b" in added.text


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (b"a\nb\n", b"a\r\nb\r\n", "line ends LF → CRLF"),
        (b"a\r\nb\r\n", b"a\nb\r\n", "line ends CRLF → LF and CRLF"),
        (b"a\nb\n", b"a\nc\n", ""),
        (b"caf\xe9\n", "café\n".encode(), "encoding: not UTF-8 (shown as Latin-1) in 1 line → UTF-8"),
        (b"a\n", b"a\n# \xff\xfe bad\n", "not UTF-8, shown as Latin-1: 1 line (2)"),
        (b"a\n", "a\n# ÿþ bad\n".encode(), ""),
    ],
)
def test_n21_what_two_equal_lines_differ_by_is_said(review, old, new, note):
    review.put("a", old)
    review.shadow.write("a", new)
    assert review.shadow.diff("a").note == note


def test_n21_the_line_ends_of_a_new_file_are_said_unless_they_are_the_usual_ones(review):
    review.shadow.write("new", b"a\r\n")
    assert review.shadow.diff("new").note == "line ends CRLF"
    review.shadow.write("other", b"a\n")
    assert review.shadow.diff("other").note == ""
