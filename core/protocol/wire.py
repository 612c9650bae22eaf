"""The lines of the stdio transport, as both of its ends read them. Times and numbers as in the records they carry."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

ABSENT: Final = Raw()


class Subscribe(Struct, frozen=True, kw_only=True):
    """Durable events of `session` with `seq > after`, then the live ones; `brief` as in `Client.events`."""

    session: str
    after: int = 0
    brief: bool = False


class FromClient(Struct, frozen=True, kw_only=True):
    """Exactly one of the three is given; the others are `ABSENT`."""

    id: int = 0
    submit: Raw = ABSENT
    query: Raw = ABSENT
    subscribe: Raw = ABSENT


class FromEngine(Struct, frozen=True, kw_only=True):
    """`reply` and `answer` carry the id of what they answer, `event` and `end` that of their subscription."""

    id: int = 0
    reply: Raw = ABSENT
    answer: Raw = ABSENT
    event: Raw = ABSENT
    end: bool = False
