"""The editor of a hunk's new side, between its unchanged lines: it saves the pending state or leaves it alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

from rich.style import Style as RichStyle
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea
from textual.widgets.text_area import TextAreaTheme

from core.protocol.commands import HunkEdit
from core.protocol.queries import HunkAnswer
from tui.keymap import get_bindings
from tui.review.diff.layout import CleanLine
from tui.review.messages import CommandRequested
from tui.themes.building import SYNTAX
from tui.widgets.highlight import CHUNK_LINES, HighlightedText

THEME_NAME: Final = "hunk"
_SUFFIXES: Final = {"python": ".py", "markdown": ".md"}  # of a notebook's cells, too

NumberedLine = tuple[int, str]


class EditorContext(Static):
    """Unchanged lines above or below the edited text, with their numbers, as many as fit, under an optional title."""

    def __init__(self, *, is_above: bool) -> None:
        super().__init__()
        self._is_above = is_above
        self._title: list[Content] = []
        self._rows: list[Content] = []

    def show_lines(self, lines: Sequence[NumberedLine], digits: int, title: str = "") -> None:
        self._title = [Content.styled(title, "bold $foreground")] if title else []
        self._rows = [Content(f"{number:>{digits}}  {text}") for number, text in lines]
        self.styles.max_height = len(self._title) + len(self._rows)
        self.display = bool(self._title or self._rows)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        room = max(self.size.height - len(self._title), 0)
        rows = self._rows[max(len(self._rows) - room, 0) :] if self._is_above else self._rows[:room]
        self.update(Content("\n").join([*self._title, *rows]), layout=False)


def find_context(lines: Sequence[CleanLine], hunk: int) -> tuple[list[NumberedLine], list[NumberedLine]]:
    """Return numbers and texts of the lines of the pending file above and below a hunk."""
    hunk_indices = [index for index, line in enumerate(lines) if line.hunk == hunk]
    if not hunk_indices:
        return [], []
    sides = (reversed(lines[: hunk_indices[0]]), iter(lines[hunk_indices[-1] + 1 :]))
    above, below = (_collect_pending(side) for side in sides)
    return above[::-1], below


def _collect_pending(lines: Iterable[CleanLine]) -> list[NumberedLine]:
    adjacent_lines = takewhile(lambda line: line.kind != "gap", lines)
    return [(line.new, line.text) for line in adjacent_lines if line.new]


class HunkEditor(TextArea):
    """Edits one hunk at a time; a final newline is hidden and restored. A very long hunk has no colours."""

    BINDINGS = get_bindings("editor", priority=True)
    hints: Final = (("editor.save", "save"), ("editor.cancel", "cancel"), ("app.editor", "$EDITOR"))

    class Closed(Message):
        """The editor was closed."""

    _hunk: HunkAnswer | None = None
    digits = 1  # of the largest line number, including the context above and below

    def __init__(self) -> None:
        super().__init__(id="hunk-editor", show_line_numbers=True, soft_wrap=False, tab_behavior="indent")
        self.cursor_blink = False

    @property
    def gutter_width(self) -> int:
        return max(super().gutter_width, self.digits + 2)

    def on_mount(self) -> None:
        self._apply_colours()
        self.app.theme_changed_signal.subscribe(self, self._apply_colours)

    def _apply_colours(self, _: object = None) -> None:
        """Apply the diff's syntax colours to the editor."""
        sheet, base = self.app.stylesheet, self.visual_style
        inks = {role: (base + sheet.parse_style(name)).rich_style for role, name in SYNTAX.items()}
        styles = {role: RichStyle(color=ink.color, bold=ink.bold, italic=ink.italic) for role, ink in inks.items()}
        self.register_theme(TextAreaTheme(THEME_NAME, syntax_styles=styles))
        self.theme = THEME_NAME
        self.mutate_reactive(TextArea.theme)  # a new theme defines the same name with other colours

    def _build_highlight_map(self) -> None:
        super()._build_highlight_map()
        lines = self.document.lines
        if self._hunk is None or len(lines) > CHUNK_LINES:
            return
        code = HighlightedText(lines, self._hunk.language, self._hunk.path)
        code.highlight_chunk(0)
        for index, line in enumerate(lines):
            for start, end, role in code.get_spans(index) or ():
                # Textual counts in bytes of UTF-8
                self._highlights[index].append((len(line[:start].encode()), len(line[:end].encode()), role))

    def open_hunk(self, hunk: HunkAnswer) -> None:
        self._hunk = hunk
        self.text = hunk.text.removesuffix("\n")
        self.line_number_start = hunk.start
        self.move_cursor((0, 0))

    @property
    def suffix(self) -> str:
        """Suffix of the file, so that an external editor knows the language."""
        assert self._hunk is not None
        if self._hunk.language in _SUFFIXES:
            return _SUFFIXES[self._hunk.language]
        path = PurePosixPath(self._hunk.path)
        return path.suffix if path.name.isascii() else ""

    @property
    def result(self) -> str:
        """The text with the final newline that it had."""
        before = self._hunk.text if self._hunk is not None else ""
        return f"{self.text}\n" if (before.endswith("\n") or not before) and self.text else self.text

    def action_save(self) -> None:
        self.call_later(self._save)  # earlier keys may still be on their way to the text

    def _save(self) -> None:
        if self._hunk is not None and self.result != self._hunk.text:
            edit = HunkEdit(path=self._hunk.path, hunk=self._hunk.hunk, text=self.result)
            self.post_message(CommandRequested(edit))
        self.action_cancel()

    def action_cancel(self) -> None:
        self.post_message(self.Closed())


def is_line_editable(text: str) -> bool:
    """True if a line editor returns the text unchanged: it has no line ending but the newline."""
    return len(f"{text}.".splitlines()) == text.count("\n") + 1
