"""Commands (clients -> core): every command is answered with `Ack` or `Reject` before it has an effect; effects are
events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from msgspec import Struct

from core.ids import OptionalId
from core.protocol.base import Command as Command
from core.protocol.commands.proposals import *
from core.protocol.commands.session import *
from core.protocol.commands.turn import *
from core.records import list_leaves

if TYPE_CHECKING:
    AnyCommand = Command
else:  # Every concrete command can be decoded.
    AnyCommand = Union[(*list_leaves(Command),)]


class Ack(Struct, frozen=True, kw_only=True, tag="ack"):
    """The command was accepted. `session` is the session it is about; `seq` its last durable event at that moment."""

    session: OptionalId = ""
    seq: int = 0


class Reject(Struct, frozen=True, kw_only=True, tag="reject"):
    code: str
    message: str
    hint: str = ""


Reply = Ack | Reject
