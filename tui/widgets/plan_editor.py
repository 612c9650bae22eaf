"""The Markdown of a plan in an editor of its own, in the place of what it is about: saved, or left as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from core.protocol.plans import Plan
from tui.keymap import bindings


class PlanEditor(TextArea):
    """`begin` takes the plan as it is then; what becomes of it meanwhile is merged when the text is saved."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("planeditor", priority=True)

    @dataclass
    class Saved(Message):
        """The text is to be the body of the plan, which was `plan` when it was begun."""

        plan: Plan
        body: str

    @dataclass
    class Left(Message):
        """The user goes away; `changed`: something was typed that would be lost."""

        changed: bool

    suffix = ".md"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.body, soft_wrap=True, tab_behavior="indent", show_line_numbers=False)
        self.plan = plan
        self.cursor_blink = False

    @property
    def is_changed(self) -> bool:
        """Whether there is something to save."""
        return self.text != self.plan.body

    def action_save(self) -> None:
        """Make the text the plan's."""
        self.post_message(self.Saved(self.plan, self.text) if self.is_changed else self.Left(changed=False))

    def action_cancel(self) -> None:
        """Leave the plan as it was; asked about if something was typed."""
        self.post_message(self.Left(self.is_changed))
