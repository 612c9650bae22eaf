"""Before the screen opens: is there a session to go on with, and is it free? What is wrong is said at once."""

from __future__ import annotations

from dataclasses import replace

from core import demo
from core.cli.arguments import ScreenArguments
from core.errors import StateError
from core.sessions.store import SessionStore


def with_session(arguments: ScreenArguments) -> ScreenArguments:
    """The same, with the session named that is to be resumed. `StateError`: there is none, or it is open elsewhere."""
    if not (arguments.continue_last or arguments.resume):
        return arguments
    store, session = SessionStore(arguments.directory), arguments.resume or ""
    if arguments.demo and not (session := demo.find_latest_session()):
        raise StateError("no demo was begun yet.", hint="Start one: agent-tui --demo", code="session_unknown")
    if session and not store.has_session(session) and (copy := demo.find_project(session)):
        store = SessionStore(copy)
    session = store.resolve_id(session)
    store.open(session).close()
    return replace(arguments, continue_last=False, resume=session, demo=False)
