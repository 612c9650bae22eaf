"""The text of a plan with a line cursor and the user's comments below their quoted lines.

A row knows its source lines in the Markdown, so quotes of a comment are independent of the layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, dropwhile, groupby
from typing import Final

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from core.protocol.documents import Plan
from core.protocol.review import Comment
from core.text.counting import count as count_things
from tui.keymap import get_bindings, insert_keys
from tui.text import expose_text, fit_line, render_prose, shorten_lines
from tui.widgets.key_hints import NOTHING_HINTS, Hint
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import Piece, wrap_text

MAX_LINE_LENGTH: Final = 20_000  # characters of a line
LOST_COMMENTS: Final = "Comments on lines that have changed"
MAX_NAMED: Final = 3  # plans of the project
USUAL_PLACE: Final = ".cursor/plans"
EMPTY: Final = "In Plan mode the agent writes one with you: todos with dependencies, saved in"
MODE_KEY: Final = "Press {app.mode_next} to switch modes."
_ROLE_STYLES: Final[Mapping[str, str]] = {
    "heading": "bold $text-primary",
    "strong": "bold",
    "em": "italic",
    "code": "$text-accent",
    "muted": "$foreground 50%",
    "struck": "$foreground 50% strike",
    "accent": "$primary",
    "link": "underline",
    "comment": "$text-warning",
    "quoted": "$foreground 50% italic",
}


TEXT_HINTS: Final[tuple[Hint, ...]] = (
    ("plantext.comment", "comment"),
    ("plantext.mark_down", "mark"),
    ("plan.send", "send"),
    ("plan.body", "edit"),
    ("plantext.todos", "todos"),
)


@dataclass(frozen=True, slots=True)
class PlanTextRow:
    """One screen line of the body's lines `first` to `last`, from 1, 0 = none. A `stop` is marked as one."""

    pieces: Sequence[Piece]
    first: int = 0
    last: int = 0
    comment: Comment | None = None
    stop: int = 0


