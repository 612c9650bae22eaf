"""What the plan's panel asks the main screen for, as messages."""

from __future__ import annotations

from dataclasses import dataclass

from textual.containers import Vertical
from textual.message import Message

from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan


class PlanAsking(Vertical):
    """The messages of the panel. All of them are the panel's by name, wherever they stand."""

    @dataclass
    class SetStatus(Message, namespace="plan_panel"):
        """A todo is to get a status."""

        id: str
        status: TodoStatus

    @dataclass
    class Build(Message, namespace="plan_panel"):
        """A plan is to be worked through; `todo`: this one alone; `fresh`: without the conversation; `workers`: how
        many at once."""

        path: str
        todo: str = ""
        fresh: bool = False
        workers: int = 1

    @dataclass
    class Edited(Message, namespace="plan_panel"):
        """The todos of a plan are to be these."""

        path: str
        todos: tuple[Todo, ...]

    @dataclass
    class Removes(Message, namespace="plan_panel"):
        """A todo is to go."""

        path: str
        id: str

    @dataclass
    class ShowsHunks(Message, namespace="plan_panel"):
        """The changes that were made for a todo are to be shown."""

        id: str

    @dataclass
    class EditsText(Message, namespace="plan_panel"):
        """The text of a plan is to be edited in the user's own editor."""

        plan: Plan

    @dataclass
    class WritesText(Message, namespace="plan_panel"):
        """The text of a plan is to be this; `plan` is what it was made of."""

        plan: Plan
        body: str

    class Discards(Message, namespace="plan_panel"):
        """What was typed is to be thrown away, if the user really means that."""

    class Unfit(Message, namespace="plan_panel"):
        """The text of this plan can't be edited here."""

    @dataclass
    class Comments(Message, namespace="plan_panel"):
        """A comment on lines of a plan: a new one, or with `id` other words for it, none to remove it."""

        path: str
        text: str
        start: int = 0
        excerpt: str = ""
        id: str = ""

    class WantsComments(Message, namespace="plan_panel"):
        """The comments are to be looked at and sent."""
