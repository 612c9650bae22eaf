"""The layout of the transcript's blocks: heights, tops, and the few rendered blocks.

A block is rendered when it comes into view and dropped after a long time out of view; other blocks have only a height,
estimated until they are first rendered. So memory and the cost of one more line do not grow with the conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from tui.block import TranscriptBlock
from tui.chat.block_rows import can_open, fit_width, has_gap, render_block
from tui.chat.command_rows import count_closed_rows
from tui.chat.streamed_rows import StreamedCode, StreamedMarkdown, StreamedReference, StreamedRows
from tui.widgets.text_rows import TextRow

MAX_RENDERED_BLOCKS: Final = 60
_NONE: Final = 1 << 60
RECHECKED_BLOCKS: Final = 64


def _is_streaming(block: TranscriptBlock) -> bool:
    return block.document is None and block.kind in {"text", "code_block", "code_reference"}


def _start_stream(block: TranscriptBlock, width: int) -> StreamedRows:
    width = fit_width(width)
    match block.kind:
        case "code_block":
            return StreamedCode(width, block.language)
        case "code_reference":
            return StreamedReference(width, block.title)
        case _:
            return StreamedMarkdown(width)


class RenderedBlock(NamedTuple):
    """The rows of one block as rendered for `revision`."""

    rows: list[TextRow]
    revision: int
    streamed: StreamedRows | None = None


def _count_final_rows(rendered_block: RenderedBlock | None, block: TranscriptBlock) -> int:
    """Count the final rendered rows; a finished stream has none, because it is rendered as Markdown now."""
    return (
        rendered_block.streamed.final_rows
        if rendered_block is not None and rendered_block.streamed is not None and _is_streaming(block)
        else 0
    )


class TranscriptLayout:
    """Blocks one below the other at a width. Rows are counted from the top of the transcript, from 0."""

    def __init__(self) -> None:
        self.blocks: Sequence[TranscriptBlock] = ()  # as of the last `sync`: a row may be drawn before the next
        self._source: Sequence[TranscriptBlock] = ()
        self.width = 0
        self.opened_keys: set[str] = set()
        self.first_changed_row = 0  # the first row that has changed since the last `sync`
        self._first_early_row = (
            _NONE  # of rows that were drawn between two frames: Textual may draw a row without displaying it
        )
        self._keys: list[str] = []
        self._heights: list[int] = []
        self._tops: list[int] = [0]
        self._rendered: OrderedDict[str, RenderedBlock] = OrderedDict()

    @property
    def height(self) -> int:
        return self._tops[-1]

    def clear(self) -> None:
        """Drop everything rendered: width, theme or session is another one."""
        self._rendered.clear()
        self._keys, self._heights, self._tops = [], [], [0]

    def sync(self, blocks: Sequence[TranscriptBlock], width: int) -> None:
        """Apply added, changed and removed blocks."""
        if width != self.width or blocks is not self._source:
            self.clear()
        self.first_changed_row = min(self.height, self._first_early_row) if self._keys else 0
        self._source, self.blocks, self.width = blocks, list(blocks), width
        count, known_count = len(blocks), len(self._keys)
        start = min(max(0, known_count - RECHECKED_BLOCKS), count)
        if known_count > count or any(
            self._keys[index] != blocks[index].key for index in range(start, min(known_count, count))
        ):
            start = next(
                (index for index in range(min(known_count, count)) if self._keys[index] != blocks[index].key),
                min(known_count, count),
            )
            del self._keys[start:], self._heights[start:]
            start = max(0, start - 1)
            self.first_changed_row = min(self.first_changed_row, self._tops[start])
        for index in range(start, count):
            height = self._measure_block(index)
            if index < len(self._keys):
                self._heights[index] = height
            else:
                self._keys.append(blocks[index].key)
                self._heights.append(height)
        self._stack_from(start)
        self._first_early_row = _NONE

    def _measure_block(self, index: int) -> int:
        block = self.blocks[index]
        if len(self.blocks) - index <= RECHECKED_BLOCKS // 2 or block.key in self._rendered:
            return len(self.render_rows(index))
        return self._estimate_height(index)

    def _estimate_height(self, index: int) -> int:
        block = self.blocks[index]
        gap = has_gap(block, self.blocks[index - 1] if index else None)
        if can_open(block) and block.key not in self.opened_keys:
            return 1 + gap + count_closed_rows(block)
        content = (block.document.content if block.document else None) or block.text or block.live
        return 1 + gap + content.count("\n") + len(content) // max(self.width, 1)

    def _stack_from(self, start: int) -> None:
        del self._tops[start + 1 :]
        top = self._tops[-1]
        for height in self._heights[start:]:
            top += height
            self._tops.append(top)

    def render_rows(self, index: int) -> list[TextRow]:
        """Return the rows of a block, rendered now if missing or stale."""
        block = self.blocks[index]
        rendered_block = self._rendered.get(block.key)
        if rendered_block is None or rendered_block.revision != block.revision:
            if index < len(self._tops):
                first = self._tops[index] + _count_final_rows(rendered_block, block)
                self.first_changed_row = min(self.first_changed_row, first)
                if rendered_block is not None:
                    self._first_early_row = min(self._first_early_row, first)
            rendered_block = self._rendered[block.key] = self._render_block(index, rendered_block)
            while len(self._rendered) > MAX_RENDERED_BLOCKS:
                self._rendered.popitem(last=False)
        self._rendered.move_to_end(block.key)
        return rendered_block.rows

    def _render_block(self, index: int, before: RenderedBlock | None) -> RenderedBlock:
        block = self.blocks[index]
        gap = has_gap(block, self.blocks[index - 1] if index else None)
        if _is_streaming(block):
            live = (before.streamed if before else None) or _start_stream(block, self.width)
            rows = live.update(block.live)
            return RenderedBlock([TextRow([("", "")]), *rows] if gap else list(rows), block.revision, live)
        rows = render_block(block, self.width, is_open=block.key in self.opened_keys, has_gap=gap)
        return RenderedBlock(rows, block.revision)

    def render_range(self, top: int, bottom: int) -> int:
        """Render all blocks in rows [top, bottom); return by how many rows the content above `top` grew."""
        growth = 0
        index = self.find_block(top)
        while index < len(self._heights) and self._tops[index] < bottom:
            height = len(self.render_rows(index))
            if height != self._heights[index]:
                if self._tops[index] < top:
                    growth += height - self._heights[index]
                self._heights[index] = height
                self._stack_from(index)
            index += 1
        return growth

    def rerender(self, index: int) -> None:
        """Render a block again: it was opened or closed."""
        self._rendered.pop(self.blocks[index].key, None)
        self._heights[index] = len(self.render_rows(index))
        self._stack_from(index)

    def find_block(self, row: int) -> int:
        """Return the index of the block at a row; the last one below the end."""
        return max(min(bisect_right(self._tops, row) - 1, len(self._heights) - 1), 0)

    def get_top(self, index: int) -> int:
        return self._tops[index]

    def find_row(self, row: int) -> tuple[int, TextRow] | None:
        """Return block index and row there, None below the end."""
        if not 0 <= row < self.height:
            return None
        index = self.find_block(row)
        block = self.blocks[index]
        rendered_block = self._rendered.get(block.key) if _is_streaming(block) else None
        # New streamed text is laid out by the next `sync`, not by every key that redraws meanwhile.
        rows = self.render_rows(index) if rendered_block is None else rendered_block.rows
        local_index = row - self._tops[index]
        return (index, rows[local_index]) if local_index < len(rows) else None

    def slice_rows(self, first: int, last: int) -> list[TextRow]:
        """Return rows `first` to `last`, both included."""
        entries = (self.find_row(row) for row in range(max(first, 0), min(last, self.height - 1) + 1))
        return [entry[1] for entry in entries if entry is not None]
