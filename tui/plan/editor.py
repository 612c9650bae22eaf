"""Editor of a plan's Markdown in the place of the panel: saved, or left as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from core.protocol.plans import Plan
from tui.keymap import get_bindings


class PlanEditor(TextArea):
    """Edits the body of `plan` as it is now; later changes of the plan are merged on saving."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("planeditor", priority=True)
    hints: Final = (("planeditor.save", "save"), ("planeditor.cancel", "leave it"), ("app.editor", "$EDITOR"))

    @dataclass
    class Saved(Message):
        """`body` is the new text of the plan, which was `plan` at the start."""

        plan: Plan
        body: str

    @dataclass
    class Cancelled(Message):
        """The user leaves; `changed`: there is unsaved text."""

        changed: bool

    suffix = ".md"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.body, soft_wrap=True, tab_behavior="indent", show_line_numbers=False)
        self.plan = plan
        self.cursor_blink = False

    @property
    def is_changed(self) -> bool:
        """True if there is something to save."""
        return self.text != self.plan.body

    def action_save(self) -> None:
        """Save the text."""
        self.post_message(self.Saved(self.plan, self.text) if self.is_changed else self.Cancelled(changed=False))

    def action_cancel(self) -> None:
        """Leave; confirmed first if there is unsaved text."""
        self.post_message(self.Cancelled(self.is_changed))
