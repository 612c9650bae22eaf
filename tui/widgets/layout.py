"""Where the blocks of the transcript stand: heights, tops, and the few of them that are drawn at any time.

A block is drawn when it comes into view and forgotten when it was not seen for long; of the others only a height is
kept, estimated until it has been drawn once. So memory and the cost of one more line do not depend on the length of
the conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from tui.state import Block
from tui.text import clean
from tui.widgets.blocks import can_open, draw, has_gap
from tui.widgets.calls import OWN_ROWS, own, own_lines
from tui.widgets.rows import Piece, Row, wrap_text

DRAWN_AT_MOST: Final = 60
_NONE: Final = 1 << 60
RECHECKED: Final = 64
_LIVE_KINDS: Final[dict[str, tuple[str, list[Piece]]]] = {
    "text": ("", [("  ", "")]),
    "code_block": ("code_block", [("    ", "")]),
    "code_reference": ("code_block", [("    ", "")]),
}


class LiveText:
    """Streamed text as rows: what ends in a newline is wrapped once, only the last paragraph again and again."""

    def __init__(self, kind: str, width: int) -> None:
        self.width = width
        self.fill, self.lead = _LIVE_KINDS[kind]
        self.rows: list[Row] = []
        self._seen = 0
        self._settled = 0

    @property
    def settled(self) -> int:
        """How many rows will not change any more."""
        return self._settled

    def update(self, text: str) -> list[Row]:
        """All rows of `text`, which begins with the text of the call before."""
        cut = text.rfind("\n") + 1
        del self.rows[self._settled :]
        if cut > self._seen:
            self.rows += self._wrap(text[self._seen : cut - 1])
            self._seen, self._settled = cut, len(self.rows)
        self.rows += self._wrap(text[self._seen :])
        return self.rows

    def _wrap(self, text: str) -> list[Row]:
        return wrap_text(clean(text), self.width, "", first=self.lead, rest=self.lead, fill=self.fill)


def _is_live(block: Block) -> bool:
    return block.document is None and block.kind in _LIVE_KINDS


class Drawn:
    """The rows of one block as they were drawn for `revision`."""

    __slots__ = ("live", "revision", "rows")

    def __init__(self, rows: list[Row], revision: int, live: LiveText | None = None) -> None:
        self.rows, self.revision, self.live = rows, revision, live


def _settled(drawn: Drawn | None, block: Block) -> int:
    """How many rows of what was drawn stay as they are; none of a live text that is finished, and is Markdown now."""
    return drawn.live.settled if drawn is not None and drawn.live is not None and _is_live(block) else 0


class Layout:
    """Blocks one below the other at a width. Rows are counted from the top of the transcript, from 0."""

    def __init__(self) -> None:
        self.blocks: Sequence[Block] = ()
        self.width = 0
        self.opened: set[str] = set()
        self.dirty = 0  # the first row that has changed since the last `sync`
        self._early = _NONE  # of those drawn anew between two of them: Textual may draw a row and not show it
        self._keys: list[str] = []
        self._heights: list[int] = []
        self._tops: list[int] = [0]
        self._drawn: OrderedDict[str, Drawn] = OrderedDict()

    @property
    def height(self) -> int:
        """Rows of all blocks together."""
        return self._tops[-1]

    def forget(self) -> None:
        """Drop what was drawn: the width, the theme or the session is another one."""
        self._drawn.clear()
        self._keys, self._heights, self._tops = [], [], [0]

    def sync(self, blocks: Sequence[Block], width: int) -> None:
        """Take in what was added, changed or removed since the last call."""
        if width != self.width or blocks is not self.blocks:
            self.forget()
        self.dirty = min(self.height, self._early) if self._keys else 0
        self.blocks, self.width = blocks, width
        count, known = len(blocks), len(self._keys)
        start = min(max(0, known - RECHECKED), count)
        if known > count or any(self._keys[at] != blocks[at].key for at in range(start, min(known, count))):
            start = next((at for at in range(min(known, count)) if self._keys[at] != blocks[at].key), min(known, count))
            del self._keys[start:], self._heights[start:]
            start = max(0, start - 1)
            self.dirty = min(self.dirty, self._tops[start])
        for index in range(start, count):
            height = self._height_of(index)
            if index < len(self._keys):
                self._heights[index] = height
            else:
                self._keys.append(blocks[index].key)
                self._heights.append(height)
        self._stack(start)
        self._early = _NONE

    def _height_of(self, index: int) -> int:
        block = self.blocks[index]
        if len(self.blocks) - index <= RECHECKED // 2 or block.key in self._drawn:
            return len(self.rows(index))
        return self._estimate(index)

    def _estimate(self, index: int) -> int:
        block = self.blocks[index]
        gap = has_gap(block, self.blocks[index - 1] if index else None)
        if can_open(block) and block.key not in self.opened:
            run = own(block)
            return 1 + gap + (min(own_lines(run), OWN_ROWS + 1) if run else 0)
        content = (block.document.content if block.document else None) or block.text or block.live
        return 1 + gap + content.count("\n") + len(content) // max(self.width, 1)

    def _stack(self, start: int) -> None:
        del self._tops[start + 1 :]
        top = self._tops[-1]
        for height in self._heights[start:]:
            top += height
            self._tops.append(top)

    def rows(self, index: int) -> list[Row]:
        """The rows of a block, drawn now if they are not there or stale."""
        block = self.blocks[index]
        drawn = self._drawn.get(block.key)
        if drawn is None or drawn.revision != block.revision:
            if index < len(self._tops):
                first = self._tops[index] + _settled(drawn, block)
                self.dirty = min(self.dirty, first)
                self._early = min(self._early, first) if drawn is not None else self._early
            drawn = self._draw(index, drawn)
            self._drawn[block.key] = drawn
            while len(self._drawn) > DRAWN_AT_MOST:
                self._drawn.popitem(last=False)
        self._drawn.move_to_end(block.key)
        return drawn.rows

    def _draw(self, index: int, before: Drawn | None) -> Drawn:
        block = self.blocks[index]
        gap = has_gap(block, self.blocks[index - 1] if index else None)
        if _is_live(block):
            live = (before.live if before else None) or LiveText(block.kind, self.width - 1)
            rows = live.update(block.live)
            return Drawn([Row([("", "")]), *rows] if gap else list(rows), block.revision, live)
        return Drawn(draw(block, self.width, opened=block.key in self.opened, gap=gap), block.revision)

    def settle(self, top: int, bottom: int) -> int:
        """Draw all blocks in rows [top, bottom); returns by how many rows the content above `top` grew."""
        grown = 0
        index = self.index_at(top)
        while index < len(self._heights) and self._tops[index] < bottom:
            height = len(self.rows(index))
            if height != self._heights[index]:
                if self._tops[index] < top:
                    grown += height - self._heights[index]
                self._heights[index] = height
                self._stack(index)
            index += 1
        return grown

    def redraw(self, index: int) -> None:
        """Draw a block again: it was opened or closed."""
        self._drawn.pop(self.blocks[index].key, None)
        self._heights[index] = len(self.rows(index))
        self._stack(index)

    def index_at(self, row: int) -> int:
        """The block that stands at a row; the last one below the end."""
        return max(min(bisect_right(self._tops, row) - 1, len(self._heights) - 1), 0)

    def top_of(self, index: int) -> int:
        """The first row of a block."""
        return self._tops[index]

    def row_at(self, row: int) -> tuple[int, Row] | None:
        """The block index and the row there; None below the end."""
        if not 0 <= row < self.height:
            return None
        index = self.index_at(row)
        rows = self.rows(index)
        at = row - self._tops[index]
        return (index, rows[at]) if at < len(rows) else None

    def rows_between(self, first: int, last: int) -> list[Row]:
        """Rows `first` to `last`, both included."""
        found = (self.row_at(row) for row in range(max(first, 0), min(last, self.height - 1) + 1))
        return [each[1] for each in found if each is not None]
