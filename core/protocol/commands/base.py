"""The base of all commands, and the replies to them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from core.ids import OptionalId

MAX_SUBAGENTS: Final = 4  # The limit for subagents of a build.
MAX_ATTACHMENT_BYTES: Final = 32_000_000  # The size limit of an attached file, in bytes.


class Command(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all commands. `session` is required by all but `session.open` and those that write the user's
    configuration."""

    session: OptionalId = ""


class Ack(Struct, frozen=True, kw_only=True, tag="ack"):
    """The command was accepted. `session` is the session it is about; `seq` its last durable event at that moment."""

    session: OptionalId = ""
    seq: int = 0


class Reject(Struct, frozen=True, kw_only=True, tag="reject"):
    code: str
    message: str
    hint: str = ""


Reply = Ack | Reject
