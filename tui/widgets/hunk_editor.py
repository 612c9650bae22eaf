"""The new side of a hunk, in an editor of its own: saved as the pending state, or left as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from tui.keymap import bindings


class HunkEditor(TextArea):
    """`begin` puts a hunk in. A last newline is not shown, and comes back."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("editor", priority=True)

    @dataclass
    class Saved(Message):
        """The text is to be the hunk's new side."""

        path: str
        hunk: str
        text: str

    class Left(Message):
        """The hunk stays as it was."""

    def __init__(self) -> None:
        super().__init__(id="hunk-editor", show_line_numbers=True, soft_wrap=False, tab_behavior="indent")
        self._place = ("", "")
        self._before = ""
        self._ends = True

    def begin(self, path: str, hunk: str, text: str, start: int) -> None:
        """Edit a hunk whose new side begins at line `start`."""
        self._place, self._before = (path, hunk), text
        self._ends = text.endswith("\n") or not text
        self.text = text.removesuffix("\n")
        self.line_number_start = start
        self.cursor_blink = False
        self.move_cursor((0, 0))

    @property
    def suffix(self) -> str:
        """The file's, so that another editor knows the language."""
        name = self._place[0].rpartition("/")[2]
        return name[name.rfind(".") :] if "." in name[1:] and name.isascii() else ""

    @property
    def result(self) -> str:
        """The text with the last newline that it had."""
        return self.text + "\n" if self._ends and self.text else self.text

    def action_save(self) -> None:
        """Keep the text as the pending state."""
        path, hunk = self._place
        self.post_message(self.Saved(path, hunk, self.result) if self.result != self._before else self.Left())

    def action_cancel(self) -> None:
        """Leave the hunk as it was."""
        self.post_message(self.Left())


def is_plain(text: str) -> bool:
    """Whether an editor of lines gives the text back as it is: it knows no line ending but the newline."""
    return len(f"{text}.".splitlines()) == text.count("\n") + 1
