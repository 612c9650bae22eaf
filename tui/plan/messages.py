"""Messages of the plan's panel to the main screen, whose handlers are typed without a widget being imported."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from core.protocol.commands import PlanBuild
from core.protocol.documents import Plan, Todo, TodoStatus


class PlanRequested(Message, namespace="plan_panel"):
    """One of the project's plans is to be opened."""


@dataclass
class StatusRequested(Message, namespace="plan_panel"):
    """A todo is to get a status."""

    id: str
    status: TodoStatus


@dataclass
class BuildRequested(Message, namespace="plan_panel"):
    """A plan is to be built, and all that is built to be seen."""

    command: PlanBuild


@dataclass
class TodosEdited(Message, namespace="plan_panel"):
    """The todos of a plan are to be these."""

    path: str
    todos: tuple[Todo, ...]


@dataclass
class RemovalRequested(Message, namespace="plan_panel"):
    """A todo is to be removed."""

    path: str
    id: str


@dataclass
class HunksRequested(Message, namespace="plan_panel"):
    """Requests the hunks of a todo."""

    id: str


@dataclass
class ExternalEditRequested(Message, namespace="plan_panel"):
    """The text of a plan is to be edited in the user's own editor."""

    plan: Plan


@dataclass
class TextSaved(Message, namespace="plan_panel"):
    """Requests that the text of a plan becomes `body`; `plan` is the version that was edited."""

    plan: Plan
    body: str


class DiscardRequested(Message, namespace="plan_panel"):
    """Unsaved text is to be thrown away, once the user confirms it."""


class NotEditable(Message, namespace="plan_panel"):
    """The text of this plan cannot be edited here."""
