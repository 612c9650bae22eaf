"""Commands (clients -> core): every command is answered with `Ack` or `Reject` before it has an effect; effects are
events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from core.protocol.commands.base import *
from core.protocol.commands.base import Command
from core.protocol.commands.proposals import *
from core.protocol.commands.session import *
from core.records import list_leaves

if TYPE_CHECKING:
    AnyCommand = Command
else:  # Every concrete command can be decoded.
    AnyCommand = Union[(*list_leaves(Command),)]
