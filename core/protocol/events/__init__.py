"""Events (core -> clients): `noun.past_participle`, complete plain data; folded in order they give the session's state.

A `LossyEvent` is never logged, may be dropped on the way, and carries the `seq` of the last durable event before it;
every other event has a dense `seq` in its session. Events are registered by their class alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.base import ApprovalDecision as ApprovalDecision
from core.protocol.base import Event as Event
from core.protocol.base import LossyEvent as LossyEvent
from core.protocol.base import ModeName as ModeName
from core.protocol.base import ToolStatus as ToolStatus
from core.protocol.base import TurnEnd as TurnEnd
from core.protocol.events.debug import *
from core.protocol.events.proposals import *
from core.protocol.events.session import *
from core.protocol.events.turn import *
from core.protocol.events.verification import *
from core.records import list_leaves

if TYPE_CHECKING:
    AnyEvent = Event
else:  # Every concrete event can be decoded.
    AnyEvent = Union[(*list_leaves(Event),)]


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event on the wire and in the log. `at` in ms since the epoch; `turn` is "" outside a turn."""

    seq: int
    session: Id
    at: int
    event: AnyEvent
    turn: OptionalId = ""
    v: int = 1
