"""The base of all events, and the value types that events share."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ModeName = Literal["agent", "plan", "ask", "debug"]
TurnEnd = Literal["done", "interrupted", "limit", "failed"]
ToolStatus = Literal["completed", "failed", "denied", "cancelled"]
ApprovalDecision = Literal["allow_once", "allow_session", "allow_always", "reject_once", "reject_always"]


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events."""
