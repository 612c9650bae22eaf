"""Events of notices and errors for the user."""

from __future__ import annotations

from typing import Literal

from core.protocol.events.base import Event


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    level: Literal["info", "warning"]
    message: str
    hint: str = ""


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error"):
    """`path`: the change, or the root of the bulk, on which a verdict could not be carried out."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False
    path: str = ""


class StreamLagged(Event, frozen=True, kw_only=True, tag="stream.lagged"):
    """Transport only: lossy events were dropped for this client."""

    dropped: int
