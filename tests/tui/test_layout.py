from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.protocol import documents as d
from tui.block import TranscriptBlock
from tui.chat.transcript_layout import TranscriptLayout

PARTS = st.sampled_from(["word ", "**bold** ", "\n\n", "```python\nx = 1\n```\n\n", "- item\n", "a run of words "])


class Conversation:
    """A text that streams in, is finished as Markdown, and is followed by something else."""

    def __init__(self) -> None:
        self.layout = TranscriptLayout()
        self.blocks: list[TranscriptBlock] = []

    def begin(self) -> None:
        self.blocks.append(TranscriptBlock(key=f"b{len(self.blocks)}", kind="text"))

    def go_on(self, part: str) -> None:
        self.blocks[-1].live += part
        self.blocks[-1].revision += 1

    def shown(self) -> list[str]:
        self.layout.sync(self.blocks, 24)
        return [row.text for row in self.layout.slice_rows(0, self.layout.height - 1)]

    def finish(self) -> None:
        block = self.blocks[-1]
        block.document = d.TextDocument(id=block.key, sequence=1, content=block.live)
        block.live = ""
        block.revision += 1
        self.blocks.append(TranscriptBlock(key=f"n{len(self.blocks)}", kind="notice", text="done"))


@given(st.lists(st.lists(PARTS, min_size=1, max_size=8), min_size=1, max_size=3))
def test_rows_above_the_first_dirty_one_are_as_they_were(answers):
    talk = Conversation()
    before: list[str] = []

    def check() -> None:
        nonlocal before
        after = talk.shown()
        dirty = talk.layout.first_changed_row
        assert after[:dirty] == before[:dirty]
        before = after

    for parts in answers:
        talk.begin()
        for part in parts:
            talk.go_on(part)
            check()
        talk.finish()
        check()


def test_a_row_that_is_drawn_after_its_block_went_and_before_the_next_look_is_as_it_was():
    talk = Conversation()
    for number in range(3):
        talk.begin()
        talk.go_on(f"answer {number}")
        talk.finish()
    before = talk.shown()
    talk.blocks.pop()
    del talk.blocks[0]
    assert [row.text for row in talk.layout.slice_rows(0, talk.layout.height - 1)] == before
    assert talk.shown()[-1].strip() == "answer 2"


def test_what_streams_in_is_laid_out_by_the_next_look_and_not_by_every_frame():
    talk = Conversation()
    talk.begin()
    talk.go_on("one ")
    before = talk.shown()
    talk.go_on("two ")
    assert [row.text for row in talk.layout.slice_rows(0, talk.layout.height - 1)] == before
    assert "two" in talk.shown()[-1]
