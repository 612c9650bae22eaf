"""The border between the engine and a front end: the three verbs of a client, and the frames of its JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, Protocol

from msgspec import Raw, Struct

from core.ids import Id
from core.protocol.commands import AnyCommand, Reply
from core.protocol.events import Envelope
from core.protocol.queries import AnyAnswer, AnyQuery

ABSENT: Final = Raw()


class EngineGone(Exception):
    """The engine ended or can't be reached; `detail` holds the end of its standard error, if any."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or "the engine ended")
        self.detail = detail


class Client(Protocol):
    """One connection to an engine. Every verb raises `EngineGone` once the engine is gone."""

    async def submit(self, command: AnyCommand) -> Reply:
        """Send a command; its reply comes before the command has any effect."""

    def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncIterator[Envelope]:
        """Iterate over durable events with `seq > after`, in order and without gaps; then over the live ones, including
        lossy ones. `brief`: leave out messages and documents of old turns."""

    async def query(self, query: AnyQuery) -> AnyAnswer:
        """Ask a question that has no effect."""

    async def close(self) -> None:
        """End the connection (and an engine that was started for it). Safe to call twice."""


class Subscribe(Struct, frozen=True, kw_only=True):
    """A subscription to the events of `session`: durable ones with `seq > after`, then live ones; see
    `Client.events`."""

    session: Id
    after: int = 0
    brief: bool = False


class ClientFrame(Struct, frozen=True, kw_only=True):
    """A line from the client: exactly one of the three fields is set, the others are `ABSENT`."""

    id: int = 0
    submit: Raw = ABSENT
    query: Raw = ABSENT
    subscribe: Raw = ABSENT


class EngineFrame(Struct, frozen=True, kw_only=True):
    """A line from the engine; `id` is that of the request for `reply` and `answer`, else that of the subscription.
    `stays`: the last line for a client that leaves while the engine continues."""

    id: int = 0
    reply: Raw = ABSENT
    answer: Raw = ABSENT
    event: Raw = ABSENT
    end: bool = False
    stays: bool = False
