"""The comments that wait, before they are sent: as one message, with other words, or without those removed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.commands import AnyCommand, HunkComment, PlanComment
from core.protocol.plans import Plan
from core.protocol.review import Comment
from tui.keymap import bindings
from tui.screens.dialog import Dialog
from tui.text import named, one_line, plain
from tui.widgets.review_input import ReviewInput
from tui.widgets.side import HINTS, hint

KEYS: Final = (
    ("comments.send", "send"),
    ("comments.edit", "edit"),
    ("comments.drop", "remove the marked one"),
    ("comments.leave", "back"),
)


class Comments(Dialog[bool]):
    """Answers whether they are to be sent. `change` takes the command that changes or removes one; `plans`, by path,
    tell whether the lines that one is about are still there."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("comments")
    consents = True

    def __init__(
        self, comments: Sequence[Comment], *, change: Callable[[AnyCommand], None], plans: Mapping[str, Plan]
    ) -> None:
        super().__init__()
        self._comments = sorted(comments, key=lambda each: (each.path, each.start))
        self._change, self._plans = change, plans

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Your comments, as one message"), classes="dialog-title")
            yield OptionList(compact=True)
            line = ReviewInput(compact=True, select_on_focus=False)
            line.cursor_blink = line.display = False
            yield line
            yield Static(id="comments-keys")

    def opened(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._show_keys(KEYS)
        self._fill(0)

    def _show_keys(self, named: tuple[tuple[str, str], ...]) -> None:
        self.query_one("#comments-keys", Static).update(hint(named, getattr(self.app, "keymap", {})))

    def _fill(self, at: int) -> None:
        options = self.query_one(OptionList)
        options.set_options(Option(self._line(each)) for each in self._comments)
        options.highlighted = min(at, len(self._comments) - 1) if self._comments else None

    def _line(self, comment: Comment) -> Content:
        place, note = f"{named(comment.path, 60)}:{comment.start}", ""
        plan = self._plans.get(comment.path) if comment.on_plan else None
        if plan is not None:
            now = comment.place_in(plan.body)
            place = f"{named(comment.path, 60)}:{now}" if now else named(comment.path, 60)
            note = "" if now else f"  its lines have changed: {one_line(comment.excerpt, 40)}"
        return Content.assemble((place, "$foreground 60%"), (note, "$text-warning"), "\n  ", plain(comment.text))

    def action_move(self, step: int) -> None:
        """Mark another one."""
        options = self.query_one(OptionList)
        options.highlighted = ((options.highlighted or 0) + step) % max(len(self._comments), 1)

    def action_edit(self) -> None:
        """Change what the marked one says."""
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self.query_one(ReviewInput).ask("comment", self._comments[at].text)
            self._show_keys(HINTS["comment"])

    @on(Input.Submitted)
    def _edited(self, event: Input.Submitted) -> None:
        at = self.query_one(OptionList).highlighted
        self._close_line()
        text = event.value.strip()
        if at is None or text == self._comments[at].text:
            return
        if not text:
            self.action_drop()
            return
        self._change(_command(self._comments[at], text))
        self._comments[at] = replace(self._comments[at], text=text)
        self._fill(at)

    @on(ReviewInput.Cancelled)
    def _close_line(self) -> None:
        self.query_one(ReviewInput).display = False
        self._show_keys(KEYS)
        self.set_focus(None)

    def action_drop(self) -> None:
        """Remove the marked one; with the last of them the dialog closes."""
        at = self.query_one(OptionList).highlighted
        if at is None:
            return
        self._change(_command(self._comments.pop(at), ""))
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


def _command(comment: Comment, text: str) -> AnyCommand:
    if comment.on_plan:
        return PlanComment(path=comment.path, id=comment.hunk, text=text)
    return HunkComment(path=comment.path, hunk=comment.hunk, text=text)
