"""The conversation: one line-API widget over all blocks, which follows the end unless the user scrolled up."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Static

from core.protocol.messages import Attachment
from tui.block import TranscriptBlock
from tui.chat.block_rows import can_open, copy_text
from tui.chat.greeting import FIRST_KEYS, HEADLINE, KEY_WIDTH, NO_PROMISE, PROMISE
from tui.chat.transcript_layout import TranscriptLayout
from tui.keymap import format_first_key, get_bindings
from tui.text import fit_line
from tui.themes.building import SYNTAX
from tui.widgets.text_rows import Piece, TextRow, apply_offsets, join_logical_text, slice_pieces

_MUTED: Final = "$foreground 60%"
ROLES: Final = (
    *(
        "muted",
        "strong",
        "em",
        "struck",
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
    ),
    *("prompt", "code_block", "cursor", "below", *SYNTAX),
)
MAX_NOTES: Final = 3  # at the start; all of them appear in the conversation once it begins
MAX_NOTE: Final = 300  # characters
SELECTED: Final = "selected:"  # before the role of selected text
CACHED_STRIPS: Final = 200  # some screens of rows: a strip takes ten times the memory of its text
_NEW_BELOW: Final = " ↓ new "


class Transcript(ScrollView, can_focus=True):
    """Renders blocks without interpreting them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{role}" for role in ROLES}
    BINDINGS = get_bindings("transcript")
    BLANK = False

    @dataclass
    class AttachmentsRequested(Message):
        """Requests the attachments of a prompt."""

        shown: tuple[Attachment, ...]

    @dataclass
    class PlaceRequested(Message):
        """Requests to go to the block with this key."""

        target: str

    @dataclass
    class Copied(Message):
        """The user copied `text`."""

        text: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._block_layout = TranscriptLayout()
        self._blocks: Sequence[TranscriptBlock] = ()
        self._palette: dict[tuple[str, str], Style] = {}
        self._cached_rows: deque[TextRow] = deque()
        self._is_following = True
        self._has_new_below = False
        self._is_rendering = self._is_revealing = False
        self._width = 0
        self.cursor = -1

    def show(self, blocks: Sequence[TranscriptBlock]) -> None:
        """Render the changed ones of `blocks`. Another list object is another session."""
        if blocks is not self._blocks:
            self.cursor, self._is_following, self._has_new_below = -1, True, False
        self._blocks = blocks
        width = self.scrollable_content_region.width or self.size.width
        if not width:
            return
        before = self._block_layout.height
        self._block_layout.sync(blocks, width)
        is_longer = width == self._width and self._block_layout.height > before
        self._has_new_below, self._width = self._has_new_below or (not self._is_following and is_longer), width
        dirty, scroll_y = self._block_layout.first_changed_row, self.scroll_offset.y
        self._resize_virtual()
        if self._is_revealing:
            self._is_revealing = False
            self._jump_to(self._block_layout.get_top(self.cursor))
        self._render_visible()
        if self._has_new_below or not before or self.scroll_offset.y != scroll_y:
            self.refresh()
        else:
            last = max(before, self._block_layout.height, scroll_y + self.size.height)
            self.refresh_lines(dirty, last - dirty)

    def follow_end(self) -> None:
        self._is_following, self._has_new_below = True, False
        self._jump_to(self.max_scroll_y)
        self.refresh()

    def _resize_virtual(self) -> None:
        size = Size(self.size.width, self._block_layout.height)
        if size != self.virtual_size:
            # The reactive itself would lay out and draw the whole screen for every new line.
            self.set_reactive(Transcript.virtual_size, size)
            self._scroll_update(size)
        if self._is_following:
            self._jump_to(self.max_scroll_y)

    def _jump_to(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    def _render_visible(self) -> None:
        """Render the visible blocks; where an estimated height was wrong, the text in view does not move."""
        if self._is_rendering or not self._blocks:
            return
        self._is_rendering = True
        try:
            top = self.scroll_offset.y
            growth = self._block_layout.render_range(top, top + self.size.height)
            self._resize_virtual()
            if growth and not self._is_following:
                self._jump_to(top + growth)
        finally:
            self._is_rendering = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_rendering:
            self._is_following = round(new_value) >= self.max_scroll_y
            self._has_new_below = self._has_new_below and not self._is_following
            self._render_visible()

    def on_resize(self, event: events.Resize) -> None:
        self.show(self._blocks)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette.clear()
        self._block_layout.clear()
        if self.is_mounted:
            self.show(self._blocks)

    def _resolve_role(self, role: str, fill: str) -> Style:
        if (cached_style := self._palette.get((role, fill))) is not None:
            return cached_style
        base, name = self._resolve_component(fill), role.removeprefix(SELECTED)
        style = self._resolve_component(name) if name else base
        if name and fill:
            style += Style(bgcolor=base.bgcolor)
        if role.startswith(SELECTED):
            style += self.screen.get_component_rich_style("screen--selection", partial=True)
        self._palette[role, fill] = style
        return style

    def _resolve_component(self, role: str) -> Style:
        return self.get_component_rich_style(f"transcript--{role}") if role in ROLES else self.rich_style

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render as Textual does, without the strips for borders and padding, which are absent here."""
        if self.styles.gutter or self.opacity < 1:
            return super().render_lines(crop)
        background, filters = self.background_colors[1], self.get_line_filters()
        strips = []
        for y in crop.line_range:
            strip = self.render_line(y)
            for line_filter in filters:
                strip = strip.apply_filter(line_filter, background)
            strips.append(strip)
        first, last = crop.column_span
        return strips if (first, last) == (0, self.size.width) else [strip.crop(first, last) for strip in strips]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        row_index = self.scroll_offset.y + y
        location = self._block_layout.find_row(row_index)
        if location is None:
            return Strip.blank(width, self.rich_style)
        index, row = location
        strip = row.strip if row.strip is not None and row.at == row_index else None
        if strip is None:  # Textual caches its results for a strip by identity
            strip = row.strip = apply_offsets(
                self._build_strip(row.pieces, row.fill, width), row_index, self.app.console
            )
            row.at = row_index
            self._drop_old_strips(row)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(row_index)) is not None:
            strip = self._build_strip(self._mark_selection(row, *span), row.fill, width)
        elif index == self.cursor and self.has_focus and row.text:
            strip = self._build_strip([("▌", "cursor"), *slice_pieces(row.pieces, 1, len(row.text))], row.fill, width)
        if self._has_new_below and y == self.size.height - 1:
            tag = Segment(_NEW_BELOW, self._resolve_role("below", ""))
            strip = Strip.join([strip.crop(0, width - len(_NEW_BELOW)), Strip([tag], len(_NEW_BELOW))])
        return strip if strip is row.strip else apply_offsets(strip, row_index, self.app.console)

    def _drop_old_strips(self, newest: TextRow) -> None:
        self._cached_rows.append(newest)
        if len(self._cached_rows) > CACHED_STRIPS:
            self._cached_rows.popleft().strip = None

    def _build_strip(self, pieces: Sequence[Piece], fill: str, width: int) -> Strip:
        segments = [Segment(text, self._resolve_role(role, fill)) for text, role in pieces if text]
        return Strip(segments).adjust_cell_length(width, self._resolve_role("", fill))

    def _mark_selection(self, row: TextRow, start: int, end: int) -> list[Piece]:
        length = len(row.text)
        low, high = max(start, row.lead), length if end == -1 else min(end, length)
        if low >= high:
            return list(row.pieces)
        middle = [(text, f"{SELECTED}{role}") for text, role in slice_pieces(row.pieces, low, high)]
        return [*slice_pieces(row.pieces, 0, low), *middle, *slice_pieces(row.pieces, high, length)]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        start, end = selection.start, selection.end
        last = end.y if end else self._block_layout.height - 1
        rows = self._block_layout.slice_rows(start.y if start else 0, last)
        if not rows:
            return None
        return join_logical_text(rows, start.x if start else 0, end.x if end else None), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        self.show(self._blocks)
        location = self._block_layout.find_row(self.scroll_offset.y + event.y)
        if location is None or self.screen.selections:
            return
        self.cursor = location[0]
        block = self._blocks[self.cursor]
        if can_open(block) or block.attachments or block.target:
            self.action_toggle_block()
        self.refresh()

    def on_focus(self) -> None:
        self.show(self._blocks)
        if not 0 <= self.cursor < len(self._blocks):
            self.cursor = len(self._blocks) - 1
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def action_move(self, step: int) -> None:
        if not self._blocks:
            return
        self.show(self._blocks)  # a key may come between an event and the batch that shows it
        self.cursor = min(max(self.cursor + step, 0), len(self._blocks) - 1)
        self._reveal_block()

    def _reveal_block(self) -> None:
        top = self._block_layout.get_top(self.cursor)
        bottom = top + len(self._block_layout.render_rows(self.cursor))
        view, height = self.scroll_offset.y, self.size.height
        if top < view or bottom - top > height:
            self._jump_to(top)
        elif bottom > view + height:
            self._jump_to(bottom - height)
        self.refresh()

    def reveal(self, target: str) -> bool:
        """Scroll to the block of a document, or the first one of a turn, by its id. Return False if there is none."""
        block_index = next((index for index, block in enumerate(self._blocks) if block.has_key(target)), -1)
        if block_index < 0:
            return False
        self.cursor, self._is_following, self._is_revealing = block_index, False, True
        self.show(self._blocks)
        self.call_after_refresh(self.focus)
        return True

    def action_toggle_block(self) -> None:
        """Open or close the block; show the pictures of one that has any, go to the one that it is about."""
        block = self.current_block
        if block is not None and block.attachments:
            self.post_message(self.AttachmentsRequested(block.attachments))
            return
        if block is not None and block.target:
            self.post_message(self.PlaceRequested(block.target))
            return
        if block is None or not can_open(block):
            return
        self._block_layout.opened_keys ^= {block.key}
        self._block_layout.rerender(self.cursor)
        self._is_following = False
        self._resize_virtual()
        self._render_visible()
        self._reveal_block()

    @property
    def current_block(self) -> TranscriptBlock | None:
        """The block that is marked."""
        return self._blocks[self.cursor] if 0 <= self.cursor < len(self._blocks) else None

    @property
    def current_text(self) -> str:
        """The plain text of the marked block, with the whole output of its command."""
        block = self.current_block
        return f"{block.output}\n{copy_text(block)}" if block is not None else ""

    def action_copy_block(self) -> None:
        if 0 <= self.cursor < len(self._blocks):
            self.post_message(self.Copied(copy_text(self._blocks[self.cursor])))

    def scroll_page(self, step: int) -> None:
        """Scroll a screenful less one row; `step` 1 = down, -1 = up."""
        self._jump_to(round(self.scroll_y) + step * max(self.size.height - 1, 1))

    def action_page_up(self) -> None:
        self.scroll_page(-1)

    def action_page_down(self) -> None:
        self.scroll_page(1)

    def action_top(self) -> None:
        self.action_move(-len(self._blocks))

    def action_bottom(self) -> None:
        self.action_move(len(self._blocks))
        self._jump_to(self.max_scroll_y)


class Greeting(Static):
    """A stateless greeting until the first prompt."""

    def show(self, keymap: Mapping[str, str], notes: Sequence[str] = (), *, accepts_at_once: bool = False) -> None:
        """Render with the user's keys, and with up to `MAX_NOTES` notices of the start. `accepts_at_once`: no review
        comes between the agent and the files."""
        promise = (NO_PROMISE, "$text-warning") if accepts_at_once else (PROMISE, _MUTED)
        parts = [(f"{HEADLINE}\n", "bold"), (f"{promise[0]}\n", promise[1])]
        note_lines = [fit_line(note, MAX_NOTE) for note in notes[:MAX_NOTES]]
        further = [f"and {len(notes) - MAX_NOTES} more"] if len(notes) > MAX_NOTES else []
        parts += [*((f"{note}\n", "$text-warning") for note in (*note_lines, *further)), ("\n", "")]
        for key_id, key, label in FIRST_KEYS:
            key_text = format_first_key(key_id, keymap) if key_id else key
            parts += [(f"{key_text:<{KEY_WIDTH}}", "$accent"), (f"{label}\n", _MUTED)]
        self.update(Content.assemble(*parts))
