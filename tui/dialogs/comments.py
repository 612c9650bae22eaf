"""The dialog for pending comments: send them as one message, reword or remove them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from core.protocol.commands import AnyCommand, HunkComment, PlanComment
from core.protocol.documents import Plan
from core.protocol.review import Comment
from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.review.pane import ReviewInput
from tui.text import fit_line, format_path, to_content
from tui.widgets.key_hints import KeyHints

KEY_HINTS: Final = (
    ("comments.send", "send"),
    ("comments.edit", "edit"),
    ("comments.drop", "remove"),
    ("comments.leave", "back"),
)


class CommentsDialog(Dialog[bool]):
    """Asks whether to send the comments. `change` takes the command that edits or removes one; `plans`, by path,
    show whether a comment's lines still exist."""

    BINDINGS = get_bindings("comments")
    asks_consent = True

    def __init__(
        self, comments: Sequence[Comment], *, change: Callable[[AnyCommand], None], plans: Mapping[str, Plan]
    ) -> None:
        super().__init__("Your comments, as one message")
        self._comments = sorted(comments, key=lambda comment: (comment.path, comment.start))
        self._change, self._plans = change, plans

    def compose_body(self) -> ComposeResult:
        options = OptionList(compact=True)
        options.can_focus = False  # hidden from the start, as it would take the focus and Enter
        yield options
        yield ReviewInput(select_on_focus=False)
        yield KeyHints(id="comments-keys")

    def set_up(self) -> None:
        self._show_keys(KEY_HINTS)
        self._fill_list(0)

    def _show_keys(self, hints: tuple[tuple[str, str], ...]) -> None:
        self.query_one(KeyHints).show(hints)

    def _fill_list(self, index: int) -> None:
        options = self.query_one(OptionList)
        options.set_options(Option(self._format_comment(comment)) for comment in self._comments)
        options.highlighted = min(index, len(self._comments) - 1) if self._comments else None

    def _format_comment(self, comment: Comment) -> Content:
        path, note = format_path(comment.path, 60), ""
        plan = self._plans.get(comment.path) if comment.on_plan else None
        line = comment.find_line(plan.body) if plan else comment.start
        location = f"{path}:{line}" if line or plan is None else path
        if plan and not line:
            note = f"  its lines have changed: {fit_line(comment.excerpt, 40)}"
        return Content.assemble(
            (location, "$foreground 60%"), (note, "$text-warning"), "\n  ", to_content(comment.text)
        )

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        options.highlighted = ((options.highlighted or 0) + step) % max(len(self._comments), 1)

    def action_edit(self) -> None:
        index = self.query_one(OptionList).highlighted
        if index is not None:
            line = self.query_one(ReviewInput)
            line.ask("comment", self._comments[index].text)
            self._show_keys(line.hints)

    @on(Input.Submitted)
    def _apply_edit(self, event: Input.Submitted) -> None:
        index = self.query_one(OptionList).highlighted
        self._close_input()
        text = event.value.strip()
        if index is None or text == self._comments[index].text:
            return
        if not text:
            self.action_drop()
            return
        self._change(_build_command(self._comments[index], text))
        self._comments[index] = replace(self._comments[index], text=text)
        self._fill_list(index)

    @on(ReviewInput.Cancelled)
    def _close_input(self) -> None:
        self.query_one(ReviewInput).display = False
        self._show_keys(KEY_HINTS)
        self.set_focus(None)

    def action_drop(self) -> None:
        """Remove the marked comment; with the last of them the dialog closes."""
        index = self.query_one(OptionList).highlighted
        if index is None:
            return
        self._change(_build_command(self._comments.pop(index), ""))
        if self._comments:
            self._fill_list(index)
        else:
            self.answer(False)

    def action_send(self) -> None:
        self.answer(True)


def _build_command(comment: Comment, text: str) -> AnyCommand:
    if comment.on_plan:
        return PlanComment(path=comment.path, id=comment.hunk, text=text)
    return HunkComment(path=comment.path, hunk=comment.hunk, text=text)
