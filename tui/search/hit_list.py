"""A list of hits in the project with their file, line, symbol and text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style

from core.patterns import compile_lazily
from core.protocol.queries import SearchHit
from tui.keymap import get_bindings
from tui.text import expose_text, fit_line, shorten_lines, shorten_path
from tui.widgets.row_view import CursorView, Mark
from tui.widgets.text_rows import Piece, measure_pieces

LOW: Final = 8  # rows of the list below which a hit has one row
NARROW: Final = 72  # columns below which a hit is abbreviated
MAX_LINE_LENGTH: Final = 1_000
FOUND_STYLE: Final = "bold underline"
MUTED: Final = "$foreground 55%"
_WORD: Final = compile_lazily(r"\w+")


@lru_cache(maxsize=4)
def compile_words(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the words of a query, the whole query first; None: it has no words."""
    words = {query.strip(), *(word for word in _WORD.findall(query) if len(word) > 1)} - {""}
    expression = "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
    return re.compile(expression, re.IGNORECASE) if expression else None


def find_line(hit: SearchHit, query: str) -> tuple[int, str]:
    """Return number and text of the hit's line with most words of the query, or the first non-blank line."""
    words, lines = compile_words(query), hit.text.split("\n")

    def count_words(index: int) -> int:
        return len({word.lower() for word in words.findall(lines[index])}) if words is not None else 0

    best = max(range(len(lines)), key=lambda index: (count_words(index), bool(lines[index].strip()), -index))
    return hit.start + best, lines[best]


class HitList(CursorView):
    """Shows hits, best first. `query` is the text of the search."""

    BINDINGS = get_bindings("code")

    class Highlighted(Message):
        """The cursor moved to another hit, or the list is empty."""

    class Opened(Message):
        """Requests to open the current hit."""

    def __init__(self) -> None:
        super().__init__()
        self.hits: Sequence[SearchHit] = ()
        self._related_from: int | None = None
        self._query, self._message = "", ""
        self._lines: list[tuple[int, str]] = []

    def show(
        self,
        hits: Sequence[SearchHit],
        query: str,
        *,
        related_from: int | None = None,
        message: str = "",
        keeps_place: bool = False,
    ) -> None:
        """Show hits with the cursor on the first, or on the same one as before; `message` replaces an empty list. A
        rule precedes the hit `related_from`, the first of those that are only related."""
        before = self.current_hit
        self._related_from = related_from if related_from is not None and related_from < len(hits) else None
        self.hits, self._query, self._message = hits, query, message
        self._lines = [find_line(hit, query) for hit in hits]
        same = [
            index for index, hit in enumerate(hits) if before and (hit.path, hit.start) == (before.path, before.start)
        ]
        self._set_size()
        self.move_to(same[0] if same and keeps_place else 0)

    @property
    def current_hit(self) -> SearchHit | None:
        return self.hits[self.cursor] if self.cursor < len(self.hits) else None

    @property
    def current_line(self) -> int:
        """The line of the current hit, from 1."""
        return self._lines[self.cursor][0] if self.cursor < len(self._lines) else 0

    @property
    def _height(self) -> int:
        """Rows per hit."""
        return 1 if self.size.height < LOW else 2

    def _set_size(self) -> None:
        self.virtual_size = Size(0, self._first_row(len(self.hits)))

    def _first_row(self, index: int) -> int:
        """Return the first row of a hit."""
        is_behind_rule = self._related_from is not None and index >= self._related_from
        return index * self._height + is_behind_rule

    def _locate(self, row: int) -> tuple[int, int]:
        """Return the hit of a row, and the index of the row in it; -1 = the rule before it."""
        rule = self._related_from
        if rule is None or row < rule * self._height:
            return divmod(row, self._height)
        return (rule, -1) if row == rule * self._height else divmod(row - 1, self._height)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._set_size()
        self.move_to(self.cursor)

    def count_rows(self) -> int:
        return self._first_row(len(self.hits)) or self.size.height

    def move_to(self, index: int) -> None:
        self.cursor = max(min(index, len(self.hits) - 1), 0)
        first = self._first_row(self.cursor)
        self.reveal_rows(first - (self.cursor == self._related_from), first + self._height - 1)
        self.redraw()
        self.post_message(self.Highlighted())

    def action_page(self, step: int) -> None:
        self.action_move(step * max(self.size.height // self._height - 1, 1))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index, below = self._locate(offset.y + self.scroll_offset.y) if offset is not None else (len(self.hits), 0)
        if index < len(self.hits) and below >= 0:
            was_here = index == self.cursor
            self.move_to(index)
            if was_here:
                self.post_message(self.Opened())

    # Drawing

    def get_row_text(self, row: int) -> str:
        index, below = self._locate(row)
        if index >= len(self.hits) or below < 0:
            return ""
        return self._lines[index][1] if below else f"{self.hits[index].path}:{self._lines[index][0]}"

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self.hits:
            return self.render_message(self._message, row, width)
        index, below = self._locate(row)
        if below < 0:
            return self._render_rule(width, is_first=not index)
        base = self.resolve_style("on $primary 22%" if index == self.cursor else "")
        bar = self.render_styled([("▌" if index == self.cursor else " ", "$primary")], base)
        body = self._render_line(index, row, base) if below else self._render_place(index, row, base, width - 1)
        return Strip.join([bar, body]).adjust_cell_length(width, base.rich_style)

    def _render_rule(self, width: int, *, is_first: bool) -> Strip:
        words = " no exact match · related" if is_first else " related"
        rule = "─" * max(width - len(words) - 3, 0)
        return self.render_styled([(f"─{words} {rule}", MUTED)], self.resolve_style("")).adjust_cell_length(width)

    def _render_place(self, index: int, row: int, base: Style, width: int) -> Strip:
        hit, line = self.hits[index], self._lines[index][0]
        is_narrow = width < NARROW
        kind = "" if is_narrow else f" {fit_line(hit.kind, 16)}"
        tail: list[Piece] = [("● shadow " if is_narrow else "● changed in the shadow ", "$text-warning")]
        tail = [(kind, MUTED), (" ", ""), *(tail if hit.is_changed else [])]
        number = f":{line}"
        symbol = fit_line(hit.symbol, 24 if is_narrow else 60)
        room = width - measure_pieces([(number, ""), *tail]) - 1
        min_width = min(len(hit.path), max(room // 2, 12))
        symbol = symbol if len(symbol) + 2 <= room - min_width else fit_line(symbol, max(room - min_width - 2, 0))
        path = shorten_path(hit.path, max(room - len(symbol) - 2, 8))
        head: list[Piece] = [(path, "bold"), (number, MUTED), ("  ", ""), (symbol, "$text-primary")]
        if self._height == 1 and (remaining_width := room - measure_pieces(head) - 2) > 8:
            head += [("  ", ""), (fit_line(self._lines[index][1], remaining_width), MUTED)]
        gap = (" " * max(width - measure_pieces([*head, *tail]), 0), "")
        return self.render_text_pieces([*head, gap, *tail], base, row=row)

    def _render_line(self, index: int, row: int, base: Style) -> Strip:
        text = expose_text(shorten_lines(self._lines[index][1].strip(), MAX_LINE_LENGTH))
        words = compile_words(self._query)
        marks: list[Mark] = [(0, len(text), "$foreground 70%")]
        marks += [(*match.span(), FOUND_STYLE) for match in (words.finditer(text) if words is not None else ())]
        return Strip.join([self.render_styled([("  ", "")], base), self.render_text(text, base, row=row, marks=marks)])
