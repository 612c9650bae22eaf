"""The comments that wait, before they are sent: as one message, or without those that are removed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.commands import AnyCommand, HunkComment
from core.protocol.review import Comment
from tui.keymap import bindings
from tui.screens.dialog import Dialog
from tui.text import one_line, plain
from tui.widgets.side import hint


class Comments(Dialog[bool]):
    """Answers whether they are to be sent. `drop` takes the command that removes one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("comments")

    def __init__(self, comments: Sequence[Comment], *, drop: Callable[[AnyCommand], None]) -> None:
        super().__init__()
        self._comments = sorted(comments, key=lambda each: (each.path, each.start))
        self._drop = drop

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Your comments, as one message"), classes="dialog-title")
            yield OptionList(compact=True)
            yield Static(id="comments-keys")

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        named = (("comments.send", "send"), ("comments.drop", "remove the marked one"), ("comments.leave", "back"))
        self.query_one("#comments-keys", Static).update(hint(named, getattr(self.app, "keymap", {})))
        self._fill(0)

    def _fill(self, at: int) -> None:
        options = self.query_one(OptionList)
        options.set_options(Option(_line(each)) for each in self._comments)
        options.highlighted = min(at, len(self._comments) - 1) if self._comments else None

    def action_move(self, step: int) -> None:
        """Mark another one."""
        options = self.query_one(OptionList)
        options.highlighted = ((options.highlighted or 0) + step) % max(len(self._comments), 1)

    def action_drop(self) -> None:
        """Remove the marked one; with the last of them the dialog closes."""
        at = self.query_one(OptionList).highlighted
        if at is None:
            return
        gone = self._comments.pop(at)
        self._drop(HunkComment(path=gone.path, hunk=gone.hunk, text=""))
        if self._comments:
            self._fill(at)
        else:
            self.give(False)

    def action_send(self) -> None:
        """Send all of them."""
        self.give(True)

    def action_leave(self) -> None:
        """Send nothing."""
        self.give(False)


def _line(comment: Comment) -> Content:
    place = f"{one_line(comment.path, 60)}:{comment.start}"
    return Content.assemble((place, "$foreground 60%"), "\n  ", plain(comment.text))
