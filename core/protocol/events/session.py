"""Events of a session as a whole: its beginning and end, its title, mode and model."""

from __future__ import annotations

from typing import Literal

from core.protocol.events.base import Event, ModeName


class SessionStarted(Event, frozen=True, kw_only=True, tag="session.started"):
    """`demo`: played by a script, to be labelled as such wherever it is shown."""

    workspace: str
    mode: ModeName
    model: str
    demo: bool = False
    title: str = ""


class SessionResumed(Event, frozen=True, kw_only=True, tag="session.resumed"):
    """`repaired` says what recovery had to mend ("" = nothing)."""

    repaired: str = ""


class SessionRenamed(Event, frozen=True, kw_only=True, tag="session.renamed"):
    title: str


class SessionClosed(Event, frozen=True, kw_only=True, tag="session.closed"):
    reason: str = ""


class TrustStated(Event, frozen=True, kw_only=True, tag="trust.stated"):
    """Whether the project's own words are heard: its rules, its configuration, git in it. `asked`: the user has not
    said yet, and until then it is as if they had said no. `holds`: what of it is not heard, by its place; `changed`:
    the files that speak otherwise than when it was trusted, and which alone are asked about."""

    state: Literal["asked", "trusted", "restricted"]
    directory: str
    holds: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class ModeChanged(Event, frozen=True, kw_only=True, tag="mode.changed"):
    mode: ModeName
    by: Literal["user", "agent"] = "user"


class ModelChanged(Event, frozen=True, kw_only=True, tag="model.changed"):
    """`context_window` in tokens, 0 = not known."""

    model: str
    context_window: int = 0
