"""Frames of the transports over JSON lines, as both of their ends read them."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from core.ids import Id

ABSENT: Final = Raw()


class Subscribe(Struct, frozen=True, kw_only=True):
    """Request of events of `session`, durable ones with `seq > after` and then live ones; as `Client.events`."""

    session: Id
    after: int = 0
    brief: bool = False


class ClientFrame(Struct, frozen=True, kw_only=True):
    """A line from the client: exactly one of the three is given, the others are `ABSENT`."""

    id: int = 0
    submit: Raw = ABSENT
    query: Raw = ABSENT
    subscribe: Raw = ABSENT


class EngineFrame(Struct, frozen=True, kw_only=True):
    """A line from the engine; `id` is that of the request for `reply` and `answer`, else that of the subscription.
    `stays`: the last line for a client that leaves, whose engine goes on."""

    id: int = 0
    reply: Raw = ABSENT
    answer: Raw = ABSENT
    event: Raw = ABSENT
    end: bool = False
    stays: bool = False
