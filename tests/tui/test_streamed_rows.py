from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol import documents as d
from core.protocol import events as e
from tests.support import recorded
from tui.block import TranscriptBlock
from tui.chat.block_rows import render_block
from tui.chat.streamed_rows import LONG_PARAGRAPH, StreamedCode, StreamedMarkdown, complete_markdown
from tui.chat.transcript_layout import TranscriptLayout

WORDS = "some words that are **bold and `code`** with a [link](https://x.example/a) and ~~old~~ *leaning* ones"
PARTS = (
    f"{WORDS}, {WORDS}",
    "## A heading",
    f"- one\n- {WORDS}\n  - nested\n- three",
    "1. first\n2. second\n3. third",
    "- [ ] to do\n- [x] done",
    "> quoted **words**\n> and more",
    "| name | size |\n|:--|--:|\n| a | 1 |\n| `b` | 22 |",
    "---",
    "    indented = code",
    "<b>html</b>",
    "Setext\n======",
)
TEXTS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("\n\n".join)


def finished(content: str, width: int = 60) -> list[tuple[str, bool]]:
    document = d.TextDocument(id="x", sequence=1, content=content)
    rows = render_block(TranscriptBlock("x", "text", document=document), width + 1, is_open=False, has_gap=False)
    return [(row.text, row.soft) for row in rows]


@pytest.mark.slow
@given(TEXTS, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_what_was_streamed_in_any_pieces_stands_as_it_does_in_the_end(text, sizes):
    live, at, final_rows = StreamedMarkdown(60), 0, 0
    for size in [*sizes, len(text)]:
        at = min(at + size, len(text))
        live.update(text[:at])
        assert live.final_rows >= final_rows
        final_rows = live.final_rows
        assert [(row.text, row.soft) for row in live.rows[:final_rows]] == finished(text)[:final_rows]
    assert [(row.text, row.soft) for row in live.update(f"{text}\n")] == finished(text)


@pytest.mark.parametrize("part", PARTS)
def test_no_mark_shows_that_means_something_else_a_moment_later(part):
    for end in range(1, len(part) + 1):
        visible_text = " ".join(row.text.strip() for row in StreamedMarkdown(200).update(part[:end]))
        assert not any(mark in visible_text for mark in ("**", "~~", "`", "|", "](", "==", "#"))


def test_the_rows_of_a_paragraph_that_grows_never_become_fewer():
    text = "\n\n".join(PARTS[:4])
    live = StreamedMarkdown(40)
    heights = [len(live.update(text[:end])) for end in range(1, len(text) + 1)]
    assert all(after >= before - 1 for before, after in pairwise(heights))
    assert sum(after < before for before, after in pairwise(heights)) <= 3


@pytest.mark.slow
def test_a_paragraph_without_end_is_not_rendered_whole_again_and_again(monkeypatch):
    seen = list[int]()
    add = StreamedMarkdown._add
    monkeypatch.setattr(StreamedMarkdown, "_add", lambda live, *args: seen.append(len(args[0])) or add(live, *args))
    live, text = StreamedMarkdown(60), ""
    for number in range(400):
        text += f"line {number} of a text whose author has never heard of paragraphs at all\n"
        live.update(text)
    assert max(seen) <= LONG_PARAGRAPH + 200
    assert len(text) > 2 * LONG_PARAGRAPH


def test_code_inside_of_a_fence_is_not_completed():
    text = "- so:\n\n  ```py\n  a = b ** 2"
    assert complete_markdown(text) == text


@given(st.lists(st.integers(1, 9), max_size=30), st.sampled_from(["python", "diff", ""]))
def test_code_is_streamed_into_the_rows_that_it_has_in_the_end(sizes, language):
    code = "\ndef area(width):\n    return width * " + "width * " * 20 + "2\n\n+ added\n- removed\n"
    live, at = StreamedCode(60, language), 0
    for size in [*sizes, len(code)]:
        at = min(at + size, len(code))
        live.update(code[:at])
    document = d.CodeBlockDocument(id="x", sequence=1, content=code, metadata=d.CodeBlockMetadata(language=language))
    block = TranscriptBlock("x", "code_block", document=document)
    rows = render_block(block, 61, is_open=False, has_gap=False)
    assert [row.text for row in live.rows] == [row.text for row in rows]
    if language == "diff":
        assert {row.pieces[-1][1] for row in rows if row.text.strip() == "+ added"} == {"added"}
        assert [row.pieces for row in live.rows] == [row.pieces for row in rows]


def test_a_reference_is_streamed_below_the_name_of_its_file_and_does_not_grow_beyond_its_closed_height():
    streamed = TranscriptBlock("x", "code_reference", title="a/b.py", language="python", status="running")
    layout = TranscriptLayout()
    heights = []
    for number in range(30):
        streamed.live += f"line {number}\n"
        streamed.revision += 1
        layout.sync([streamed], 80)
        heights.append(layout.height)
    where = d.CodeReferenceMetadata(file_path="a/b.py", start_line=3, end_line=32)
    streamed.document = d.CodeReferenceDocument(id="x", sequence=1, content=streamed.live, metadata=where)
    streamed.revision += 1
    layout.sync([streamed], 80)
    assert heights[-1] == layout.height == 14
    assert "a/b.py" in layout.slice_rows(0, 0)[0].text


async def test_an_answer_that_ends_does_not_move(stage):
    text = "\n\n".join(PARTS)
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage([*recorded.opening(), start, e.DocumentStarted(id="x", kind="text", sequence=1)]) as on:
        await on.emit(e.DocumentDelta(id="x", text=text))
        await on.all_shown()
        before = [line for line in on.lines() if line.strip()]
        await on.emit(e.DocumentFinished(document=d.TextDocument(id="x", sequence=1, content=text)))
        await on.all_shown()
        assert [line for line in on.lines() if line.strip()] == before
        assert any("Setext" in line for line in before)


async def test_what_is_thought_is_one_row_before_and_after(stage):
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage([*recorded.opening(), start, e.DocumentStarted(id="x", kind="reasoning", sequence=1)]) as on:
        await on.emit(e.DocumentDelta(id="x", text="First I look. " * 30 + "Then I leap."))
        await on.all_shown()
        (row,) = [line for line in on.lines() if "thinking" in line]
        assert "Then I leap." in row
        height = on.transcript._block_layout.height
        thought = d.ReasoningDocument(id="x", sequence=1, content="x", metadata=d.ReasoningMetadata(duration_ms=2000))
        await on.emit(e.DocumentFinished(document=thought))
        await on.all_shown()
        assert any("thought for 2.0 s" in line for line in on.lines())
        assert on.transcript._block_layout.height == height
