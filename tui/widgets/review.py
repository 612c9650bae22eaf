"""The review: pending changes, file by file and hunk by hunk, judged and worked over from the keyboard.

A verdict names hunks by the ids of the diff that is on screen, never of one that has not been seen: if the change moved
on meanwhile, the engine refuses the id and nothing is lost. Verdict keys sleep for a moment after the pane appears.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace
from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from core.protocol.commands import AnyCommand, HunkComment, HunkEdit, HunkSplit
from core.protocol.queries import HunkText
from core.protocol.review import Change, Hunk
from tui.keymap import bindings
from tui.widgets.diff_view import DiffView
from tui.widgets.hunk_editor import HunkEditor
from tui.widgets.review_input import ReviewInput
from tui.widgets.review_judging import ANSWERED_WITHIN, JudgingReview
from tui.widgets.review_showing import GRACE

__all__ = ["ANSWERED_WITHIN", "GRACE", "ReviewPane"]


class ReviewPane(JudgingReview):
    """Adds what is done to a hunk before its verdict: split it, edit it, comment it; and what is decided at once."""

    DEFAULT_CSS = """
    ReviewPane { width: 1fr; height: 1fr; background: $background; }
    ReviewPane > .review--origin { height: 1; text-wrap: nowrap; text-overflow: ellipsis; background: $surface; }
    ReviewPane > .review--risk { height: auto; max-height: 2; padding: 0 1; color: $text-error; }
    ReviewPane > .review--risk { background: $error-muted; }
    ReviewPane > .review--risk.-label { color: $text-warning; background: $surface; }
    ReviewPane > .review--conflict { height: auto; max-height: 4; padding: 0 1; }
    ReviewPane > .review--conflict { color: $text-warning; background: $warning-muted; }
    ReviewPane > ReviewInput { height: 1; border: none; padding: 0 1; background: $primary-muted; }
    ReviewPane > ReviewInput.-reason { background: $error-muted; }
    ReviewPane > HunkEditor, ReviewPane > HunkEditor:focus { height: 1fr; border: none; padding: 0; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("review")

    @dataclass
    class Wants(Message):
        """A command that the engine is to carry out."""

        command: AnyCommand

    @dataclass
    class WantsText(Message):
        """The whole new side of a hunk is to be edited: `edit` is waited for."""

        path: str
        hunk: str

    class WantsComments(Message):
        """The comments are to be looked at and sent."""

    @dataclass
    class WantsOrigin(Message):
        """All of one origin is to be judged; this is the change under the cursor."""

        change: Change

    @dataclass
    class ShowsTodo(Message):
        """The todo that the hunk under the cursor was made for is to be shown, "" = that of its change."""

        change: Change
        todo: str = ""

    @dataclass
    class WantsConflict(Message):
        """A conflict is to be settled."""

        path: str

    @dataclass
    class OpenFile(Message):
        """The file is to be shown at a line (1-indexed)."""

        path: str
        line: int

    def _here(self) -> tuple[str, Hunk] | None:
        """The hunk under the cursor, if it waits and is seen."""
        diff, current = self._shown(), self._view.current
        if diff is None or self._lists or current < 0 or self._is_asleep() or self._is_sent(current):
            return None
        if self._is_unseen():
            return None
        return diff.change.path, diff.change.hunks[current]

    def _change(self) -> Change | None:
        """The change under the cursor, in the list, too."""
        if self._lists:
            row = self._list.row
            return self._changes[row.members[0]] if row is not None and row.members else None
        return self._changes[self._index] if self._changes else None

    def action_open(self) -> None:
        """Show the file at the hunk."""
        if (change := self._change()) is not None:
            diff = self._shown() if not self._lists else None
            hunk = diff.change.hunks[self._view.current] if diff is not None and self._view.current >= 0 else None
            self.post_message(self.OpenFile(change.path, max(hunk.new_start, 1) if hunk else 1))

    # A hunk

    def action_pick(self, step: int) -> None:
        """Mark a line of the hunk."""
        if not self._lists:
            self._view.pick(step)

    def action_divide(self) -> None:
        """Split the hunk before the marked line, else where it falls apart."""
        if here := self._here():
            line = self._view.picked_line
            self.post_message(self.Wants(HunkSplit(path=here[0], hunk=here[1].id, line=line if line > 1 else 0)))

    def action_edit(self) -> None:
        """Edit what the hunk puts into the file."""
        if here := self._here():
            self.post_message(self.WantsText(here[0], here[1].id))

    async def edit(self, found: HunkText) -> None:
        """The text to edit has come."""
        if not self.query(HunkEditor):
            await self.mount(HunkEditor(), after=self._view)
        editor = self.query_one(HunkEditor)
        editor.begin(found.path, found.hunk, found.text, found.start)
        editor.display, self._view.display = True, False
        editor.focus()

    @on(HunkEditor.Saved)
    def _save(self, event: HunkEditor.Saved) -> None:
        event.stop()
        self.post_message(self.Wants(HunkEdit(path=event.path, hunk=event.hunk, text=event.text)))
        self._close_editor()

    @on(HunkEditor.Left)
    def _close_editor(self) -> None:
        self.query_one(HunkEditor).display = False
        self._view.display = True
        self.unseen()
        self.focus()

    def action_comment(self) -> None:
        """Say something about the hunk."""
        if here := self._here():
            self._asked_for = (here[0], (here[1].id,))
            said = self._comments.get((here[0], here[1].id))
            self.query_one(ReviewInput).ask("comment", said.text if said else "")

    def action_send_comments(self) -> None:
        """Look at the comments and send them."""
        self.post_message(self.WantsComments())

    # More than a hunk

    def action_by_origin(self) -> None:
        """Judge all of one origin at once."""
        if (change := self._change()) is not None and not self._is_asleep():
            here = self._here()
            if change.origin is not None and here is not None and here[1].todo:
                change = replace(change, origin=replace(change.origin, todo=here[1].todo))
            self.post_message(self.WantsOrigin(change))

    def action_todo(self) -> None:
        """Show the todo that this was changed for."""
        if (change := self._change()) is not None:
            here = self._here()
            self.post_message(self.ShowsTodo(change, here[1].todo if here else ""))

    @on(DiffView.Settles)
    def _settle_by_mouse(self, event: DiffView.Settles) -> None:
        event.stop()
        self.action_settle()

    def action_settle(self) -> None:
        """Settle the conflict of this file."""
        if (change := self._change()) is not None:
            self.post_message(self.WantsConflict(change.path))

    def action_filter(self) -> None:
        """Find files in the list."""
        if not self._changes and not self._bulks:
            return
        if not self._lists:
            self._show_list(True)
        self.query_one(ReviewInput).ask("filter", self._list.pattern)

    # The line at the foot

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        asked = self.query_one(ReviewInput)
        if asked.display and asked.purpose == "filter":
            self._set_filter(event.value)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        path, ids = self._asked_for
        purpose = self.query_one(ReviewInput).purpose
        self._close_input()
        if purpose == "reason":
            change = next((each for each in self._changes if each.path == path), None)
            if change is not None:
                self._judge(change, ids, "reject", event.value.strip())
        elif purpose == "comment" and (event.value.strip() or (path, ids[0]) in self._comments):
            self.post_message(self.Wants(HunkComment(path=path, hunk=ids[0], text=event.value.strip())))

    @on(ReviewInput.Cancelled)
    def _cancelled(self) -> None:
        asked = self.query_one(ReviewInput)
        self._close_input()
        if asked.purpose == "filter":
            self._set_filter("")

    def _close_input(self) -> None:
        self.query_one(ReviewInput).display = False
        self.focus()
