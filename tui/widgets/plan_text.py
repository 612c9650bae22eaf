"""The text of a plan, laid out and read line by line: a cursor, and what the user says about its lines below them.

A row knows the lines of the Markdown that it was made of, so that a comment quotes these, whatever the layout made of
them. A comment whose lines are gone stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from core.protocol.review import Comment
from tui.keymap import bindings
from tui.text import clean, one_line, shortened
from tui.widgets.code_view import CodeView
from tui.widgets.rows import Piece, wrap_text

SHOWN: Final = 20_000  # characters of a line
GONE: Final = "Said of lines that have changed since"
_BODY: Final[Mapping[str, str]] = {
    "heading": "bold $text-primary",
    "strong": "bold",
    "em": "italic",
    "code": "$text-accent",
    "muted": "$foreground 50%",
    "accent": "$primary",
    "link": "underline",
    "comment": "$text-warning",
    "quoted": "$foreground 50% italic",
}


@dataclass(frozen=True, slots=True)
class TextRow:
    """One screen line: `first` to `last` are its lines of the body, from 1; 0 = none. Rows of one `stop` are marked as
    one, 0 = it can't be marked."""

    pieces: Sequence[Piece]
    first: int = 0
    last: int = 0
    comment: Comment | None = None
    stop: int = 0


def text_rows(body: str, comments: Iterable[Comment], width: int) -> list[TextRow]:
    """The rows of a body with the comments on it, each below its last line."""
    rows = list(_laid_out(body, width))
    gone: list[TextRow] = []
    for comment in sorted(comments, key=lambda each: (-each.start, each.hunk)):
        place = comment.place_in(body)
        after = max((at for at, row in enumerate(rows) if 0 < row.first < place + max(comment.lines, 1)), default=-1)
        if place:
            rows[after + 1 : after + 1] = _comment_rows(comment, width)
        else:
            quoted = TextRow([(f"  {one_line(comment.excerpt, max(width - 4, 8))}", "quoted")], comment=comment)
            gone[:0] = [quoted, *_comment_rows(comment, width)]
    if gone:
        rows += [TextRow([]), TextRow([(GONE, "muted")]), *gone]
    return _with_stops(rows)


@lru_cache(maxsize=2)  # a comment more does not change how the body is laid out
def _laid_out(body: str, width: int) -> tuple[TextRow, ...]:
    from tui.markdown import render

    found = render(
        shortened(clean(body), SHOWN), width, lambda code, _: [[(each, "code")] for each in code.split("\n")]
    )
    return tuple(TextRow(row.pieces, row.lines[0] + 1 if row.lines[1] else 0, row.lines[1]) for row in found)


def _comment_rows(comment: Comment, width: int) -> list[TextRow]:
    laid_out = wrap_text(clean(comment.text), width, "comment", first=[("  ▸ ", "comment")], rest=[("    ", "")])
    return [TextRow(row.pieces, comment=comment) for row in laid_out]


def _with_stops(rows: Sequence[TextRow]) -> list[TextRow]:
    found: list[TextRow] = []
    stop, before = 0, None
    for row in rows:
        what = (row.first, row.last, row.comment.hunk if row.comment else "")
        is_blank = not row.first and row.comment is None
        if not is_blank and what != before:
            stop += 1
        before = None if is_blank else what
        found.append(TextRow(row.pieces, row.first, row.last, row.comment, 0 if is_blank else stop))
    return found


