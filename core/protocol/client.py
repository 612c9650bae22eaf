"""The client interface: the three verbs that cross the border between the engine and a front end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from core.protocol.commands import AnyCommand, Reply
from core.protocol.events import Envelope
from core.protocol.queries import AnyAnswer, AnyQuery


class EngineGone(Exception):
    """The engine ended or can't be reached; `detail` holds its last words (standard error), if any."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or "the engine ended")
        self.detail = detail


class Client(Protocol):
    """One connection to an engine. Every verb raises `EngineGone` once the engine is gone."""

    async def submit(self, command: AnyCommand) -> Reply:
        """Answered before the command has any effect."""
        ...

    def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncIterator[Envelope]:
        """Durable events with `seq > after`, in order, without gaps; then the live ones, lossy ones too.

        `brief`: of turns that are long over, only what is needed to know how things stand: no messages and documents.
        """
        ...

    async def query(self, query: AnyQuery) -> AnyAnswer:
        """A question without effect."""
        ...

    async def close(self) -> None:
        """End the connection (and an engine that was started for it). Safe to call twice."""
        ...
