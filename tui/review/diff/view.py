"""The view of the diff pages as one scrolled column of rows, and the loader of their lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic
from typing import Final, Literal, NamedTuple

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from core.protocol.review import ChangeDiff
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.review.diff.layout import CONTEXT_ABOVE, DiffRow, find_matching_hunk
from tui.review.diff.page import DiffPage
from tui.review.diff.painter import DiffPainter
from tui.text import render_prose
from tui.widgets.code_view import CodeView
from tui.widgets.key_hints import Hint, HintsChanged
from tui.workers import start_worker

SPLIT_WIDTH: Final = 100
CONFLICT_HINTS: Final[tuple[Hint, ...]] = tuple(
    (f"review.{key}", word or key)
    for key, word in (
        ("settle", "resolve"),
        ("reject", ""),
        ("reason", "why"),
        ("next", ""),
        ("undo", ""),
        ("list", ""),
    )
)


class ViewPlace(NamedTuple):
    """Something of a page that must not move, and its row on screen: a hunk's head, `line` of the diff (its numbers on
    both sides) at a character of it, or else a row."""

    page: DiffPage
    top: int
    hunk: int = -1
    line: tuple[int, int] | None = None
    character: int = 0
    row: int = 0


LoadLines = Callable[[str, int], Awaitable[ChangeDiff | None]]
MAX_CONTEXT: Final = 200  # lines around a hunk, where few changes leave much room


class DiffView(CodeView):
    """Shows `pages`. The cursor is on hunk `current` of page `at`; -1: there is none, as for the marked line."""

    shifts_all = False  # True if all lines scroll sideways, where the cursor does not move

    DEFAULT_CSS = "DiffView { scrollbar-size-horizontal: 0; }"

    BINDINGS = [*get_bindings("lines"), *get_bindings("review", names={"review.wrap"})]  # noqa: RUF012

    @dataclass
    class ButtonClicked(Message):
        """A button of the current hunk was clicked."""

        button: Literal["accept", "reject", "settle"]

    @dataclass
    class ProofClicked(Message):
        """The check of a file was clicked."""

        path: str

    @dataclass
    class CursorMoved(Message):
        """A hunk of another file was clicked."""

        path: str

    class LinesRequested(Message):
        """Files with unloaded lines are in view."""

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(clock=clock, id=id)
        self.pages: list[DiffPage] = []
        self._tops: list[int] = [0]  # the first row of every page, and the end of the last one
        self.at, self.current, self.marked_index = 0, -1, -1
        self.is_split_wanted, self.is_wrapped = False, True
        self._text, self._final_hints = "", tuple[Hint, ...]()
        self._laid_out_for = Size(0, 0)
        self.has_long_lines = False  # True if a changed line is wider than the view
        self._places_by_size: dict[Size, ViewPlace | None] = {}  # before the last resizes
        self._rest_position: tuple[object, ...] | None = ()  # after the last one, None = not yet
        self._shifted = ("", "")  # the path and the hunk that scroll sideways
        self._shifted_lines: tuple[object, range] = (None, range(0))
        self.painter = DiffPainter(self)

    # Content

    @property
    def page(self) -> DiffPage | None:
        """The file with the cursor."""
        return self.pages[self.at] if self.at < len(self.pages) else None

    @property
    def diff(self) -> ChangeDiff | None:
        """The lines of the file with the cursor, None as long as they are not loaded."""
        return self.page.diff if self.page is not None else None

    @property
    def hints(self) -> tuple[Hint, ...]:
        if not self.pages:
            return self._final_hints
        diff = self.diff
        return CONFLICT_HINTS if diff is not None and diff.change.is_conflicted_at(self.current) else ()

    @property
    def is_split(self) -> bool:
        return self.is_split_wanted and self.size.width >= SPLIT_WIDTH

    def show_message(self, text: str, *, hints: Sequence[Hint] = ()) -> None:
        """Show a message instead of files, with the keys that help."""
        self.pages, self._tops, self.at, self.current = [], [0], 0, -1
        self._text, self._final_hints = text, tuple(hints)
        self.post_message(HintsChanged())
        self.virtual_size = Size(0, 0)
        self.scroll_to(0, 0, animate=False, force=True)
        self.redraw()

    def show(self, diff: ChangeDiff, current: int = 0) -> None:
        """Show one file alone, with the cursor on hunk `current`."""
        page = DiffPage(diff.change.path, diff.change, has_header=False)
        page.set_diff(diff)
        self.show_pages([page], 0, current)

    def show_pages(self, pages: list[DiffPage], index: int, current: int | None = None) -> None:
        """Show files, with the cursor on hunk `current` of one; None = at its old hunk or position."""
        position, before = self._find_anchor(), self.page
        self.pages, self._text = pages, ""
        self.at = max(min(index, len(pages) - 1), 0)
        page = self.page
        if current is not None or page is not before or page is None:
            self.current = min(current or 0, len(page.hunks) - 1) if page is not None else -1
            self.marked_index = -1
        self.current = min(self.current, len(page.hunks) - 1) if page is not None else -1
        self.lay_out()
        if position is not None and position.page in pages:
            self._restore(position)
        else:
            self.scroll_to(0, 0, animate=False, force=True)
        if page is not before or current is not None:
            self.reveal_current()
        self.post_message(HintsChanged())

    def set_lines(self, page: DiffPage, diff: ChangeDiff) -> None:
        """Set the loaded lines of a file without moving the lines in view."""
        is_new, hunks, position = page.diff is None, page.hunks, self._find_anchor()
        page.set_diff(diff)
        if page is self.page:
            self.current = find_matching_hunk(hunks, self.current, page.hunks)
            ids = [hunk.id for hunk in page.hunks]
            if page.goal in ids:
                self.current, is_new = ids.index(page.goal), True
            page.goal = ""
            self.marked_index = -1
            self.post_message(HintsChanged())
        self.lay_out([page])
        self._restore(position)
        if page is self.page:
            head = page.find_hunk_rows(self.current)
            if is_new or head is None or not self._is_in_sight(head):
                self.reveal_current()

    def lay_out(self, pages: Sequence[DiffPage] | None = None) -> None:
        """Lay out these files, or all of them, for the width there is now."""
        self.painter.is_split, self._laid_out_for = self.is_split, self.size
        for page in self.pages if pages is None else pages:
            gutter = self.painter.measure_gutter(page)
            room = max(self.size.width - gutter - 1, 0)  # with or without a scrollbar
            column = (self.size.width - 1 - self.is_split) // (1 + self.is_split) - gutter
            page.lay_out(room, is_split=self.is_split, code_room=max(column, 2) if self._is_wrapping else 0)
            page.has_long_lines = page.widest_changed > column
        self._tops = [*accumulate((page.height for page in self.pages), initial=0)]
        self._end_shift()
        if self.has_long_lines != any(page.has_long_lines for page in self.pages):
            self.has_long_lines = not self.has_long_lines
            self.post_message(HintsChanged())
        widest = max((page.width + self.painter.measure_gutter(page) for page in self.pages), default=0)
        beyond = widest + 1 - self.painter.get_column_width()
        self.virtual_size = Size(self.size.width + beyond if beyond > 0 else 0, self._tops[-1])
        self.redraw()

    def lay_out_again(self, pages: Sequence[DiffPage] | None = None) -> None:
        """Lay out changed pages without moving the lines in view. A comment below the current hunk is scrolled into
        view with it, and stays there at the next change of the size."""
        self._places_by_size.clear()
        self._lay_out_in_place(pages)

    def _lay_out_in_place(self, pages: Sequence[DiffPage] | None = None) -> None:
        position, was_in_sight = self._find_anchor(), self._is_current_in_sight()
        self.lay_out(pages)
        self._restore(position)
        if was_in_sight and not self._is_current_in_sight():
            self.reveal_current()

    def set_split(self, is_unloaded: bool) -> None:
        self.is_split_wanted = is_unloaded
        self.lay_out_again()

    # Sideways

    @property
    def shifted_lines(self) -> range:
        """The lines of the page with the cursor that scroll sideways: those of the current hunk and around it."""
        page = self.page
        if page is None or self.current < 0 or self.shifts_all:
            return range(len(page.lines) if page is not None else 0)
        key = (id(page.lines), self.current)
        if self._shifted_lines[0] != key:
            self._shifted_lines = (key, page.find_lines_around(self.current))
        return self._shifted_lines[1]

    @property
    def max_scroll_x(self) -> int:
        page = self.page
        if page is None:
            return 0
        beyond = page.measure_lines(self.shifted_lines) + self.painter.measure_gutter(page) + 1
        return max(beyond - self.painter.get_column_width(), 0)

    def _end_shift(self) -> None:
        """Scroll back to the start of the lines if another hunk is current."""
        page = self.page
        is_hunk = page is not None and 0 <= self.current < len(page.hunks)
        place = (page.path, page.hunks[self.current].id) if page is not None and is_hunk else ("", "")
        if place != self._shifted:
            self._shifted = place
            self.scroll_to(x=0, animate=False, force=True)

    @property
    def _is_wrapping(self) -> bool:
        return self.is_wrapped and self.size.width > 0

    def action_toggle_wrap(self) -> None:
        self.is_wrapped = not self.is_wrapped
        self.scroll_to(x=0, animate=False)
        self.lay_out_again()

    # Positions

    def find_page(self, row: int) -> tuple[DiffPage, int]:
        """Return the page of a row, and the index of the row in it."""
        index = min(max(bisect_right(self._tops, row) - 1, 0), len(self.pages) - 1)
        return self.pages[index], row - self._tops[index]

    def find_hunk_rows(self, hunk: int) -> tuple[int, int]:
        """Return the first row of a hunk of the file with the cursor, and the one after its last; of the whole file as
        long as its lines are not loaded."""
        page, top = self.pages[self.at], self._tops[self.at]
        first, last = page.find_hunk_rows(hunk) or (0, page.height)
        return top + first, top + last

    def _find_anchor(self) -> ViewPlace | None:
        """Return what must not move: the head of the current hunk if it is in sight, else the top row."""
        if not self.pages:
            return None
        top = self.scroll_offset.y
        if self.current >= 0 and self.diff is not None:
            page, rows = self.pages[self.at], self.find_hunk_rows(self.current)
            if top <= rows[0] < top + self.size.height:
                return ViewPlace(page, rows[0] - top, hunk=self.current)
        page, row = self.find_page(top)
        diff_row = page.get_row(row) if row < page.height else DiffRow("rest")
        line = max(diff_row.left, diff_row.right)
        if diff_row.kind != "line" or not (page.lines[line].old or page.lines[line].new):
            return ViewPlace(page, 0, row=row)
        numbers, span = (page.lines[line].old, page.lines[line].new), page.find_part(line, diff_row.part)
        return ViewPlace(page, 0, line=numbers, character=span[0] if span is not None else 0, row=row)

    def _restore(self, position: ViewPlace | None) -> None:
        if position is None or position.page not in self.pages:
            return
        page = position.page
        row = min(position.row, page.height)
        if position.hunk >= 0:
            hunk_rows = page.find_hunk_rows(self.current if page is self.page else position.hunk)
            row = hunk_rows[0] if hunk_rows is not None else 0
        elif position.line is not None and (line := page.find_line(position.line)) >= 0:
            row = page.find_line_row(line) + page.find_part_at(line, position.character)
        self.scroll_to(y=self._tops[self.pages.index(page)] + row - position.top, animate=False, force=True)

    def list_visible_pages(self) -> list[DiffPage]:
        """Return the files of which something is in sight, or will be with the next screenful."""
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        last = min(bisect_right(self._tops, top + 2 * height), len(self.pages))
        return self.pages[max(bisect_right(self._tops, top - height) - 1, 0) : last]

    def list_visible_targets(self, top: int, height: int) -> list[tuple[str, ...]]:
        targets: list[tuple[str, ...]] = []
        first = top + self._is_header_sticky(top)
        for index in range(max(bisect_right(self._tops, top) - 1, 0), len(self.pages)):
            if self._tops[index] >= top + height:
                break
            visible_rows = range(first - self._tops[index], top + height - self._tops[index])
            targets += self.pages[index].list_targets(self.current if index == self.at else -1, visible_rows)
        return targets

    # The cursor

    def select_hunk(self, index: int, page_index: int | None = None) -> None:
        """Move the cursor to a hunk, of page `page_index` or the current one; -1: the last."""
        target = self.at if page_index is None else page_index
        hunks = self.pages[target].hunks if target < len(self.pages) else ()
        if target < len(self.pages) and (not hunks or -1 <= index < len(hunks)):
            self.at, self.marked_index = target, -1
            self.current = len(hunks) - 1 if index < 0 or not hunks else index
            self._end_shift()
            self.post_message(HintsChanged())
            self.redraw()
            self.reveal_current()

    def move_line_mark(self, step: int) -> None:
        """Move the mark for a split within the current hunk by `step` lines."""
        page = self.page
        own_indices = (
            [index for index, line in enumerate(page.lines) if line.hunk == self.current >= 0]
            if page is not None
            else []
        )
        if page is not None and own_indices:
            position = (
                own_indices.index(self.marked_index) + step
                if self.marked_index in own_indices
                else (0 if step > 0 else len(own_indices) - 1)
            )
            self.marked_index = own_indices[max(min(position, len(own_indices) - 1), 0)]
            row = self._tops[self.at] + page.find_line_row(self.marked_index)
            self.reveal_rows(row - 1, row)
            self.redraw()

    @property
    def marked_line(self) -> int:
        """The marked line of the hunk, from 1 on its side; 0 = none."""
        if self.page is None or self.marked_index < 0 or self.current < 0:
            return 0
        line, hunk = self.page.lines[self.marked_index], self.page.hunks[self.current]
        return line.new - hunk.new_start + 1 if line.new else line.old - hunk.old_start + 1

    def reveal_current(self) -> None:
        """Scroll as little as needed to show the current hunk, or its top if it is taller than the view."""
        if self.page is None or not self.size.height:
            return
        head, tail = self.find_hunk_rows(self.current)
        if self.current == 0:
            head = self._tops[self.at]  # with the header, and with the context above the hunk if there is room
            if tail - head > self.size.height:
                head = self.find_hunk_rows(0)[0]
        height, top = self.size.height, self.scroll_offset.y
        above = max(min(CONTEXT_ABOVE, height // 4), 1) if head > self._tops[self.at] else 0  # one is the header's
        if not self._is_in_sight((head, tail)):
            fits = tail - head + above <= height
            target = head - above if head < top + 1 or not fits else max(tail - height + 1, 0)
            self.scroll_to(y=target, animate=False, force=True)

    def _is_current_in_sight(self) -> bool:
        return self.page is not None and self._is_in_sight(self.find_hunk_rows(self.current))

    def _is_in_sight(self, rows: tuple[int, int]) -> bool:
        top = self.scroll_offset.y
        return top + self._is_header_sticky(top) <= rows[0] and rows[1] <= top + self.size.height

    # Drawing

    def _is_header_sticky(self, top: int) -> bool:
        """True if a file's header sticks to the top of the view, over its lines."""
        if not self.pages:
            return False
        page, row = self.find_page(top)
        return page.has_header_above(row)

    def count_rows(self) -> int:
        return self._tops[-1] if self.pages else self.size.height

    def _get_shown(self, row: int) -> tuple[DiffPage, DiffRow]:
        page, page_row = self.find_page(row)
        return page, page.get_row(page_row)

    def is_row_copied(self, row: int) -> bool:
        return bool(self.pages) and self._get_shown(row)[1].kind == "line"

    def get_row_text(self, row: int) -> str:
        if row >= self._tops[-1]:
            return ""
        text, start = self.find_source(row)
        page, diff_row = self._get_shown(row)
        part = page.find_part(max(diff_row.left, diff_row.right), diff_row.part) if diff_row.kind == "line" else None
        return text[start:] if part is None else text[slice(*part)]

    def find_source(self, row: int) -> tuple[str, int]:
        page, diff_row = self._get_shown(row)
        index = diff_row.right if diff_row.right >= 0 else diff_row.left
        if index < 0:
            return diff_row.text, 0
        part = page.find_part(index, diff_row.part)
        return page.lines[index].text, part[0] if part is not None else 0

    def render_line(self, y: int) -> Strip:
        if y == 0 and self._is_header_sticky(self.scroll_offset.y):
            page, _ = self.find_page(self.scroll_offset.y)
            self._prepare(page)
            strip = self.painter.draw_header(page, self.row_width)
            strip = strip.adjust_cell_length(self.size.width, self.visual_style.rich_style)
            return self.mark_as_gutter(strip, self.scroll_offset.y)
        return super().render_line(y)

    def _prepare(self, page: DiffPage) -> None:
        is_here = page is self.page
        self.painter.current = self.current if is_here else -1
        self.painter.marked = self.marked_index if is_here else -1

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self.pages:
            return self.render_message(self._text, row, width)
        page, diff_row = self._get_shown(row)
        self._prepare(page)
        line = max(diff_row.left, diff_row.right)
        is_still = page is not self.page or line not in self.shifted_lines or (self._is_wrapping and diff_row.hunk >= 0)
        return self.painter.draw(page, diff_row, row, width, 0 if is_still else shift)

    def get_line_width(self) -> int:
        gutter = self.painter.measure_gutter(self.page) if self.page is not None else 0
        return max(self.painter.get_column_width() - gutter, 1)

    # Events

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if any(page.is_unloaded for page in self.list_visible_pages()):
            self.post_message(self.LinesRequested())

    def on_resize(self, event: events.Resize) -> None:
        if self._rest_position is not None and self._describe_position() != self._rest_position:
            self._places_by_size.clear()
        self._rest_position = None
        self._places_by_size.setdefault(self._laid_out_for, self._find_anchor())
        self._lay_out_in_place()
        if event.size in self._places_by_size:  # the size of before, and nothing has moved since
            self._restore(self._places_by_size[event.size])
        elif not self._is_reading_tall_hunk():
            self.reveal_current()
        self.call_after_refresh(self._note_rest)
        self.post_message(self.LinesRequested())

    def _note_rest(self) -> None:
        self._rest_position = self._describe_position()

    def _describe_position(self) -> tuple[object, ...]:
        return self.scroll_offset.y, self.at, self.current, self._tops[-1]

    def _is_reading_tall_hunk(self) -> bool:
        """True if a hunk taller than the view is being read; its end stays visible when the view gets lower."""
        if self.page is None or self.current < 0:
            return False
        head, tail = self.find_hunk_rows(self.current)
        height, top = max(self.size.height, 1), self.scroll_offset.y
        if tail - head <= height or not head < top < tail:
            return False
        if tail <= top + height + CONTEXT_ABOVE:
            self.scroll_to(y=tail - height, animate=False, force=True)
        return True

    def on_mount(self) -> None:
        self.painter.is_bright = self.has_focus or not self.can_focus

    def on_focus(self) -> None:
        self._set_bright(True)

    def on_blur(self) -> None:
        self._set_bright(False)

    def _set_bright(self, is_bright: bool) -> None:
        self.painter.is_bright = is_bright
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        meta = event.style.meta
        if button := meta.get("button"):
            self.post_message(self.ButtonClicked(button))
            return
        row = event.y + self.scroll_offset.y
        if not self.pages or not 0 <= row < self._tops[-1]:
            return
        page, diff_row = self._get_shown(row)
        if proof := meta.get("proof"):
            self.post_message(self.ProofClicked(proof))
        elif diff_row.kind == "file" or (event.y == 0 and self._is_header_sticky(row)):
            self.select_hunk(0, self.pages.index(page))
            self.post_message(self.CursorMoved(page.path))
        elif diff_row.hunk >= 0 and (diff_row.hunk, page) != (self.current, self.page):
            self.select_hunk(diff_row.hunk, self.pages.index(page))
            self.post_message(self.CursorMoved(page.path))
        elif diff_row.hunk >= 0 and diff_row.kind == "line":
            self.marked_index = diff_row.right if diff_row.right >= 0 else diff_row.left
            self.redraw()


