"""The bases of all commands, events, queries and answers, and the value types that events share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.modes import Mode

if TYPE_CHECKING:
    ModeName = str
else:
    ModeName = Literal[tuple(mode.value for mode in Mode)]  # Only valid modes are decoded.
TurnEnd = Literal["done", "interrupted", "limit", "failed"]
ToolStatus = Literal["completed", "failed", "denied", "cancelled"]
ApprovalDecision = Literal[
    "allow_once", "allow_session", "allow_always", "run_on_machine", "reject_once", "reject_always"
]


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events."""


class IdEvent(Event, frozen=True, kw_only=True):
    """Base of the events about one object, which `id` names."""

    id: Id


class IdsEvent(Event, frozen=True, kw_only=True):
    """Base of the events about the objects of these `ids`."""

    ids: tuple[Id, ...]


class LossyEvent(Event, frozen=True, kw_only=True):
    """Base of the events that are never logged and may be dropped on the way."""


class Command(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all commands. `session` is required by all but `session.open` and those that write the user's
    configuration."""

    session: OptionalId = ""


class Query(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all queries. `session` may be "" where the answer does not depend on one."""

    session: OptionalId = ""


class Answer(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all answers."""
