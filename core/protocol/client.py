"""The client interface: the three verbs that cross the border between the engine and a front end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from core.protocol.commands import AnyCommand, Reply
from core.protocol.events import Envelope
from core.protocol.queries import AnyAnswer, AnyQuery


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
        """Iterate over durable events with `seq > after`, in order and without gaps; then the live ones, lossy ones
        too. `brief`: leave out messages and documents of turns that are long over."""

    async def query(self, query: AnyQuery) -> AnyAnswer:
        """Ask a question that has no effect."""

    async def close(self) -> None:
        """End the connection (and an engine that was started for it). Safe to call twice."""