class PageLoader:
    """Loads the lines of one view, one file after the other. `load(path, context)` returns a change with its lines;
    None = nothing is pending there, which shows `missing_text`. `on_loaded` is called with every loaded page."""

    def __init__(self, load: LoadLines, *, missing_text: str, on_loaded: Callable[[DiffPage], None]) -> None:
        self.load = load
        self._missing_text, self._note_loaded = missing_text, on_loaded
        self._is_running = False
        self._filled_rows = -1  # the height of all files when more context was asked for

    def start(self, view: DiffView) -> None:
        if not self._is_running and self._find_unloaded(view) is not None:
            self._is_running = True
            _ = start_worker(view, self._run, view, group="review.load", exit_on_error=False)

    async def _run(self, view: DiffView) -> None:
        try:
            while (page := self._find_unloaded(view)) is not None:
                await self._load_page(view, page)
        finally:
            self._is_running = False

    async def _load_page(self, view: DiffView, page: DiffPage) -> None:
        requested_change = page.change
        try:
            diff = await self.load(page.path, page.context)
        except Exception as error:  # any error appears in place of the lines
            page.problem = f"Can't show this change\n\n{render_prose(str(error))}"
            view.lay_out_again([page])
            return
        if page.change != requested_change and (diff is None or diff.change != page.change):
            return  # it changed while it was being loaded
        if diff is not None:
            view.set_lines(page, diff)
        else:
            page.problem = insert_keys(self._missing_text, get_keymap(view.app))
            view.lay_out_again([page])
        self._note_loaded(page)

    def _find_unloaded(self, view: DiffView) -> DiffPage | None:
        if not view.is_attached or not view.pages:
            return None
        seen_pages = view.list_visible_pages()
        candidates = seen_pages if view.page is None else [view.page, *seen_pages]
        next_page = next((page for page in candidates if page.is_unloaded), None)
        if next_page is None and self._fill_view(view):
            return next((page for page in view.pages if page.is_unloaded), None)
        return next_page

    def _fill_view(self, view: DiffView) -> bool:
        """Ask for more context where all files together leave room, as long as that makes them longer. True if so."""
        rows = view.count_rows()
        pages = [page for page in view.pages if page.diff is not None and not page.problem]
        extra_context = (view.size.height - rows) // max(2 * sum(len(page.hunks) for page in pages), 1)
        if not pages or extra_context <= 0 or rows == self._filled_rows:
            return False
        self._filled_rows = rows
        for page in pages:
            page.context = min(page.context + extra_context, MAX_CONTEXT)
        return True