def describe_nothing(names: Sequence[str], keymap: Mapping[str, str], directory: str = USUAL_PLACE) -> str:
    """Describe a panel without a plan: the plans of the project, and how to open or create one."""
    empty = f"{EMPTY} {fit_line(directory, 80)}. {insert_keys(MODE_KEY, keymap)}"
    if not names:
        return f"No plan in this project yet\n\n{empty}"
    name_list = ", ".join(fit_line(name, 40) for name in names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
    hint = "{plantext.todos} to open it." if len(names) == 1 else "{plantext.todos} to choose one."
    title = f"No plan is open; this project has {count_things('plan', len(names))}"
    return f"{title}\n\n{name_list}: {insert_keys(hint, keymap)} {empty}"


def layout_text(body: str, comments: Iterable[Comment], width: int, *, title: str = "") -> list[PlanTextRow]:
    """Return the rows of a body with each comment below its last line, without a first heading that repeats the
    title."""
    rows = _drop_title(_layout_body(body, width), title)
    lost_rows: list[PlanTextRow] = []
    for comment in sorted(comments, key=lambda remark: (-remark.start, remark.hunk)):
        line_number = comment.find_line(body)
        after = max(
            (index for index, row in enumerate(rows) if 0 < row.first < line_number + max(comment.lines, 1)), default=-1
        )
        if line_number:
            rows[after + 1 : after + 1] = _layout_comment(comment, width)
        else:
            quote_row = PlanTextRow([(f"  {fit_line(comment.excerpt, max(width - 4, 8))}", "quoted")], comment=comment)
            lost_rows[:0] = [quote_row, *_layout_comment(comment, width)]
    if lost_rows:
        rows += [PlanTextRow([]), PlanTextRow([(LOST_COMMENTS, "muted")]), *lost_rows]
    return _number_stops(rows)


def _drop_title(rows: Sequence[PlanTextRow], title: str) -> list[PlanTextRow]:
    """Return the rows without a first heading that repeats the title in any form."""
    content_rows = list(dropwhile(lambda row: not _read_row(row).strip(), rows))
    heading = [row for row in content_rows if (row.first, row.last) == (content_rows[0].first, content_rows[0].last)]
    is_heading = any(role == "heading" for row in heading for _, role in row.pieces)
    if not title or not is_heading or _list_words(" ".join(map(_read_row, heading))) != _list_words(title):
        return list(rows)
    return list(dropwhile(lambda row: not _read_row(row).strip(), content_rows[len(heading) :]))


def _read_row(row: PlanTextRow) -> str:
    return "".join(text for text, _ in row.pieces)


def _list_words(text: str) -> list[str]:
    """Return the words of a title without the one that marks a plan."""
    return [word for word in re.findall(r"\w+", text.casefold()) if word != "plan"]


@lru_cache(maxsize=2)  # comments do not change the layout of the body
def _layout_body(body: str, width: int) -> tuple[PlanTextRow, ...]:
    from tui.widgets.markdown_rows import render_markdown

    text = expose_text(shorten_lines(body, MAX_LINE_LENGTH), keeps_blanks=True).expandtabs(4)
    text_rows = render_markdown(text, width, lambda code, _: [[(code_line, "code")] for code_line in code.split("\n")])
    return tuple(PlanTextRow(row.pieces, row.lines[0] + 1 if row.lines[1] else 0, row.lines[1]) for row in text_rows)


def _layout_comment(comment: Comment, width: int) -> list[PlanTextRow]:
    laid_out = wrap_text(render_prose(comment.text), width, "comment", first=[("  ▸ ", "comment")], rest=[("    ", "")])
    return [PlanTextRow(row.pieces, comment=comment) for row in laid_out]


def _number_stops(rows: Sequence[PlanTextRow]) -> list[PlanTextRow]:
    numbered_rows: list[PlanTextRow] = []
    stops = count(1)
    for source, together in groupby(rows, lambda row: (row.first, row.last, row.comment.hunk if row.comment else "")):
        stop = next(stops) if source != (0, 0, "") else 0
        numbered_rows += [replace(row, stop=stop) for row in together]
    return numbered_rows


class PlanText(CursorView):
    """The body of a plan as Markdown, row by row."""

    BINDINGS = get_bindings("plantext")

    @dataclass
    class CommentRequested(Message):
        """A comment on the marked lines (`excerpt`, from `start` on), or a change of `comment`."""

        start: int
        excerpt: str
        comment: Comment | None

    @dataclass
    class CommentRemoved(Message):
        """Requests the removal of a comment."""

        comment: Comment

    class Left(Message):
        """The user returned to the todos."""

    def __init__(self) -> None:
        super().__init__()
        self._body = self._title = self._message = ""
        self._comments: tuple[Comment, ...] = ()
        self._rows: list[PlanTextRow] = []
        self.cursor = self._anchor = 1
        self._is_commenting = False

    def show(
        self, plan: Plan | None, message: str = "", *, comments: tuple[Comment, ...] = (), is_same: bool = True
    ) -> None:
        """Show a plan's text with its comments, or `message` if there is nothing. The cursor stays in the same plan."""
        body, title = (plan.body, plan.name) if plan is not None else ("", "")
        if (body, title, message, comments) == (self._body, self._title, self._message, self._comments):
            return
        self._body, self._title, self._message, self._comments = body, title, message, comments
        if not is_same:
            self.cursor = self._anchor = 1
            self.scroll_to(0, 0, animate=False)
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(self.size.width - 3, 10)
        has_text = bool(self._body or self._comments)
        self._rows = layout_text(self._body, self._comments, width, title=self._title) if has_text else []
        last = max((row.stop for row in self._rows), default=1)
        self.cursor, self._anchor = min(self.cursor, last), min(self._anchor, last)
        self.virtual_size = Size(0, len(self._rows))
        self.redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    on_focus = on_blur = CursorView.redraw

    def set_commenting(self, is_commenting: bool) -> None:
        """Leave the marked lines marked without the focus while a comment on them is typed."""
        self._is_commenting = is_commenting
        self.redraw()

    def count_rows(self) -> int:
        return self.size.height if self._message else len(self._rows)

    def get_row_text(self, row: int) -> str:
        return _read_row(self._rows[row]) if row < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if self._message:
            return self.render_message(self._message, row, width)
        text_row = self._rows[row]
        pieces = [(text, _ROLE_STYLES.get(role, "")) for text, role in text_row.pieces]
        is_marked = (self.has_focus or self._is_commenting) and text_row.stop in self._marked_stops
        base = self.resolve_style("$foreground 85% on $primary 25%" if is_marked else "$foreground 85%")
        margin = self.render_styled([("▌" if is_marked else " ", "$primary")], base)
        return Strip.join([margin, self.render_text_pieces(pieces, base, row=row)]).crop_extend(
            shift, shift + width, base.rich_style
        )

    @property
    def hints(self) -> tuple[Hint, ...]:
        return TEXT_HINTS if self._rows else NOTHING_HINTS if self._message else ()

    # The cursor

    @property
    def _marked_stops(self) -> range:
        return range(min(self.cursor, self._anchor), max(self.cursor, self._anchor) + 1)

    @property
    def current_comment(self) -> Comment | None:
        return next((row.comment for row in self._rows if row.stop == self.cursor), None)

    def get_marked_lines(self) -> tuple[int, str]:
        """Return the first marked line (from 1, 0 = none) and the text of all."""
        marked_rows = [row for row in self._rows if row.stop in self._marked_stops and row.first]
        if not marked_rows:
            return 0, ""
        first, last = min(row.first for row in marked_rows), max(row.last for row in marked_rows)
        return first, "\n".join(self._body.split("\n")[first - 1 : last])

    def get_copied_text(self) -> str:
        """Return the marked lines."""
        return self.get_marked_lines()[1]

    def move_to(self, index: int, *, extends: bool = False) -> None:
        last = max((row.stop for row in self._rows), default=1)
        self.cursor = max(1, min(index, last))
        if not extends:
            self._anchor = self.cursor
        cursor_rows = [row_index for row_index, row in enumerate(self._rows) if row.stop == self.cursor]
        if cursor_rows:
            self.reveal_rows(cursor_rows[0], cursor_rows[-1])
        self.redraw()

    def action_extend(self, step: int) -> None:
        self.move_to(self.cursor + step, extends=True)

    def action_page(self, step: int) -> None:
        current_row = next((index for index, row in enumerate(self._rows) if row.stop == self.cursor), 0)
        target_row = max(0, min(current_row + step * max(self.size.height - 1, 1), len(self._rows) - 1))
        nearby_stops = [
            row.stop for row in (self._rows[target_row:] if step > 0 else self._rows[target_row::-1]) if row.stop
        ]
        self.move_to(nearby_stops[0] if nearby_stops else self.cursor)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row_index = offset.y + self.scroll_offset.y if offset else len(self._rows)
        row = self._rows[row_index] if row_index < len(self._rows) else None
        if row is not None and row.stop and not self.screen.get_selected_text():
            self.move_to(row.stop, extends=event.shift)
            if event.chain == 2:
                self.action_comment()

    # Messages

    def action_comment(self) -> None:
        if (comment := self.current_comment) is not None:
            self.post_message(self.CommentRequested(0, "", comment))
            return
        start, excerpt = self.get_marked_lines()
        if start:
            self.post_message(self.CommentRequested(start, excerpt, None))

    def action_uncomment(self) -> None:
        if (comment := self.current_comment) is not None:
            self.post_message(self.CommentRemoved(comment))

    def action_show_todos(self) -> None:
        self.post_message(self.Left())
