"""The body of the review: one change as a diff, row by row, with the hunk under the cursor marked.

It knows what to draw and which hunk is meant; what a verdict does is decided above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style

from core.protocol.review import ChangeDiff, Verdict
from tui.highlight import Painting
from tui.keymap import bindings
from tui.text import one_line
from tui.widgets.code_view import CodeView, cells
from tui.widgets.diff_rows import ABOVE, Line, Page, Row, breaks, kept, lines, seen_things, split, unified
from tui.widgets.side import KeysChanged

SPLIT_WIDTH: Final = 100
TWO_NUMBERS_WIDTH: Final = 72

BACKGROUNDS: Final = {"added": "on $success-muted 55%", "removed": "on $error-muted 55%"}
MARKS: Final = {"added": "bold on $success 38%", "removed": "bold on $error 42%"}
SIGNS: Final = {"added": ("+", "$text-success bold"), "removed": ("-", "$text-error bold")}
ENDS: Final = {"crlf": "␍␊", "lf": "␊", "none": " ⊘ no newline at end"}
NUMBER, NUMBER_CHANGED, FAINT = "$foreground 38%", "$foreground 65%", "$foreground 45%"
BAR: Final = "$primary"
ACCEPT: Final = ("✓", "accept", "a", "$text-success on $success-muted")
REJECT: Final = ("✕", "reject", "r", "$text-error on $error-muted")
SETTLE: Final = ("!", "settle", "t", "$text-warning on $warning-muted")  # what is in conflict can't be accepted
SENT: Final[Mapping[str, str]] = {"accept": "accepting…", "reject": "rejecting…"}


class DiffView(CodeView):
    """Shows a `ChangeDiff`. `current` is the index of the hunk under the cursor, -1 without any; `picked` the index of
    a line in it that was clicked, or walked to, -1 = none."""

    DEFAULT_CSS = "DiffView { scrollbar-size-horizontal: 0; }"

    BINDINGS: ClassVar[list[BindingType]] = bindings("lines")

    @dataclass
    class HunkChosen(Message):
        """A hunk was clicked."""

        index: int

    @dataclass
    class Judged(Message):
        """A verdict on the current hunk was clicked."""

        verdict: Verdict

    class Settles(Message):
        """The conflict is to be settled: that was clicked."""

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(clock=clock, id=id)
        self.diff: ChangeDiff | None = None
        self.current = -1
        self.wants_split = False
        self.sent: Mapping[str, Verdict] = {}
        self.comments: Mapping[str, str] = {}
        self.picked = -1
        self._text, self._is_settled = "", False
        self._lines: list[Line] = []
        self._page = Page((), (), ())
        self._paintings: tuple[Painting | None, Painting | None] = (None, None)
        self._sides: tuple[list[int], list[int]] = ([], [])
        self._digits = 1

    # What is shown

    @property
    def keys_of(self) -> str:
        """Which keys the footer names."""
        if self.diff is None:
            return "settled" if self._is_settled else ""
        return "clash" if self.diff.change.clashes_at(self.current) else ""

    @property
    def is_split(self) -> bool:
        return self.wants_split and self.size.width >= SPLIT_WIDTH

    def show_text(self, text: str, *, is_settled: bool = False) -> None:
        """No diff: a calm text of ours in the middle of the pane. `is_settled`: nothing waits at all."""
        self.diff, self.current, self._text, self._is_settled = None, -1, text, is_settled
        self.post_message(KeysChanged())
        self._lines, self._page = [], Page((), (), ())
        self.virtual_size = Size(0, 0)
        self.scroll_to(0, 0, animate=False, force=True)
        self.redraw()

    def show(self, diff: ChangeDiff, current: int | None = None) -> None:
        """Show a diff with the cursor on hunk `current`; None keeps the place in the one shown before."""
        before, place = self.diff, self._place()
        keeps = current is None and before is not None and before.change.path == diff.change.path
        hunks, self.picked = diff.change.hunks, -1
        self.current = (
            kept(before.change.hunks, self.current, hunks) if keeps and before else min(current or 0, len(hunks) - 1)
        )
        self.diff, self._text = diff, ""
        self.post_message(KeysChanged())
        self._lines = lines(diff)
        top = max((max(line.old, line.new) for line in self._lines), default=0)
        self._digits = max(len(str(top)), 2)
        self._prepare_colours(diff)
        self._lay_out()
        if keeps and place is not None and self.current >= 0:
            self.scroll_to(y=self._page.heads[self.current] - place, animate=False, force=True)
        else:
            self.scroll_to(0, 0, animate=False, force=True)
        self.reveal()

    def select(self, index: int) -> None:
        """Put the cursor on a hunk and bring it into view."""
        if 0 <= index < len(self._page.heads):
            self.current, self.picked = index, -1
            self.redraw()
            self.reveal()

    def pick(self, step: int) -> None:
        """Walk line by line through the current hunk: where it can be split."""
        own = [at for at, line in enumerate(self._lines) if line.hunk == self.current >= 0]
        if own:
            at = own.index(self.picked) + step if self.picked in own else (0 if step > 0 else len(own) - 1)
            self.picked = own[max(min(at, len(own) - 1), 0)]
            self._reveal_picked()
            self.redraw()

    def _reveal_picked(self) -> None:
        rows = enumerate(self._page.rows)
        at = next((row for row, shown in rows if self.picked in (shown.left, shown.right)), -1)
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if at >= 0 and not top <= at < top + height:
            self.scroll_to(y=at if at < top else at - height + 1, animate=False, force=True)

    @property
    def picked_line(self) -> int:
        """The line of the hunk (from 1, on its side) that is picked; 0 = none."""
        if self.diff is None or self.picked < 0 or self.current < 0:
            return 0
        line, hunk = self._lines[self.picked], self.diff.change.hunks[self.current]
        return line.new - hunk.new_start + 1 if line.new else line.old - hunk.old_start + 1

    def mark_sent(self, sent: Mapping[str, Verdict]) -> None:
        """Hunks (by id) whose verdict is under way."""
        if self.sent != sent:
            self.sent = dict(sent)
            self.redraw()

    def mark_comments(self, comments: Mapping[str, str]) -> None:
        """What was said about hunks (by id)."""
        if self.comments != comments:
            place, self.comments = self._place(), dict(comments)
            self._lay_out(place)

    def split(self, wants: bool) -> None:
        """Two columns as soon as there is room, or one."""
        place, self.wants_split = self._place(), wants
        self._lay_out(place)

    def reveal(self) -> None:
        """Scroll as little as needed to see the whole current hunk, or its top if it is larger than the pane."""
        if self.current < 0:
            return
        head, tail = self._page.heads[self.current], self._page.tails[self.current]
        height, top = max(self.size.height, 1), self.scroll_offset.y
        above = min(ABOVE, height // 4)
        if head < top or tail > top + height or head >= top + height:
            fits = tail - head + above <= height
            target = head - above if head < top or not fits else max(tail - height + 1, 0)
            self.scroll_to(y=target, animate=False, force=True)

    def things_on_screen(self, top: int, height: int) -> list[tuple[str, ...]]:
        return seen_things(self.diff, self._page, self.current, range(top, top + height)) if self.diff else []

    def _place(self) -> int | None:
        """The screen row of the current hunk's head."""
        if 0 <= self.current < len(self._page.heads):
            return self._page.heads[self.current] - self.scroll_offset.y
        return None

    def _prepare_colours(self, diff: ChangeDiff) -> None:
        """Old and new text are lexed apart, each as a whole: neither makes sense with the other's lines in it."""
        self.forget_colours()
        sides: tuple[list[int], list[int]] = ([], [])
        paintings = []
        for side, other in ((0, "added"), (1, "removed")):
            chosen = [line for line in self._lines if line.kind != other]
            position = -1
            for line in self._lines:
                position += line.kind != other
                sides[side].append(position)
            texts = ["" if line.kind == "gap" else line.text for line in chosen]
            paintings.append(Painting(texts, diff.change.language, diff.change.path, breaks(chosen)))
        self._sides, self._paintings = sides, (paintings[0], paintings[1])

    def _lay_out(self, place: int | None = None) -> None:
        if self.diff is None:
            self.redraw()
            return
        room = max(self.size.width - self._gutter() - 1, 0)  # whether or not there is a scrollbar
        self._page = (split if self.is_split else unified)(self.diff, self._lines, self.comments, room=room)
        widest = max((cells(line.text) + len(ENDS.get(line.eol, "")) for line in self._lines), default=0)
        beyond = self._gutter() + widest + 1 - self._half()
        self.virtual_size = Size(self.size.width + beyond if beyond > 0 else 0, len(self._page.rows))
        if place is not None:
            self.scroll_to(y=self._page.heads[self.current] - place, animate=False, force=True)
        self.redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out(self._place())
        if not self._is_inside():
            self.reveal()

    def _is_inside(self) -> bool:
        """Whether a hunk that is taller than the pane is being read; its end stays in view when that gets lower."""
        if self.current < 0:
            return False
        head, tail = self._page.heads[self.current], self._page.tails[self.current]
        height, top = max(self.size.height, 1), self.scroll_offset.y
        if tail - head <= height or not head < top < tail:
            return False
        if tail <= top + height + ABOVE:
            self.scroll_to(y=tail - height, animate=False, force=True)
        return True

    # Geometry

    def _half(self) -> int:
        """The width of one text column with its gutter."""
        return (self.size.width - 1) // 2 if self.is_split else self.row_width

    def _has_two_numbers(self) -> bool:
        return not self.is_split and self.size.width >= TWO_NUMBERS_WIDTH

    def _gutter(self) -> int:
        """Bar, number or numbers, sign, and a space."""
        return 1 + (2 * self._digits + 1 if self._has_two_numbers() else self._digits) + 3

    def line_room(self) -> int:
        return max(self._half() - self._gutter(), 1)

    # Rows

    def row_count(self) -> int:
        return len(self._page.rows) if self.diff is not None else self.size.height

    def row_text(self, row: int) -> str:
        if row >= len(self._page.rows):
            return ""
        shown = self._page.rows[row]
        index = shown.right if shown.right >= 0 else shown.left
        return self._lines[index].text if index >= 0 else shown.text

    def draw(self, row: int, width: int, shift: int) -> Strip:
        if self.diff is None:
            return self.draw_message(self._text, row, width)
        shown = self._page.rows[row]
        match shown.kind:
            case "hunk":
                return self._draw_head(shown.hunk, width)
            case "gap" | "note" | "rest":
                sign = {"gap": "⋯", "rest": " "}.get(shown.kind, "·")
                bar = self._bar(shown.hunk, self.ink(""))
                text = f"{' ' * (self._gutter() - 3)}{sign} {shown.text}"
                return self.paint([bar, (text, self.ink(FAINT))]).adjust_cell_length(width, self._base())
            case "comment":
                return self._draw_comment(shown, width)
            case _ if self.is_split:
                return self._draw_pair(row, shown, width, shift)
            case _:
                side = 0 if shown.right < 0 else 1
                return self._draw_side(row, shown, side, width, shift)

    def _draw_comment(self, shown: Row, width: int) -> Strip:
        base = self.ink("on $warning 10%")
        said = base + self.app.stylesheet.parse_style("$text-warning")
        parts = [self._bar(shown.hunk, base), (f"{' ' * (self._gutter() - 3)}❝ ", said), (shown.text, base)]
        return self.paint(parts).adjust_cell_length(width, base.rich_style)

    def _base(self) -> RichStyle:
        return self.visual_style.rich_style

    def _bar(self, hunk: int, style: Style) -> tuple[str, Style]:
        if hunk < 0 or hunk != self.current:
            return " ", style
        return "▌", style + self.app.stylesheet.parse_style(BAR)

    def _draw_pair(self, row: int, shown: Row, width: int, shift: int) -> Strip:
        half = self._half()
        divider = self.paint([("│", self.ink("$foreground 20%"))])
        left = self._draw_side(row, shown, 0, half, shift)
        return Strip.join([left, divider, self._draw_side(row, shown, 1, width - half - 1, shift)])

    def _draw_side(self, row: int, shown: Row, side: int, width: int, shift: int) -> Strip:
        index = (shown.left, shown.right)[side]
        line = self._lines[index] if index >= 0 else None
        style = self.ink(BACKGROUNDS.get(line.kind, "") if line else "on $foreground 4%")
        if self._is_sent(shown.hunk):
            style += Style(dim=True)
        bar = (" ", self.ink("")) if side and self.is_split else self._bar(shown.hunk, self.ink(""))
        if index == self.picked >= 0:
            bar = ("▶", self.ink("$warning"))
        if line is None:
            blank = " " * (width - 1) if self.is_split else ""
            return self.paint([bar, (blank, style)]).adjust_cell_length(width, style.rich_style)
        gutter = self.paint([bar, *self._numbers(line, side, style)])
        code = self._code(row, line, index, side, style)
        room = max(width - gutter.cell_length, 0)
        return Strip.join([gutter, self.window(code, style, shift=shift, room=room)])

    def _numbers(self, line: Line, side: int, style: Style) -> list[tuple[str, Style]]:
        parse = self.app.stylesheet.parse_style
        sign, sign_style = SIGNS.get(line.kind, (" ", NUMBER))
        digits = self._digits
        shown = (line.old, line.new) if self._has_two_numbers() else ((line.old, line.new)[side],)
        text = " ".join(f"{number or '':>{digits}}" for number in shown)
        number = style + parse(NUMBER_CHANGED if line.kind in SIGNS else NUMBER)
        return [(f"{text} ", number), (f"{sign} ", style + parse(sign_style))]

    def _code(self, row: int, line: Line, index: int, side: int, style: Style) -> Strip:
        spans = self.spans(self._paintings[side], self._sides[side][index])
        mark = MARKS.get(line.kind, "")
        is_whole = len(line.marks) == 1 and line.marks[0] == (0, len(line.text))
        marks = [] if is_whole or not mark else [(start, end, mark) for start, end in line.marks]
        strip = self.code(line.text, style, row=row, spans=spans, marks=marks)
        if line.eol:
            warning = style + self.app.stylesheet.parse_style("$text-warning 80%")
            strip = Strip.join([strip, self.paint([(ENDS[line.eol], warning)])])
        return strip

    def _is_sent(self, hunk: int) -> bool:
        return self.diff is not None and hunk >= 0 and self.diff.change.hunks[hunk].id in self.sent

    def _draw_head(self, index: int, width: int) -> Strip:
        """The row above a hunk: which one, how large, and, under the cursor, what can be done."""
        assert self.diff is not None
        hunks = self.diff.change.hunks
        hunk, is_current = hunks[index], index == self.current
        base = self.ink("on $primary 16%" if is_current else "on $foreground 5%")
        parse = self.app.stylesheet.parse_style
        words = base + parse("bold $foreground" if is_current else "$foreground 55%")
        parts = [self._bar(index, base), (f" {hunk.kind} {index + 1}/{len(hunks)} ", words)]
        for sign, count, name in (("+", hunk.new_lines, "added"), ("−", hunk.old_lines, "removed")):
            if count and not self.diff.change.binary:
                parts.append((f" {sign}{count}", base + parse(SIGNS[name][1])))
        if hunk.todo and len({each.todo for each in hunks}) > 1:
            parts.append((f" {one_line(hunk.todo, 24)}", base + self.ink("$accent")))
        right = self._chips(hunk.id, is_current, width < TWO_NUMBERS_WIDTH, base)
        left = self.paint(parts)
        room = max(width - left.cell_length - right.cell_length, 0)
        return Strip.join([left.adjust_cell_length(left.cell_length + room, base.rich_style), right]).crop(0, width)

    def _chips(self, id_: str, is_current: bool, is_narrow: bool, base: Style) -> Strip:
        parse = self.app.stylesheet.parse_style
        if id_ in self.sent:
            return self.paint([(f"{SENT[self.sent[id_]]} ", base + parse("$text-warning"))])
        if not is_current:
            return Strip([])
        segments = []
        is_clash = self.diff is not None and not self.diff.change.is_clean(id_)
        for sign, word, key, style in (SETTLE if is_clash else ACCEPT, REJECT):
            text = f" {key} " if is_narrow else f" {word} {key} "
            chip = base + parse(f"bold {style}")
            segments.append(Segment(f" {sign}{text}", (chip + Style.from_meta({"verdict": word})).rich_style))
            segments.append(Segment(" ", base.rich_style))
        return Strip(segments)

    # The mouse

    def on_click(self, event: events.Click) -> None:
        verdict = event.style.meta.get("verdict")
        if verdict in ("accept", "reject"):
            self.post_message(self.Judged(verdict))
            return
        if verdict == "settle":
            self.post_message(self.Settles())
            return
        row = event.y + self.scroll_offset.y
        if self.diff is not None and 0 <= row < len(self._page.rows):
            hunk = self._page.rows[row].hunk
            if hunk >= 0 and hunk != self.current:
                self.post_message(self.HunkChosen(hunk))
            elif hunk >= 0 and self._page.rows[row].kind == "line":
                shown = self._page.rows[row]
                self.picked = shown.right if shown.right >= 0 else shown.left
                self.redraw()
