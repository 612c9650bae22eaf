"""The segmenter: the same parts whatever the chunk borders, and nothing held back that is certain."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.dialects.segments import (
    SegmentDelta,
    Segmenter,
    SegmentEvent,
    SegmentFinished,
    SegmentStarted,
)
from tests.support.work import counted


def parts(*pieces: str) -> list[tuple[SegmentStarted, str, bool]]:
    """(start, content, closed) of every segment, having checked that the events are well formed."""
    segmenter = Segmenter()
    events: list[SegmentEvent] = [event for piece in pieces for event in segmenter.feed(piece)]
    events += segmenter.finish()
    segments: list[tuple[SegmentStarted, str, bool]] = []
    started: SegmentStarted | None = None
    streamed_text = ""
    for event in events:
        match event:
            case SegmentStarted():
                assert started is None
                started, streamed_text = event, ""
            case SegmentDelta(text):
                assert started is not None
                assert text
                streamed_text += text
            case SegmentFinished(content, closed):
                assert started is not None
                assert content == streamed_text
                segments.append((started, content, closed))
                started = None
    assert started is None
    return segments


def brief(*pieces: str) -> list[tuple[str, str, str]]:
    return [(start.kind, start.path or start.language, content) for start, content, _ in parts(*pieces)]


SNIPPETS = st.sampled_from(
    ["```", "````", "~~~", "```py", "12:14:src/main.py", "\n", "\n\n", "  ", "\t", "- ", "1. ", "`", "~", "a b", "x",
     "\r\n", "Some text", "    ", "é", "**", "1", "10", "```12:14:a.py\n", "~~~\n", "*", "```js title=\"x\"\n"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(SNIPPETS, max_size=40).map("".join), st.lists(st.integers(0, 200), max_size=30))
@example("- ```py\n  a\n  ```\nmore", [3, 4, 9])
@example("a \n```\nb\n\n```", [2, 3])
def test_any_chunking_gives_the_same_documents(text, cuts):
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(borders)]
    assert parts(*pieces) == parts(text) == parts(*text)


def test_plain_text_is_one_document_without_the_blank_edges():
    assert brief("\n\nHello,\n\nworld. \n") == [("text", "", "Hello,\n\nworld.")]


def test_a_reference_names_its_file_and_lines():
    [(start, content, closed)] = parts("```12:14:src/main.py\ndef main():\n    pass\n```")
    assert (start.kind, start.path, start.start, start.end) == ("code_reference", "src/main.py", 12, 14)
    assert content == "def main():\n    pass"
    assert closed


@pytest.mark.parametrize("info", ["14:12:a.py", "0:3:a.py", "12:a.py", "12:14:"])
def test_a_malformed_reference_is_a_plain_block(info):
    assert parts(f"```{info}\nx\n```")[0][0].kind == "code_block"


def test_text_and_blocks_alternate():
    text = "See:\n```python\nx = 1\n\ny = 2\n```\nand\n~~~\nz\n~~~\n"
    assert brief(text) == [
        ("text", "", "See:"), ("code_block", "python", "x = 1\n\ny = 2"), ("text", "", "and"), ("code_block", "", "z")
    ]  # fmt: skip


def test_a_longer_fence_holds_a_shorter_one():
    assert brief("````md\n```py\nx\n```\n````") == [("code_block", "md", "```py\nx\n```")]


def test_a_fence_in_a_list_loses_its_indentation():
    text = "1. First\n\n   ```py\n   def f():\n       pass\n   ```\n2. Second"
    assert brief(text) == [
        ("text", "", "1. First"), ("code_block", "py", "def f():\n    pass"), ("text", "", "2. Second")
    ]  # fmt: skip


def test_a_fence_behind_a_list_marker_is_a_fence():
    assert brief("- ```sh\n  make\n  ```\nDone") == [
        ("text", "", "-"), ("code_block", "sh", "make"), ("text", "", "Done")
    ]  # fmt: skip


def test_an_unclosed_fence_ends_with_the_text():
    assert parts("```py\nx = 1\n")[0][1:] == ("x = 1", False)
    assert parts("```py\nx = 1\n``")[0][1:] == ("x = 1\n``", False)


def test_a_closing_fence_needs_no_line_end():
    assert parts("```py\nx\n```")[0][1:] == ("x", True)


def test_an_empty_block_is_a_document():
    assert brief("```\n```") == [("code_block", "", "")]


def test_inline_backticks_are_text():
    assert brief("```not a fence``` here\n`x`") == [("text", "", "```not a fence``` here\n`x`")]


def test_text_flows_at_once_and_only_a_possible_fence_waits():
    segmenter = Segmenter()
    assert segmenter.feed("Hel") == [SegmentStarted("text"), SegmentDelta("Hel")]
    assert segmenter.feed("lo ``` x") == [SegmentDelta("lo ``` x")]
    assert segmenter.feed("\n``") == []
    assert segmenter.feed("x") == [SegmentDelta("\n``x")]


def test_code_flows_within_a_line():
    segmenter = Segmenter()
    segmenter.feed("```py\n")
    assert segmenter.feed("x =") == [SegmentDelta("x =")]
    assert segmenter.feed(" 1") == [SegmentDelta(" 1")]


@pytest.mark.parametrize("unit", ["x", "`", " ", "~", "\n", "```\n", "1", "a\n  ", "```py\nx"])
def test_the_work_for_an_answer_grows_with_its_length_and_no_faster(unit):
    def work(count: int) -> int:
        segmenter, longest = Segmenter(), 0
        with counted() as done:
            for character in unit * (count // len(unit)):
                segmenter.feed(character)
                longest = max(longest, len(segmenter._held))
            segmenter.finish()
        assert longest <= 600  # what is held is looked at again with each letter
        return done.lines

    assert work(16_000) < 8 * 1.2 * work(2_000)
