"""Editor of a hunk's new side: saved as the pending state, or left as it was."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from textual.message import Message
from textual.widgets import TextArea

from core.protocol.commands import HunkEdit
from core.protocol.queries import HunkAnswer
from tui.keymap import get_bindings
from tui.review.messages import CommandRequested

_SUFFIXES: Final = {"python": ".py", "markdown": ".md"}  # of a notebook's cells, too


class HunkEditor(TextArea):
    """Edits one hunk at a time; a final newline is hidden and restored."""

    BINDINGS = get_bindings("editor", priority=True)
    hints: Final = (("editor.save", "save"), ("editor.cancel", "leave it"), ("app.editor", "$EDITOR"))

    class Closed(Message):
        """The hunk is saved, or stays as it was."""

    def __init__(self) -> None:
        super().__init__(id="hunk-editor", show_line_numbers=True, soft_wrap=False, tab_behavior="indent")
        self.cursor_blink = False

    def open_hunk(self, hunk: HunkAnswer) -> None:
        self._hunk = hunk
        self.text = hunk.text.removesuffix("\n")
        self.line_number_start = hunk.start
        self.move_cursor((0, 0))

    @property
    def suffix(self) -> str:
        """Suffix of the file, so that an external editor knows the language."""
        if self._hunk.language in _SUFFIXES:
            return _SUFFIXES[self._hunk.language]
        path = PurePosixPath(self._hunk.path)
        return path.suffix if path.name.isascii() else ""

    @property
    def result(self) -> str:
        """The text with the final newline that it had."""
        is_ended = self._hunk.text.endswith("\n") or not self._hunk.text
        return f"{self.text}\n" if is_ended and self.text else self.text

    def action_save(self) -> None:
        self.call_later(self._save)  # what was typed before it may still be on its way to the text

    def _save(self) -> None:
        if self.result != self._hunk.text:
            edit = HunkEdit(path=self._hunk.path, hunk=self._hunk.hunk, text=self.result)
            self.post_message(CommandRequested(edit))
        self.action_cancel()

    def action_cancel(self) -> None:
        self.post_message(self.Closed())


def is_line_editable(text: str) -> bool:
    """True if a line editor returns the text unchanged: it has no line ending but the newline."""
    return len(f"{text}.".splitlines()) == text.count("\n") + 1
