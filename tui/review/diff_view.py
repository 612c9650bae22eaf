"""The body of the review: one change as a diff, row by row, with the current hunk marked. No verdict is given here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style

from core.protocol.events import DiagnosticsReported
from core.protocol.language import Diagnostic
from core.protocol.review import ChangeDiff, Verdict
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.review.diff_layout import (
    CONTEXT_ABOVE,
    CleanLine,
    DiffLayout,
    DiffRow,
    DiffSyntax,
    clean_lines,
    count_changed,
    find_matching_hunk,
    find_seen_targets,
    layout_diff,
)
from tui.text import clean, fit_line
from tui.widgets.code_view import CodeView
from tui.widgets.diagnostics import BACKGROUNDS as DIAGNOSTIC_BACKGROUNDS
from tui.widgets.diagnostics import SEVERITY_SIGNS, UNDERLINE, describe_hunk, group_by_line
from tui.widgets.key_hints import Hint, HintsChanged
from tui.widgets.text_rows import Piece, measure_pieces, measure_text

SPLIT_WIDTH: Final = 100
TWO_NUMBERS_WIDTH: Final = 72

BACKGROUNDS: Final = {"added": "on $success-muted 55%", "removed": "on $error-muted 55%"}
MARKS: Final = {"added": "bold on $success 38%", "removed": "bold on $error 42%"}
SIGNS: Final = {"added": ("+", "$text-success bold"), "removed": ("-", "$text-error bold")}
REMARKS: Final = {
    "comment": (("❝", "$text-warning"), "on $warning 10%"),
    **{name: (sign, DIAGNOSTIC_BACKGROUNDS.get(name, "")) for name, sign in SEVERITY_SIGNS.items()},
}
LINE_END_MARKS: Final = {"crlf": "␍␊", "lf": "␊", "none": " ⊘ no newline at end"}
NUMBER, NUMBER_CHANGED, FAINT = "$foreground 38%", "$foreground 65%", "$foreground 45%"
BAR: Final = "$primary"
ACCEPT: Final = ("✓", "accept", "review.accept", "$text-success on $success-muted")
REJECT: Final = ("✕", "reject", "review.reject", "$text-error on $error-muted")
# What is in conflict can't be accepted.
RESOLVE: Final = ("!", "settle", "review.settle", "$text-warning on $warning-muted")
SENT_LABELS: Final[Mapping[str, str]] = {"accept": "accepting…", "reject": "rejecting…"}


FINAL_HINTS: Final[tuple[Hint, ...]] = (("review.undo", "undo"),)
CONFLICT_HINTS: Final[tuple[Hint, ...]] = tuple(
    (f"review.{key}", word or key)
    for key, word in (("settle", ""), ("reject", ""), ("reason", "why"), ("next", ""), ("undo", ""), ("list", ""))
)


class DiffView(CodeView):
    """Shows a `ChangeDiff`; the indices of the `current` hunk and of its marked line are -1 where there is none."""

    DEFAULT_CSS = "DiffView { scrollbar-size-horizontal: 0; }"

    BINDINGS = get_bindings("lines")

    @dataclass
    class ButtonClicked(Message):
        """A button of the current hunk was clicked."""

        button: Literal["accept", "reject", "settle"]

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(clock=clock, id=id)
        self.diff: ChangeDiff | None = None
        self.current = -1
        self.is_split_wanted = False
        self.sent: Mapping[str, Verdict] = {}
        self.comments: Mapping[str, str] = {}
        self.diagnostics: DiagnosticsReported | None = None
        self.marked_index = -1
        self._text, self._is_settled = "", False
        self._lines: list[CleanLine] = []
        self._page = DiffLayout((), (), ())
        self._syntax = DiffSyntax((), "", "")
        self._digits = 1
        self._by_line: Mapping[int, Sequence[Diagnostic]] = {}

    @property
    def hints(self) -> tuple[Hint, ...]:
        if self.diff is None:
            return FINAL_HINTS if self._is_settled else ()
        return CONFLICT_HINTS if self.diff.change.is_conflicted_at(self.current) else ()

    @property
    def is_split(self) -> bool:
        return self.is_split_wanted and self.size.width >= SPLIT_WIDTH

    def show_message(self, text: str, *, is_final: bool = False) -> None:
        """Show a message instead of a diff; `is_final`: nothing is pending at all."""
        self.diff, self.current, self._text, self._is_settled = None, -1, text, is_final
        self.post_message(HintsChanged())
        self._lines, self._page = [], DiffLayout((), (), ())
        self.virtual_size = Size(0, 0)
        self.scroll_to(0, 0, animate=False, force=True)
        self.redraw()

    def show(self, diff: ChangeDiff, current: int | None = None) -> None:
        """Show a diff with the cursor on hunk `current`; None keeps the place in the one shown before."""
        before, known, place = self.diff, self.current, self._find_head_offset()
        keeps = current is None and before is not None and before.change.path == diff.change.path
        hunks, self.marked_index = diff.change.hunks, -1
        self.current = min(current or 0, len(hunks) - 1)
        if keeps and before is not None:
            self.current = find_matching_hunk(before.change.hunks, known, hunks)
        self.diff, self._text = diff, ""
        self.post_message(HintsChanged())
        self._lines = clean_lines(diff)
        self._counts = count_changed(diff, self._lines)
        top = max((max(line.old, line.new) for line in self._lines), default=0)
        self._digits = max(len(str(top)), 2)
        self.cancel_highlighting()
        self._syntax = DiffSyntax(self._lines, diff.change.language, diff.change.path)
        self._lay_out()
        if keeps and place is not None and self.current >= 0:
            self.scroll_to(y=self._page.head_rows[self.current] - place, animate=False, force=True)
        else:
            self.scroll_to(0, 0, animate=False, force=True)
        self.reveal_current()

    def select_hunk(self, index: int) -> None:
        if 0 <= index < len(self._page.head_rows):
            self.current, self.marked_index = index, -1
            self.redraw()
            self.reveal_current()

    def move_line_mark(self, step: int) -> None:
        """Move the mark within the current hunk by `step` lines: the place to split it at."""
        own = [at for at, line in enumerate(self._lines) if line.hunk == self.current >= 0]
        if own:
            at = own.index(self.marked_index) + step if self.marked_index in own else (0 if step > 0 else len(own) - 1)
            self.marked_index = own[max(min(at, len(own) - 1), 0)]
            row = next(row for row, each in enumerate(self._page.rows) if self.marked_index in (each.left, each.right))
            self.reveal_rows(row, row)
            self.redraw()

    @property
    def marked_line(self) -> int:
        """The marked line of the hunk, from 1 on its side; 0 = none."""
        if self.diff is None or self.marked_index < 0 or self.current < 0:
            return 0
        line, hunk = self._lines[self.marked_index], self.diff.change.hunks[self.current]
        return line.new - hunk.new_start + 1 if line.new else line.old - hunk.old_start + 1

    def set_sent(self, sent: Mapping[str, Verdict]) -> None:
        """Set the hunks (by id) whose verdict has been sent and not been answered."""
        if self.sent != sent:
            self.sent = dict(sent)
            self.redraw()

    def set_comments(self, comments: Mapping[str, str]) -> None:
        if self.comments != comments:
            place, self.comments = self._find_head_offset(), dict(comments)
            self._lay_out(place)

    def set_diagnostics(self, found: DiagnosticsReported | None) -> None:
        """Set what language servers found in the text that is pending."""
        if self.diagnostics != found:
            place, self.diagnostics = self._find_head_offset(), found
            self._lay_out(place)

    def set_split(self, is_wanted: bool) -> None:
        place, self.is_split_wanted = self._find_head_offset(), is_wanted
        self._lay_out(place)

    def reveal_current(self) -> None:
        """Scroll as little as needed to show the current hunk, or its top if it is taller than the view."""
        if self.current < 0:
            return
        head, tail = self._page.head_rows[self.current], self._page.end_rows[self.current]
        height, top = max(self.size.height, 1), self.scroll_offset.y
        above = min(CONTEXT_ABOVE, height // 4)
        if head < top or tail > top + height or head >= top + height:
            fits = tail - head + above <= height
            target = head - above if head < top or not fits else max(tail - height + 1, 0)
            self.scroll_to(y=target, animate=False, force=True)

    def list_seen_targets(self, top: int, height: int) -> list[tuple[str, ...]]:
        return find_seen_targets(self.diff, self._page, self.current, range(top, top + height)) if self.diff else []

    def _find_head_offset(self) -> int | None:
        """Return the screen row of the current hunk's head, None without a hunk."""
        if 0 <= self.current < len(self._page.head_rows):
            return self._page.head_rows[self.current] - self.scroll_offset.y
        return None

    def _lay_out(self, place: int | None = None) -> None:
        if self.diff is None:
            self.redraw()
            return
        room = max(self.size.width - self._get_gutter_width() - 1, 0)  # whether or not there is a scrollbar
        found = self.diagnostics.diagnostics if self.diagnostics is not None else ()
        self._by_line = group_by_line(found)
        self._page = layout_diff(
            self.diff, self._lines, self.comments, diagnostics=found, room=room, is_split=self.is_split
        )
        widths = (measure_text(line.text) + len(LINE_END_MARKS.get(line.eol, "")) for line in self._lines)
        widest = max(widths, default=0)
        beyond = self._get_gutter_width() + widest + 1 - self._get_column_width()
        self.virtual_size = Size(self.size.width + beyond if beyond > 0 else 0, len(self._page.rows))
        if place is not None:
            self.scroll_to(y=self._page.head_rows[self.current] - place, animate=False, force=True)
        self.redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out(self._find_head_offset())
        if not self._keep_tall_hunk():
            self.reveal_current()

    def _keep_tall_hunk(self) -> bool:
        """True if a hunk taller than the view is being read; its end stays visible when the view gets lower."""
        if self.current < 0:
            return False
        head, tail = self._page.head_rows[self.current], self._page.end_rows[self.current]
        height, top = max(self.size.height, 1), self.scroll_offset.y
        if tail - head <= height or not head < top < tail:
            return False
        if tail <= top + height + CONTEXT_ABOVE:
            self.scroll_to(y=tail - height, animate=False, force=True)
        return True

    def _get_column_width(self) -> int:
        return (self.size.width - 1) // 2 if self.is_split else self.row_width

    def _has_two_numbers(self) -> bool:
        return not self.is_split and self.size.width >= TWO_NUMBERS_WIDTH

    def _get_gutter_width(self) -> int:
        """Return the width of bar, line numbers, sign and space."""
        return 1 + (2 * self._digits + 1 if self._has_two_numbers() else self._digits) + 3

    def get_line_width(self) -> int:
        return max(self._get_column_width() - self._get_gutter_width(), 1)

    def count_rows(self) -> int:
        return len(self._page.rows) if self.diff is not None else self.size.height

    def get_row_text(self, row: int) -> str:
        if row >= len(self._page.rows):
            return ""
        shown = self._page.rows[row]
        index = shown.right if shown.right >= 0 else shown.left
        return self._lines[index].text if index >= 0 else shown.text

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if self.diff is None:
            return self.render_message(self._text, row, width)
        shown = self._page.rows[row]
        match shown.kind:
            case "hunk":
                return self._render_head(shown.hunk, width)
            case "gap" | "note" | "rest":
                sign = {"gap": "⋯", "rest": " "}.get(shown.kind, "·")
                text = f"{' ' * (self._get_gutter_width() - 3)}{sign} {shown.text}"
                strip = self.render_styled([self._choose_bar(shown.hunk), (text, FAINT)], self.resolve_style(""))
                return strip.adjust_cell_length(width, self.visual_style.rich_style)
            case "comment" | "diagnostic" | "more":
                return self._render_remark(shown, width)
            case _ if self.is_split:
                return self._render_pair(row, shown, width, shift)
            case _:
                side = 0 if shown.right < 0 else 1
                return self._render_side(row, shown, side, width, shift)

    def _render_remark(self, shown: DiffRow, width: int) -> Strip:
        """Render a row that says something about the lines above it."""
        (sign, style), background = REMARKS[shown.severity or "comment"]
        base = self.resolve_style(background)
        head = f"{' ' * (self._get_gutter_width() - 3)}{' ' if shown.kind == 'more' else sign} "
        parts = [self._choose_bar(shown.hunk), (head, style), (shown.text, "")]
        return self.render_styled(parts, base).adjust_cell_length(width, base.rich_style)

    def _choose_bar(self, hunk: int) -> Piece:
        return (" ", "") if hunk < 0 or hunk != self.current else ("▌", BAR)

    def _render_pair(self, row: int, shown: DiffRow, width: int, shift: int) -> Strip:
        half = self._get_column_width()
        divider = self.render_pieces([("│", self.resolve_style("$foreground 20%"))])
        left = self._render_side(row, shown, 0, half, shift)
        return Strip.join([left, divider, self._render_side(row, shown, 1, width - half - 1, shift)])

    def _render_side(self, row: int, shown: DiffRow, side: int, width: int, shift: int) -> Strip:
        index = (shown.left, shown.right)[side]
        line = self._lines[index] if index >= 0 else None
        style = self.resolve_style(BACKGROUNDS.get(line.kind, "") if line else "on $foreground 4%")
        if self._is_sent(shown.hunk):
            style += Style(dim=True)
        bar = (" ", "") if side and self.is_split else self._choose_bar(shown.hunk)
        if index == self.marked_index >= 0:
            bar = ("▶", "$warning")
        edge = self.render_styled([bar], self.resolve_style(""))
        if line is None:
            return edge.adjust_cell_length(width, style.rich_style)
        gutter = Strip.join([edge, self.render_styled(self._format_numbers(line, side), style)])
        code = self._render_line(row, line, index, side, style)
        room = max(width - gutter.cell_length, 0)
        return Strip.join([gutter, self.clip_line(code, style, shift=shift, room=room)])

    def _format_numbers(self, line: CleanLine, side: int) -> list[Piece]:
        shown = (line.old, line.new) if self._has_two_numbers() else ((line.old, line.new)[side],)
        text = " ".join(f"{number or '':>{self._digits}}" for number in shown)
        sign, sign_style = SIGNS.get(line.kind, (" ", NUMBER))
        found = self._list_diagnostics(line, side)
        style = NUMBER_CHANGED if line.kind in SIGNS else NUMBER
        numbers = [(text, style), SEVERITY_SIGNS[found[0].severity]] if found else [(f"{text} ", style)]
        return [*numbers, (f"{sign} ", sign_style)]

    def _list_diagnostics(self, line: CleanLine, side: int) -> Sequence[Diagnostic]:
        return self._by_line.get(line.new, ()) if side and line.new else ()

    def _render_line(self, row: int, line: CleanLine, index: int, side: int, style: Style) -> Strip:
        spans = self.get_syntax_spans(*self._syntax.find_line(side, index))
        mark = MARKS.get(line.kind, "")
        is_whole = len(line.marks) == 1 and line.marks[0] == (0, len(line.text))
        marks = [] if is_whole or not mark else [(start, end, mark) for start, end in line.marks]
        marks += [(*self._find_diagnostic(line, index, each), UNDERLINE) for each in self._list_diagnostics(line, side)]
        strip = self.render_code(line.text, style, row=row, spans=spans, marks=marks)
        if line.eol:
            mark_strip = self.render_styled([(LINE_END_MARKS[line.eol], "$text-warning 80%")], style)
            strip = Strip.join([strip, mark_strip])
        return strip

    def _find_diagnostic(self, line: CleanLine, index: int, diagnostic: Diagnostic) -> tuple[int, int]:
        """Return the characters of a line that a diagnostic is about, as they are shown."""
        assert self.diff is not None
        end = diagnostic.end_column if diagnostic.end_line == diagnostic.line else 0
        start, end = max(diagnostic.column - 1, 0), end - 1 if end else len(line.text)
        raw = self.diff.lines[index].text
        return (start, end) if raw == line.text else (len(clean(raw[:start])), len(clean(raw[:end])))

    def _is_sent(self, hunk: int) -> bool:
        return self.diff is not None and hunk >= 0 and self.diff.change.hunks[hunk].id in self.sent

    def _render_head(self, index: int, width: int) -> Strip:
        """Render the row above a hunk: its number, its size and, on the current one, its buttons."""
        assert self.diff is not None
        hunks = self.diff.change.hunks
        hunk, is_current = hunks[index], index == self.current
        base = self.resolve_style("on $primary 16%" if is_current else "on $foreground 5%")
        words = "bold $foreground" if is_current else "$foreground 55%"
        parts = [self._choose_bar(index), (f" {hunk.kind} {index + 1}/{len(hunks)} ", words)]
        for sign, name in (("+", "added"), ("−", "removed")):
            if (count := self._counts[name, index]) and not self.diff.change.binary:
                parts.append((f" {sign}{count}", SIGNS[name][1]))
        todo = ("", base)
        if hunk.todo and len({each.todo for each in hunks}) > 1:
            todo = (f" {fit_line(hunk.todo, 24)}", base + self.resolve_style("$accent"))
        right = self._render_buttons(hunk.id, is_current, width < TWO_NUMBERS_WIDTH, base)
        evidence = describe_hunk(self.diagnostics, hunk)
        if measure_pieces([*parts, todo, evidence]) + right.cell_length < width:
            parts.append(evidence)
        left = Strip.join([self.render_styled(parts, base), self.render_pieces([todo])])
        room = max(width - left.cell_length - right.cell_length, 0)
        return Strip.join([left.adjust_cell_length(left.cell_length + room, base.rich_style), right]).crop(0, width)

    def _render_buttons(self, id_: str, is_current: bool, is_narrow: bool, base: Style) -> Strip:
        if id_ in self.sent:
            return self.render_styled([(f"{SENT_LABELS[self.sent[id_]]} ", "$text-warning")], base)
        if not is_current:
            return Strip([])
        pieces: list[tuple[str, Style]] = []
        is_clash = self.diff is not None and not self.diff.change.is_hunk_clean(id_)
        for sign, word, key_id, style in (RESOLVE if is_clash else ACCEPT, REJECT):
            key = format_first_key(key_id, get_keymap(self.app))
            button = base + self.app.stylesheet.parse_style(f"bold {style}") + Style.from_meta({"button": word})
            pieces += [(f" {sign} {key} " if is_narrow else f" {sign} {word} {key} ", button), (" ", base)]
        return self.render_pieces(pieces)

    # The mouse

    def on_click(self, event: events.Click) -> None:
        if button := event.style.meta.get("button"):
            self.post_message(self.ButtonClicked(button))
            return
        row = event.y + self.scroll_offset.y
        if self.diff is not None and 0 <= row < len(self._page.rows):
            shown = self._page.rows[row]
            if shown.hunk >= 0 and shown.hunk != self.current:
                self.select_hunk(shown.hunk)
            elif shown.hunk >= 0 and shown.kind == "line":
                self.marked_index = shown.right if shown.right >= 0 else shown.left
                self.redraw()
