"""Sessions by HTTP: whatever the screen can do, thinly over the three verbs."""

from __future__ import annotations

from typing import Any, Final

from litestar import get

from core.protocol.queries import SessionsAnswer, SessionsQuery
from core.transports.http.service import READS, Served


@get("/api/v1/sessions", opt=READS, summary="Sessions of the workspace, the one written last first")
async def list_sessions(service: Served, limit: int = 50) -> SessionsAnswer:
    """Return the sessions of the workspace that is served."""
    found: Any = await service.ask(service.engines.get(service.directory), SessionsQuery(limit=limit))
    return SessionsAnswer(sessions=found.sessions)


HANDLERS: Final[tuple[Any, ...]] = (list_sessions,)
