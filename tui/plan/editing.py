"""The inputs of the plan panel: one line about a todo or a comment, and the text of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from textual.message import Message
from textual.widgets import TextArea

from core.protocol.documents import Plan
from tui.keymap import get_bindings
from tui.plan import messages
from tui.widgets.input_line import InputLine, InputPurpose


class PlanInput(InputLine):
    """Asks for what a todo says, waits for or is proved by, for words to filter by, or for a comment."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "add": InputPurpose("What is to be done. Enter adds it below the marked todo", "done"),
        "edit": InputPurpose("What is to be done. Enter changes it", "done"),
        "needs": InputPurpose("Ids that it waits for, with commas between them; empty: it waits for nothing", "done"),
        "verify": InputPurpose("A command that has to pass before it is completed; empty: none", "done"),
        "filter": InputPurpose("Words, or ready, doing, blocked, done; esc: all", "stay with it", "show all"),
        "comment": InputPurpose("Your comment. Enter keeps it for S, empty removes it", "keep"),
    }


class PlanEditor(TextArea):
    """Edits the body of `plan` as it is now; later changes of the plan are merged on saving."""

    BINDINGS = get_bindings("planeditor", priority=True)
    hints: Final = (("planeditor.save", "save"), ("planeditor.cancel", "leave it"), ("app.editor", "$EDITOR"))

    class Closed(Message):
        """The user leaves, and nothing is unsaved."""

    suffix = ".md"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.body, soft_wrap=True, tab_behavior="indent", show_line_numbers=False)
        self.plan = plan
        self.cursor_blink = False

    @property
    def is_changed(self) -> bool:
        return self.text != self.plan.body

    # Both wait for what was typed before: it may still be on its way to the text.
    def action_save(self) -> None:
        self.call_later(self._save)

    def _save(self) -> None:
        self.post_message(messages.TextSaved(self.plan, self.text) if self.is_changed else self.Closed())

    def action_cancel(self) -> None:
        self.call_later(self._cancel)

    def _cancel(self) -> None:
        self.post_message(messages.DiscardRequested() if self.is_changed else self.Closed())
