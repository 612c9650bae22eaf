"""The conversation: one line-API widget over all blocks, whatever their number.

It stays at the bottom unless the user scrolled up, and says so when something new is below. With the focus, up and
down go from block to block; enter opens, `c` copies a block's logical text, and so does a selection by mouse.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from core.protocol.messages import Attachment
from tui.keymap import bindings
from tui.state import Block
from tui.widgets.blocks import can_open, source
from tui.widgets.layout import Layout
from tui.widgets.rows import Piece, Row, logical, part, placed

ROLES: Final = (
    "muted",
    "strong",
    "em",
    "heading",
    "code",
    "link",
    "accent",
    "tool",
    "ok",
    "bad",
    "warn",
    "added",
    "removed",
    "prompt",
    "code_block",
    "cursor",
    "below",
    "syntax_comment",
    "syntax_keyword",
    "syntax_string",
    "syntax_number",
    "syntax_name",
    "syntax_type",
    "syntax_constant",
    "syntax_heading",
)
_FILLS: Final = frozenset({"prompt", "code_block"})
STRIPS_KEPT: Final = 200  # some screens of rows: a strip holds ten times what its text takes
_BELOW: Final = " ↓ new "


class Transcript(ScrollView, can_focus=True):
    """Draws blocks; knows nothing of what they mean."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{role}" for role in ROLES}
    BINDINGS: ClassVar[list[BindingType]] = bindings("transcript")
    BLANK = False

    @dataclass
    class Look(Message):
        """The user wants to see these."""

        shown: tuple[Attachment, ...]

    @dataclass
    class Copied(Message):
        """The user copied `text`."""

        text: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._layout_of = Layout()
        self._blocks: Sequence[Block] = ()
        self._palette: dict[tuple[str, str], Style] = {}
        self._kept: deque[Row] = deque()
        self._follows = True
        self._behind = False
        self._settling = False
        self._width = 0
        self.cursor = -1

    def show(self, blocks: Sequence[Block]) -> None:
        """Draw what has changed in `blocks`. Another list object is another session."""
        if blocks is not self._blocks:
            self.cursor, self._follows, self._behind = -1, True, False
        self._blocks = blocks
        width = self.scrollable_content_region.width or self.size.width
        if not width:
            return
        before = self._layout_of.height
        self._layout_of.sync(blocks, width)
        is_longer = width == self._width and self._layout_of.height > before
        self._behind, self._width = self._behind or (not self._follows and is_longer), width
        dirty, at = self._layout_of.dirty, self.scroll_offset.y
        self._resize_virtual()
        self._settle()
        if self._behind or not before or self.scroll_offset.y != at:
            self.refresh()
        else:
            last = max(before, self._layout_of.height, at + self.size.height)
            self.refresh_lines(dirty, last - dirty)

    def follow(self) -> None:
        """Go to the end and stay there: the user has said something."""
        self._follows, self._behind = True, False
        self._go_to(self.max_scroll_y)
        self.refresh()

    def _resize_virtual(self) -> None:
        size = Size(self.size.width, self._layout_of.height)
        if size != self.virtual_size:
            # The reactive itself would lay out and draw the whole screen again for each new line.
            self.set_reactive(Transcript.virtual_size, size)
            self._scroll_update(size)
        if self._follows:
            self._go_to(self.max_scroll_y)

    def _go_to(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    def _settle(self) -> None:
        """Draw what is in view; where an estimated height was wrong, what is read stays where it is."""
        if self._settling or not self._blocks:
            return
        self._settling = True
        try:
            top = self.scroll_offset.y
            grown = self._layout_of.settle(top, top + self.size.height)
            self._resize_virtual()
            if grown and not self._follows:
                self._go_to(top + grown)
        finally:
            self._settling = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._settling:
            self._follows = round(new_value) >= self.max_scroll_y
            self._behind = self._behind and not self._follows
            self._settle()

    def on_resize(self, event: events.Resize) -> None:
        self.show(self._blocks)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette.clear()
        self._layout_of.forget()
        if self.is_mounted:
            self.show(self._blocks)

    def _style(self, role: str, fill: str) -> Style:
        found = self._palette.get((role, fill))
        if found is None:
            base = self._component(fill)
            found = base
            if role:
                style = self._component(role)
                found = style if not fill else style + Style(bgcolor=base.bgcolor)
            self._palette[(role, fill)] = found
        return found

    def _component(self, role: str) -> Style:
        return self.get_component_rich_style(f"transcript--{role}") if role in ROLES else self.rich_style

    def render_lines(self, crop: Region) -> list[Strip]:
        """As Textual does it, without the strips that it makes anew for borders and padding, which are not here."""
        if self.styles.gutter or self.opacity < 1:
            return super().render_lines(crop)
        background, filters = self.background_colors[1], self.get_line_filters()
        strips = []
        for y in crop.line_range:
            strip = self.render_line(y)
            for each in filters:
                strip = strip.apply_filter(each, background)
            strips.append(strip)
        first, last = crop.column_span
        return strips if (first, last) == (0, self.size.width) else [strip.crop(first, last) for strip in strips]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        at = self.scroll_offset.y + y
        found = self._layout_of.row_at(at)
        if found is None:
            return Strip.blank(width, self.rich_style)
        index, row = found
        strip = row.strip if row.strip is not None and row.at == at else None
        if strip is None:  # a strip that stays the same object keeps what Textual has worked out for it
            strip = row.strip = placed(self._strip(row.pieces, row.fill, width), at, self.app.console)
            row.at = at
            self._forget_old_strips(row)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(at)) is not None:
            strip = self._strip(self._selected(row, *span), row.fill, width, keep=True)
        elif index == self.cursor and self.has_focus and row.text:
            strip = self._strip([("▌", "cursor"), *part(row.pieces, 1, len(row.text))], row.fill, width)
        if self._behind and y == self.size.height - 1:
            tag = Segment(_BELOW, self._style("below", ""))
            strip = Strip.join([strip.crop(0, width - len(_BELOW)), Strip([tag], len(_BELOW))])
        return strip if strip is row.strip else placed(strip, at, self.app.console)

    def _forget_old_strips(self, newest: Row) -> None:
        self._kept.append(newest)
        if len(self._kept) > STRIPS_KEPT:
            self._kept.popleft().strip = None

    def _strip(self, pieces: Sequence[Piece], fill: str, width: int, *, keep: bool = False) -> Strip:
        segments = [
            Segment(
                text,
                self._selection_style(role, fill) if keep and role.startswith("selected:") else self._style(role, fill),
            )
            for text, role in pieces
            if text
        ]
        return Strip(segments).adjust_cell_length(width, self._style("", fill))

    def _selection_style(self, role: str, fill: str) -> Style:
        chosen = self.screen.get_component_rich_style("screen--selection", partial=True)
        return self._style(role.removeprefix("selected:"), fill) + chosen

    def _selected(self, row: Row, start: int, end: int) -> list[Piece]:
        length = len(row.text)
        low, high = max(start, row.lead), length if end == -1 else min(end, length)
        if low >= high:
            return list(row.pieces)
        middle = [(text, f"selected:{role}") for text, role in part(row.pieces, low, high)]
        return [*part(row.pieces, 0, low), *middle, *part(row.pieces, high, length)]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        start, end = selection.start, selection.end
        first = start.y if start else 0
        last = end.y if end else self._layout_of.height - 1
        rows = self._layout_of.rows_between(first, last)
        if not rows:
            return None
        return logical(rows, start.x if start else 0, end.x if end else None), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        found = self._layout_of.row_at(self.scroll_offset.y + event.y)
        if found is None or self.screen.selections:
            return
        self.cursor = found[0]
        if can_open(self._blocks[self.cursor]) or self._blocks[self.cursor].attachments:
            self.action_toggle_block()
        self.refresh()

    def on_focus(self) -> None:
        self.show(self._blocks)
        if not 0 <= self.cursor < len(self._blocks):
            self.cursor = len(self._blocks) - 1
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _move(self, step: int) -> None:
        if not self._blocks:
            return
        self.show(self._blocks)  # a key may come between an event and the batch that shows it
        self.cursor = min(max(self.cursor + step, 0), len(self._blocks) - 1)
        self._reveal()

    def _reveal(self) -> None:
        top = self._layout_of.top_of(self.cursor)
        bottom = top + len(self._layout_of.rows(self.cursor))
        view, height = self.scroll_offset.y, self.size.height
        if top < view or bottom - top > height:
            self._go_to(top)
        elif bottom > view + height:
            self._go_to(bottom - height)
        self.refresh()

    def action_previous(self) -> None:
        """The block above."""
        self._move(-1)

    def action_next(self) -> None:
        """The block below."""
        self._move(1)

    def action_toggle_block(self) -> None:
        """Open or close the block under the cursor; of one with pictures, look at them."""
        shown = self._blocks[self.cursor].attachments if 0 <= self.cursor < len(self._blocks) else ()
        if shown:
            self.post_message(self.Look(shown))
            return
        if not 0 <= self.cursor < len(self._blocks) or not can_open(self._blocks[self.cursor]):
            return
        key = self._blocks[self.cursor].key
        self._layout_of.opened ^= {key}
        self._layout_of.redraw(self.cursor)
        self._follows = False
        self._resize_virtual()
        self._settle()
        self._reveal()

    def action_copy_block(self) -> None:
        """Copy the block under the cursor, without gutters and wraps."""
        if 0 <= self.cursor < len(self._blocks):
            self.post_message(self.Copied(source(self._blocks[self.cursor])))

    def page(self, step: int) -> None:
        """A screenful up or down, one row of which was seen before."""
        self._go_to(round(self.scroll_y) + step * max(self.size.height - 1, 1))

    def action_page_up(self) -> None:
        self.page(-1)

    def action_page_down(self) -> None:
        self.page(1)

    def action_top(self) -> None:
        """The first block."""
        self._move(-len(self._blocks))

    def action_bottom(self) -> None:
        """The last block; the view follows what is new again."""
        self._move(len(self._blocks))
        self._go_to(self.max_scroll_y)
