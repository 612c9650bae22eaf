"""Editor of a hunk's new side: saved as the pending state, or left as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from tui.keymap import get_bindings


class HunkEditor(TextArea):
    """Edits one hunk at a time; a final newline is hidden and restored."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("editor", priority=True)
    hints: Final = (("editor.save", "save"), ("editor.cancel", "leave it"), ("app.editor", "$EDITOR"))

    @dataclass
    class Saved(Message):
        """`text` is the new side of the hunk."""

        path: str
        hunk: str
        text: str

    class Cancelled(Message):
        """The hunk stays as it was."""

    def __init__(self) -> None:
        super().__init__(id="hunk-editor", show_line_numbers=True, soft_wrap=False, tab_behavior="indent")
        self._place = ("", "")
        self._before = ""
        self._has_final_newline = True

    def open_hunk(self, path: str, hunk: str, text: str, start: int) -> None:
        """Edit a hunk whose new side begins at line `start`."""
        self._place, self._before = (path, hunk), text
        self._has_final_newline = text.endswith("\n") or not text
        self.text = text.removesuffix("\n")
        self.line_number_start = start
        self.cursor_blink = False
        self.move_cursor((0, 0))

    @property
    def suffix(self) -> str:
        """Suffix of the file, so that an external editor knows the language."""
        name = self._place[0].rpartition("/")[2]
        return name[name.rfind(".") :] if "." in name[1:] and name.isascii() else ""

    @property
    def result(self) -> str:
        """The text with the final newline that it had."""
        return self.text + "\n" if self._has_final_newline and self.text else self.text

    def action_save(self) -> None:
        path, hunk = self._place
        self.post_message(self.Saved(path, hunk, self.result) if self.result != self._before else self.Cancelled())

    def action_cancel(self) -> None:
        self.post_message(self.Cancelled())


def is_line_editable(text: str) -> bool:
    """True if a line editor returns the text unchanged: it has no line ending but the newline."""
    return len(f"{text}.".splitlines()) == text.count("\n") + 1
