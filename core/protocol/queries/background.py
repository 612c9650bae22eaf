"""Background agents, as clients see them, and the query for them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.queries.base import Answer, Query

BackgroundState = Literal["queued", "running", "waiting", "done", "failed", "stopped"]


class BackgroundAgentInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One background agent. Times in ms since 1970, 0 = not yet. `place`: the workspace or repository that it works in;
    `session`: that of its work; `message`: its last words, or why it failed; `waits_for`: what it asks; `pending`:
    files that wait for a review; `pulled`: they are under the user's own."""

    id: Id
    title: str
    state: BackgroundState
    place: str
    created: int = 0
    started: int = 0
    ended: int = 0
    session: OptionalId = ""
    model: str = ""
    message: str = ""
    waits_for: str = ""
    pending: int = 0
    cost: float | None = None
    pulled: bool = False


class BackgroundQuery(Query, frozen=True, kw_only=True, tag="background"):
    """The background agents of this machine, or of the team's database."""


class BackgroundAnswer(Answer, frozen=True, kw_only=True, tag="background"):
    """The newest first."""

    agents: tuple[BackgroundAgentInfo, ...] = ()