class PlanText(CodeView):
    """The body of a plan as laid-out Markdown, drawn row by row."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("plantext")

    @dataclass
    class Says(Message):
        """Something is to be said of the marked lines (`excerpt`, from `start` on), or a comment to be changed."""

        start: int
        excerpt: str
        comment: Comment | None

    @dataclass
    class Unsays(Message):
        """A comment is to go."""

        comment: Comment

    class Leaves(Message):
        """Back to the todos."""

    def __init__(self) -> None:
        super().__init__()
        self._body = self._message = ""
        self._comments: tuple[Comment, ...] = ()
        self._rows: list[TextRow] = []
        self._stop = self._anchor = 1
        self._is_asked = False

    def show(self, body: str, message: str = "", *, comments: tuple[Comment, ...] = (), again: bool = True) -> None:
        """Show a body with what was said of it, or, if there is nothing at all, a calm text. `again`: it is the plan
        that was shown before, so the cursor stays."""
        if (body, message, comments) == (self._body, self._message, self._comments):
            return
        self._body, self._message, self._comments = body, message, comments
        if not again:
            self._stop = self._anchor = 1
            self.scroll_to(0, 0, animate=False)
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(self.size.width - 3, 10)
        self._rows = text_rows(self._body, self._comments, width) if self._body or self._comments else []
        last = max((row.stop for row in self._rows), default=1)
        self._stop, self._anchor = min(self._stop, last), min(self._anchor, last)
        self.virtual_size = Size(0, len(self._rows))
        self.redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def ask(self, is_asked: bool) -> None:
        """Whether words for the marked lines are being typed: then they stay marked without the focus."""
        self._is_asked = is_asked
        self.redraw()

    def row_count(self) -> int:
        return self.size.height if self._message else len(self._rows)

    def row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._rows[row].pieces) if row < len(self._rows) else ""

    def draw(self, row: int, width: int, shift: int) -> Strip:
        if self._message:
            return self.draw_message(self._message, row, width)
        shown, spans, at = self._rows[row], [], 0
        for piece, role in shown.pieces:
            spans.append((at, at + len(piece), _BODY.get(role, "")))
            at += len(piece)
        is_marked = (self.has_focus or self._is_asked) and shown.stop in self._marked
        base = self.ink("$foreground 85% on $primary 25%" if is_marked else "$foreground 85%")
        code = self.code(self.row_text(row), base, row=row, spans=(), marks=[each for each in spans if each[2]])
        margin = self.paint([("▌" if is_marked else " ", base + self.app.stylesheet.parse_style("$primary"))])
        return Strip.join([margin, code]).crop_extend(shift, shift + width, base.rich_style)

    @property
    def keys_of(self) -> str:
        """Which keys the footer names; "" = those of a text."""
        return "" if self._rows else "nothing" if self._message else "plan"

    # The cursor

    @property
    def _marked(self) -> range:
        """The stops that are marked."""
        return range(min(self._stop, self._anchor), max(self._stop, self._anchor) + 1)

    @property
    def comment(self) -> Comment | None:
        """The comment that the cursor stands on."""
        return next((row.comment for row in self._rows if row.stop == self._stop), None)

    def marked_lines(self) -> tuple[int, str]:
        """The first line that is marked (from 1, 0 = none is) and the text of all of them."""
        marked = [row for row in self._rows if row.stop in self._marked and row.first]
        if not marked:
            return 0, ""
        first, last = min(row.first for row in marked), max(row.last for row in marked)
        return first, "\n".join(self._body.split("\n")[first - 1 : last])

    def _move_to(self, stop: int, *, extends: bool = False) -> None:
        last = max((row.stop for row in self._rows), default=1)
        self._stop = max(1, min(stop, last))
        if not extends:
            self._anchor = self._stop
        here = [at for at, row in enumerate(self._rows) if row.stop == self._stop]
        if here:
            top, height = self.scroll_offset.y, max(self.size.height, 1)
            if here[0] < top or here[-1] >= top + height:
                self.scroll_to(y=min(here[0], here[-1] - height + 1 if here[0] >= top else here[0]), animate=False)
        self.redraw()

    def action_move(self, step: int) -> None:
        """The line below, or above."""
        self._move_to(self._stop + step)

    def action_extend(self, step: int) -> None:
        """Mark the line below, or above, too."""
        self._move_to(self._stop + step, extends=True)

    def action_page(self, step: int) -> None:
        """A screenful down, or up."""
        here = next((at for at, row in enumerate(self._rows) if row.stop == self._stop), 0)
        at = max(0, min(here + step * max(self.size.height - 1, 1), len(self._rows) - 1))
        near = [row.stop for row in (self._rows[at:] if step > 0 else self._rows[at::-1]) if row.stop]
        self._move_to(near[0] if near else self._stop)

    def action_top(self) -> None:
        self._move_to(1)

    def action_bottom(self) -> None:
        self._move_to(len(self._rows))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row = self._rows[offset.y + self.scroll_offset.y] if offset and self._is_row(offset.y) else None
        if row is not None and row.stop and not self.screen.get_selected_text():
            self._move_to(row.stop, extends=event.shift)
            if event.chain == 2:
                self.action_comment()

    def _is_row(self, y: int) -> bool:
        return y + self.scroll_offset.y < len(self._rows)

    # What is said

    def action_comment(self) -> None:
        """Say something about the marked lines, or change the comment that the cursor stands on."""
        if (said := self.comment) is not None:
            self.post_message(self.Says(0, "", said))
            return
        start, excerpt = self.marked_lines()
        if start:
            self.post_message(self.Says(start, excerpt, None))

    def action_uncomment(self) -> None:
        """Remove the comment that the cursor stands on."""
        if (said := self.comment) is not None:
            self.post_message(self.Unsays(said))

    def action_todos(self) -> None:
        """Back to the todos."""
        self.post_message(self.Leaves())
