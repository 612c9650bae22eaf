"""A file as rows with a text cursor, a selection, syntax colours and diagnostics.

Lines and columns count from 0 and are those of the file, independent of its rows on the screen.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate, islice
from typing import Final, NamedTuple, overload

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from core.patterns import compile_lazily
from core.protocol.language import Diagnostic
from core.protocol.queries import FileAnswer
from tui.keymap import get_bindings
from tui.text import expose_text, shorten_lines
from tui.widgets.code_view import CodeView
from tui.widgets.diagnostics import SEVERITY_SIGNS, group_by_line
from tui.widgets.highlight import HighlightedText
from tui.widgets.row_view import Mark
from tui.widgets.text_rows import measure_text

MAX_MATCHES: Final = 10_000
_NAME: Final = compile_lazily(r"[^\W\d]\w*")
MAX_LINE_LENGTH: Final = 8_000
CONTEXT_ABOVE: Final = 5
MEASURED: Final = 20  # lines of a file of which the widest is taken
NO_NAMES: Final = frozenset({"syntax_keyword", "syntax_comment", "syntax_string", "syntax_number", "syntax_constant"})
NAME_STYLE: Final = "bold underline"
MATCH_STYLE: Final = "underline on $warning 25%"
CURRENT_MATCH_STYLE: Final = "bold reverse"


class TextMatch(NamedTuple):
    """The characters [start, end) of a line."""

    line: int
    start: int
    end: int


class LineShift(NamedTuple):
    """The single region in which two texts differ: lines before `head` are equal, and old lines from `tail` on are
    shifted by `by` in the new text."""

    head: int
    tail: int
    by: int

    def follow(self, line: int) -> int:
        """Return the new number of an old line; within the changed region it is unchanged."""
        return line + self.by if line >= max(self.tail, self.head) else line


def compare_lines(before: Sequence[str], now: Sequence[str]) -> LineShift:
    shorter = min(len(before), len(now))
    head = next((index for index, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), shorter)
    backwards = enumerate(zip(islice(reversed(before), shorter - head), reversed(now), strict=False))
    same = next((index for index, (old, new) in backwards if old != new), shorter - head)
    return LineShift(head, len(before) - same, len(now) - len(before))


class TextCursor:
    """The cursor in `lines`. `anchor`: the line from which on lines are marked, the cursor's own if none are."""

    def __init__(self) -> None:
        self.lines: Sequence[str] = ()
        self._text = ""  # the lines, and their start offsets
        self._starts: Sequence[int] = ()
        self.line = self.column = self.anchor = 0
        self.pattern = ""
        self.matches: list[TextMatch] = []

    def set_lines(self, lines: Sequence[str], shift: LineShift | None = None) -> None:
        """Set the text; with a `shift` it is the same file, in which the cursor stays with its line."""
        self.lines, self._text = lines, "\n".join(lines)
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        if shift is None:
            self.line = self.column = self.anchor = 0
            self.pattern = ""
        else:
            last = max(len(lines) - 1, 0)
            self.line, self.anchor = (
                max(min(shift.follow(line_number), last), 0) for line_number in (self.line, self.anchor)
            )
        self.find(self.pattern)

    def move_to(self, line: int, column: int | None = None, *, extends: bool = False) -> None:
        self.line = max(min(line, len(self.lines) - 1), 0)
        if column is not None:
            self.column = max(column, 0)
        if not extends:
            self.anchor = self.line

    @property
    def marked(self) -> range:
        """The marked lines, at least the cursor's own."""
        return range(min(self.line, self.anchor), max(self.line, self.anchor) + 1)

    # Names

    def find_name(self, is_name: Callable[[int, int], bool]) -> TextMatch | None:
        """Return the name at or after the cursor in its line, else the last one before it."""
        names = self._list_names(is_name)
        return next((name for name in names if name.end > self.column), names[-1] if names else None)

    def move_name(self, step: int, is_name: Callable[[int, int], bool]) -> None:
        """Move to the next or previous name of the line; from the last one, to the first of the next line."""
        current_name = self.find_name(is_name)
        names = self._list_names(is_name)
        index = names.index(current_name) + step if current_name is not None else -1
        if 0 <= index < len(names):
            self.move_to(self.line, names[index].start)
        elif 0 <= self.line + step < len(self.lines):
            self.move_to(self.line + step, 0)
            if step < 0 and (above := self._list_names(is_name)):
                self.column = above[-1].start

    def _list_names(self, is_name: Callable[[int, int], bool]) -> list[TextMatch]:
        text = self.lines[self.line] if self.line < len(self.lines) else ""
        matches = [TextMatch(self.line, *match.span()) for match in _NAME.finditer(text)]
        return [name_match for name_match in matches if is_name(name_match.start, name_match.end)] or matches

    # Finding

    def find(self, pattern: str) -> None:
        """Set the literal search text; lower case letters match both cases."""
        self.pattern, self.matches = pattern, []
        if not pattern:
            return
        search = re.compile(re.escape(pattern), 0 if pattern != pattern.lower() else re.IGNORECASE)
        for match in islice(search.finditer(self._text), MAX_MATCHES):
            line = bisect_right(self._starts, match.start()) - 1
            start = self._starts[line]
            self.matches.append(TextMatch(line, match.start() - start, match.end() - start))

    def move_match(self, step: int, *, from_here: bool = False) -> bool:
        """Move to the next or previous match, wrapping around; `from_here`: one at the cursor counts, too."""
        if not self.matches:
            return False
        position = (self.line, self.column)
        index = bisect_left(self.matches, position, key=lambda candidate: candidate[:2])
        is_at = index < len(self.matches) and self.matches[index][:2] == position
        if step > 0:
            index += is_at and not from_here
        else:
            index -= 1
        match = self.matches[index % len(self.matches)]
        self.move_to(match.line, match.start)
        return True

    @property
    def match_number(self) -> int:
        """The number of the match at the cursor, from 1; 0 = the cursor is at none."""
        position = (self.line, self.column)
        index = bisect_left(self.matches, position, key=lambda candidate: candidate[:2])
        return index + 1 if index < len(self.matches) and self.matches[index][:2] == position else 0

    def list_matches(self, line: int) -> list[TextMatch]:
        low = bisect_left(self.matches, line, key=lambda match: match.line)
        return self.matches[low : bisect_left(self.matches, line + 1, key=lambda match: match.line)]


