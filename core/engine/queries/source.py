"""The source of answers to queries: the services of one workspace, and its open sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from core.engine.session.pending_changes import ReviewedSession
from core.engine.session.session import Session
from core.engine.shared.services import EngineServices
from core.errors import CommandRejected
from core.workspace import IgnoreRules


class ReviewSource(Protocol):
    """The sessions that questions about a review can be asked of."""

    def require_session(self, session: str) -> ReviewedSession:
        """Return a session. Raises `CommandRejected` if it can't be read."""


class QuerySource:
    """Services and open sessions. `sessions`: by id."""

    def __init__(self, services: EngineServices, sessions: Mapping[str, Session]) -> None:
        self.services = services
        self.sessions = sessions
        self.ignore = IgnoreRules(services.workspace)

    def find_session(self, session: str) -> Session | None:
        """Return an open session, None = it is not open."""
        return self.sessions.get(session)

    def require_session(self, session: str) -> Session:
        """Return an open session. Raises `CommandRejected` if it is not open."""
        if (open_session := self.sessions.get(session)) is None:
            raise CommandRejected(
                f"no session {session!r} is open.", hint="Open or resume one first.", code="session_unknown"
            )
        return open_session
