"""Source of the answers to queries: one workspace with its files, and the sessions that are open."""

from __future__ import annotations

from collections.abc import Mapping

from core.engine.queries.file_list import FileList
from core.engine.services import EngineServices
from core.engine.session.session import Session
from core.errors import CommandRejected
from core.workspace import IgnoreRules


class QuerySource:
    """`sessions`: the open ones, by id. `files`: the names of the workspace's files, listed at the first search."""

    def __init__(self, services: EngineServices, sessions: Mapping[str, Session]) -> None:
        self.services = services
        self.sessions = sessions
        self.ignore = IgnoreRules(services.workspace)
        self.files = FileList(services.workspace.root)

    def require_session(self, session: str) -> Session:
        """Return an open session. Raises `CommandRejected` if it is not open."""
        if (found := self.sessions.get(session)) is None:
            raise CommandRejected(
                f"no session {session!r} is open.", hint="Open or resume one first.", code="session_unknown"
            )
        return found