class TextPosition(NamedTuple):
    """A position in a text: `line` and `column` from 1, in characters; `name`: the identifier at it."""

    line: int
    column: int
    name: str = ""


class CleanLines(Sequence[str]):
    """The sanitized lines. Cleaning is lazy, because few lines of a long file are displayed."""

    def __init__(self, raw: Sequence[str]) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return (
            expose_text(self._raw[index])
            if isinstance(index, int)
            else [expose_text(line) for line in self._raw[index]]
        )

    def measure_widest(self) -> int:
        """Return the cells of the widest line, which is one of those with the most characters or tabs."""
        longest = {
            *nlargest(MEASURED, self._raw, key=len),
            *nlargest(MEASURED, self._raw, key=lambda line: line.count("\t")),
        }
        return max((measure_text(expose_text(line)) for line in longest), default=0)


class FileView(CodeView):
    """Shows a file with a cursor in it, or a message instead."""

    DEFAULT_CSS = "FileView { scrollbar-size-horizontal: 0; }"

    BINDINGS = get_bindings("cursor", "lines")

    class CursorMoved(Message):
        """The cursor moved, or other lines are marked."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = TextCursor()
        self._shown: Sequence[str] = ()
        self._message = " "
        self._painting: HighlightedText | None = None
        self._diagnostics: Mapping[int, Sequence[Diagnostic]] = {}

    # Content

    def show_message(self, text: str) -> None:
        self._shown, self._message, self._painting = (), text, None
        self.virtual_size = Size(0, 0)
        self.redraw()

    def show_text(self, file: FileAnswer, *, keeps_place: bool = False) -> None:
        """Show a file from its top. `keeps_place`: the same file in a new version; scroll position and cursor follow
        their lines."""
        is_crlf = file.text.count("\r\n") == file.text.count("\n")  # with mixed line ends every "\r" is visible
        text = file.text.replace("\r\n", "\n") if is_crlf else file.text
        lines = shorten_lines(text, MAX_LINE_LENGTH).split("\n")
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        top, had_text = self.scroll_offset.y, self.has_text
        shift = compare_lines(self.cursor.lines, lines) if keeps_place else None
        self.cursor.set_lines(lines, shift)
        self._shown = CleanLines(lines)
        self._message = "" if file.text else "The file is empty"
        self.cancel_highlighting()
        self._painting = HighlightedText(self._shown, file.language, file.path)
        beyond = self._get_gutter_width() + self._shown.measure_widest() + 1
        self.virtual_size = Size(beyond, len(lines)) if file.text else Size(0, 0)
        self.redraw()
        if shift is None:
            self.scroll_to(0, 0, animate=False, force=True)
        elif had_text:
            self.scroll_to(y=shift.follow(top), animate=False, force=True)
        else:
            self.reveal_rows(self.cursor.line, self.cursor.line)

    def set_diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Set the new diagnostics of the text."""
        if (by_line := group_by_line(diagnostics)) != self._diagnostics:
            self._diagnostics = by_line
            self.redraw()

    def list_diagnostics(self) -> Sequence[Diagnostic]:
        """Return the diagnostics of the cursor's line."""
        return self._diagnostics.get(self.cursor.line + 1, ()) if self.has_text else ()

    def move_cursor_to(self, line: int, column: int = 1, *, end: int = 0) -> None:
        """Move the cursor to a position from 1, mark the lines up to `end`, and scroll there."""
        self.cursor.move_to(max(end, line) - 1)
        self.cursor.move_to(line - 1, column - 1, extends=end > line)
        self._note_moved()
        self.call_after_refresh(self._scroll_to_cursor)  # after the layout of the other parts of the pane

    def _scroll_to_cursor(self) -> None:
        """Show the cursor's line near the top, with its column in view."""
        above = min(CONTEXT_ABOVE, self.size.height // 3) if self.size.height else CONTEXT_ABOVE  # it is not seen yet
        self.scroll_to(x=0, y=max(self.cursor.line - above, 0), animate=False, force=True)
        if self.cursor.column and self.size.width:
            self._reveal_columns(self.cursor.column, self.cursor.column + 1)

    # The cursor

    @property
    def has_text(self) -> bool:
        return not self._message

    @property
    def place(self) -> TextPosition:
        """The name at the cursor, or the cursor's position."""
        line = self.cursor.line
        if (name := self._find_name()) is None:
            return TextPosition(line + 1, self.cursor.column + 1)
        return TextPosition(line + 1, name.start + 1, self.cursor.lines[line][name.start : name.end])

    @property
    def marked_lines(self) -> tuple[int, int]:
        """The first and the last of the marked lines, from 1; (0, 0) = none are."""
        marked_range = self.cursor.marked
        return (marked_range[0] + 1, marked_range[-1] + 1) if len(marked_range) > 1 and self.has_text else (0, 0)

    def _find_name(self) -> TextMatch | None:
        return self.cursor.find_name(self._is_name) if self.has_text else None

    def _is_name(self, start: int, end: int) -> bool:
        """True unless the syntax is known to make something else of these characters of the cursor's line."""
        line = self.cursor.line
        low = self._to_shown(line, start)
        spans = self._painting.get_spans(line) if self._painting is not None else None
        return not any(first <= low < last and role in NO_NAMES for first, last, role in spans or ())

    def _to_shown(self, line: int, column: int) -> int:
        """Return the displayed column of a column of the file."""
        text = self.cursor.lines[line]
        return column if text.isascii() and text.isprintable() else len(expose_text(text[:column]))

    def _from_shown(self, line: int, column: int) -> int:
        text = self.cursor.lines[line]
        if text.isascii() and text.isprintable():
            return column
        return bisect_right(range(len(text)), column, key=lambda index: len(expose_text(text[: index + 1])))

    def _show_cursor(self) -> None:
        """Draw the cursor, and scroll the current match into view."""
        line = self.cursor.line
        self.reveal_rows(line, line)
        if self.cursor.match_number:
            self._reveal_columns(self.cursor.column, self.cursor.column + 1)
        self._note_moved()

    def _reveal_columns(self, start: int, end: int) -> None:
        """Scroll the characters [start, end) of the cursor's line into view, clear of the marks at the edges."""
        low, high = (self._to_shown(self.cursor.line, column) for column in (start, end))
        first, room = self.scroll_offset.x, self.get_line_width()
        if low < first + bool(first) or high >= first + room:
            self.scroll_to(x=max(low - room // 2, 0) if high >= room else 0, animate=False, force=True)

    def _note_moved(self) -> None:
        self.redraw()
        self.post_message(self.CursorMoved())

    def action_move(self, step: int, *, extends: bool = False) -> None:
        if self.has_text:
            self.cursor.move_to(self.cursor.line + step, extends=extends)
            self._show_cursor()

    def action_extend(self, step: int) -> None:
        self.action_move(step, extends=True)

    def action_page(self, step: int) -> None:
        self.action_move(step * max(self.size.height - 1, 1))

    def action_top(self) -> None:
        self.action_move(-len(self._shown))

    def action_bottom(self) -> None:
        self.action_move(len(self._shown))

    def action_move_name(self, step: int) -> None:
        if self.has_text:
            self.cursor.move_name(step, self._is_name)
            self._show_cursor()
            if (name := self._find_name()) is not None:
                self._reveal_columns(name.start, name.end)

    def move_match(self, step: int) -> None:
        if self.has_text and self.cursor.move_match(step):
            self._show_cursor()

    def find(self, pattern: str, start: tuple[int, int]) -> None:
        """Search for a text from `start` on, (line, column) from 0; the cursor moves to the first match, or back to
        `start`."""
        self.cursor.find(pattern)
        self.cursor.move_to(*start)
        self.cursor.move_match(1, from_here=True)
        self._show_cursor()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = offset.y + self.scroll_offset.y if offset is not None else len(self._shown)
        if line < len(self._shown) and not self.screen.get_selected_text():
            column = offset.x - self._get_gutter_width() + self.scroll_offset.x if offset is not None else 0
            self.cursor.move_to(line, self._from_shown(line, max(column, 0)), extends=event.shift)
            self._show_cursor()

    def selection_updated(self, selection: Selection | None) -> None:
        """Mark the lines of the mouse selection."""
        if selection is not None and self.has_text:
            selected_rows = [row for row in range(len(self._shown)) if selection.get_span(row) is not None]
            if selected_rows:
                self.cursor.move_to(selected_rows[0])
                self.cursor.move_to(selected_rows[-1], extends=True)
                self.post_message(self.CursorMoved())
        super().selection_updated(selection)

    on_focus = on_blur = CodeView.redraw

    # Drawing

    def _get_gutter_width(self) -> int:
        return max(len(str(len(self._shown))), 3) + 3

    def get_line_width(self) -> int:
        return max(self.row_width - self._get_gutter_width(), 1)

    def count_rows(self) -> int:
        return self.size.height if self._message else len(self._shown)

    def get_row_text(self, row: int) -> str:
        return self._shown[row] if row < len(self._shown) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if self._message:
            return self.render_message(self._message, row, width)
        is_current, is_marked = row == self.cursor.line, row in self.cursor.marked
        ink = "$primary" if self.has_focus else "$foreground"
        style = self.resolve_style(f"on {ink} {22 if self.has_focus else 7}%" if is_marked else "")
        parse = self.app.stylesheet.parse_style
        number = f"{row + 1:>{self._get_gutter_width() - 3}}"
        bar = ("▌" if is_current else "▎" if is_marked else " ", style + parse(f"{ink} 60%"))
        number_style = style + parse("bold $foreground 75%" if is_current else "$foreground 38%")
        number_pieces = [(f"{number}  ", number_style)]
        if diagnostics := self._diagnostics.get(row + 1):
            sign, ink = SEVERITY_SIGNS[diagnostics[0].severity]
            number_pieces = [(number, number_style), (f"{sign} ", style + parse(ink))]
        gutter = self.render_pieces([bar, *number_pieces])
        spans = self.get_syntax_spans(self._painting, row)
        code = self.render_code(self._shown[row], style, row=row, spans=spans, marks=self._list_marks(row))
        room = max(width - gutter.cell_length, 0)
        return Strip.join([gutter, self.clip_line(code, style, shift=shift, room=room)])

    def _list_marks(self, row: int) -> list[Mark]:
        styled_matches = []
        if row == self.cursor.line and self.has_focus and (name := self._find_name()) is not None:
            styled_matches.append((name, NAME_STYLE))
        position = (self.cursor.line, self.cursor.column)
        matches = self.cursor.list_matches(row)
        styled_matches += [(match, CURRENT_MATCH_STYLE if match[:2] == position else MATCH_STYLE) for match in matches]
        return [
            (self._to_shown(row, match.start), self._to_shown(row, match.end), style) for match, style in styled_matches
        ]
