"""The review: pending changes, file by file and hunk by hunk, with verdicts from the keyboard.

A verdict names hunks by the ids of the diff on screen, never of an unseen one: if the change moved on meanwhile,
the
engine refuses the id and nothing is lost. Verdict keys are ignored for a moment after the pane appears.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace
from textual import on
from textual.binding import BindingType
from textual.widgets import Input

from core.protocol.commands import HunkComment, HunkEdit, HunkSplit
from core.protocol.queries import HunkAnswer
from core.protocol.review import Change, Hunk
from tui.keymap import get_bindings
from tui.review import messages
from tui.review.diff_view import DiffView
from tui.review.hunk_editor import HunkEditor
from tui.review.input_line import ReviewInput
from tui.review.judging import ANSWER_TIMEOUT, VerdictReview
from tui.review.showing import GRACE

__all__ = ["ANSWER_TIMEOUT", "GRACE", "ReviewPane"]


class ReviewPane(VerdictReview):
    """Adds what is done to a hunk before its verdict: split, edit, comment; and verdicts by origin."""

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

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("review")

    def _find_judgeable_hunk(self) -> tuple[str, Hunk] | None:
        """Return path and hunk under the cursor if it is pending and has been seen."""
        diff, current = self._get_current_diff(), self._view.current
        if diff is None or self._is_list_shown or current < 0 or self._is_asleep() or self._is_sent(current):
            return None
        if self._is_unseen():
            return None
        return diff.change.path, diff.change.hunks[current]

    def _find_current_change(self) -> Change | None:
        """Return the change under the cursor, in the list as well."""
        if self._is_list_shown:
            row = self._list.current_row
            return self._changes[row.members[0]] if row is not None and row.members else None
        return self._changes[self._index] if self._changes else None

    def action_open_file(self) -> None:
        """Show the file at the hunk."""
        if (change := self._find_current_change()) is not None:
            diff = self._get_current_diff() if not self._is_list_shown else None
            hunk = diff.change.hunks[self._view.current] if diff is not None and self._view.current >= 0 else None
            self.post_message(messages.FileRequested(change.path, max(hunk.new_start, 1) if hunk else 1))

    # A hunk

    def action_mark_line(self, step: int) -> None:
        """Move the line mark within the hunk."""
        if not self._is_list_shown:
            self._view.move_line_mark(step)

    def action_split_hunk(self) -> None:
        """Split the hunk before the marked line, else at its gaps."""
        if here := self._find_judgeable_hunk():
            line = self._view.marked_line
            self.post_message(
                messages.CommandRequested(HunkSplit(path=here[0], hunk=here[1].id, line=line if line > 1 else 0))
            )

    def action_edit_hunk(self) -> None:
        """Edit the new side of the hunk."""
        if here := self._find_judgeable_hunk():
            self.post_message(messages.HunkTextRequested(here[0], here[1].id))

    async def edit_hunk(self, hunk: HunkAnswer) -> None:
        """Open the editor with the text of a hunk."""
        if not self.query(HunkEditor):
            await self.mount(HunkEditor(), after=self._view)
        editor = self.query_one(HunkEditor)
        editor.open_hunk(hunk.path, hunk.hunk, hunk.text, hunk.start)
        editor.display, self._view.display = True, False
        editor.focus()

    @on(HunkEditor.Saved)
    def _on_hunk_saved(self, event: HunkEditor.Saved) -> None:
        event.stop()
        self.post_message(messages.CommandRequested(HunkEdit(path=event.path, hunk=event.hunk, text=event.text)))
        self._close_editor()

    @on(HunkEditor.Cancelled)
    def _close_editor(self) -> None:
        """Put the diff back in the place of the editor."""
        self.query_one(HunkEditor).display = False
        self._view.display = True
        self.restart_grace()
        self.focus()

    def action_comment(self) -> None:
        """Comment the hunk."""
        if here := self._find_judgeable_hunk():
            self._input_target = (here[0], (here[1].id,))
            said = self._comments.get((here[0], here[1].id))
            self.query_one(ReviewInput).ask("comment", said.text if said else "")

    def action_send_comments(self) -> None:
        """Review the comments and send them."""
        self.post_message(messages.CommentsRequested())

    # More than a hunk

    def action_resolve_origin(self) -> None:
        """Give one verdict on all changes of one origin."""
        if (change := self._find_current_change()) is not None and not self._is_asleep():
            here = self._find_judgeable_hunk()
            if change.origin is not None and here is not None and here[1].todo:
                change = replace(change, origin=replace(change.origin, todo=here[1].todo))
            self.post_message(messages.OriginVerdictRequested(change))

    def action_show_todo(self) -> None:
        """Show the todo that this change was made for."""
        if (change := self._find_current_change()) is not None:
            here = self._find_judgeable_hunk()
            self.post_message(messages.TodoRequested(change, here[1].todo if here else ""))

    @on(DiffView.ResolveClicked)
    def _on_resolve_clicked(self, event: DiffView.ResolveClicked) -> None:
        event.stop()
        self.action_resolve_conflict()

    def action_resolve_conflict(self) -> None:
        """Resolve the conflict of this file."""
        if (change := self._find_current_change()) is not None:
            self.post_message(messages.ConflictRequested(change.path))

    def action_filter(self) -> None:
        """Filter the list of changes."""
        if not self._changes and not self._bulks:
            return
        if not self._is_list_shown:
            self._show_list(True)
        self.query_one(ReviewInput).ask("filter", self._list.pattern)

    # The line at the foot

    @on(Input.Changed)
    def _on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        asked = self.query_one(ReviewInput)
        if asked.display and asked.purpose == "filter":
            self._set_filter(event.value)

    @on(Input.Submitted)
    def _on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        path, ids = self._input_target
        purpose = self.query_one(ReviewInput).purpose
        self._close_input()
        if purpose == "reason":
            change = next((each for each in self._changes if each.path == path), None)
            if change is not None:
                self._send_verdict(change, ids, "reject", event.value.strip())
        elif purpose == "comment" and (event.value.strip() or (path, ids[0]) in self._comments):
            self.post_message(messages.CommandRequested(HunkComment(path=path, hunk=ids[0], text=event.value.strip())))

    @on(ReviewInput.Cancelled)
    def _on_input_cancelled(self) -> None:
        asked = self.query_one(ReviewInput)
        self._close_input()
        if asked.purpose == "filter":
            self._set_filter("")

    def _close_input(self) -> None:
        self.query_one(ReviewInput).display = False
        self.focus()
