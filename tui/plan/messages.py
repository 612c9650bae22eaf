"""Messages of the plan's panel to the main screen, whose handlers are typed without a widget being imported."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from core.protocol.commands import PlanBuild
from core.protocol.documents import Plan, Todo, TodoStatus


class PlanRequested(Message, namespace="plan_panel"):
    """Requests one of the project's plans."""


@dataclass
class StatusRequested(Message, namespace="plan_panel"):
    """Requests a status for a todo."""

    id: str
    status: TodoStatus


@dataclass
class BuildRequested(Message, namespace="plan_panel"):
    """Requests a build of a plan, during which no filter hides todos."""

    command: PlanBuild


@dataclass
class TodosEdited(Message, namespace="plan_panel"):
    """Requests that a plan gets these todos."""

    path: str
    todos: tuple[Todo, ...]


@dataclass
class RemovalRequested(Message, namespace="plan_panel"):
    """Requests the removal of a todo."""

    path: str
    id: str


@dataclass
class HunksRequested(Message, namespace="plan_panel"):
    """Requests the hunks of a todo."""

    id: str


@dataclass
class ExternalEditRequested(Message, namespace="plan_panel"):
    """Requests the user's own editor for the text of a plan."""

    plan: Plan


@dataclass
class TextSaved(Message, namespace="plan_panel"):
    """Requests that the text of a plan becomes `body`; `plan` is the version that was edited."""

    plan: Plan
    body: str


class DiscardRequested(Message, namespace="plan_panel"):
    """Requests that unsaved text is discarded, once the user confirms it."""


class NotEditable(Message, namespace="plan_panel"):
    """The text of this plan cannot be edited here."""
