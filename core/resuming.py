"""Before the screen opens: is there a session to go on with, and is it free? What is wrong is said at once."""

from __future__ import annotations

from dataclasses import replace

from core import demo
from core.cli import Options
from core.errors import StateError
from core.sessions.store import SessionStore


def with_session(options: Options) -> Options:
    """The same, with the session named that is to be resumed. `StateError`: there is none, or it is open elsewhere."""
    if not (options.continue_last or options.resume):
        return options
    store, session = SessionStore(options.directory), options.resume or ""
    if options.demo and not (session := demo.latest()):
        raise StateError("no demo was begun yet.", hint="Start one: agent-tui --demo", code="session_unknown")
    if session and not store.holds(session) and (copy := demo.copy_of(session)):
        store = SessionStore(copy)
    session = store.wanted(session)
    store.open(session).close()
    return replace(options, continue_last=False, resume=session, demo=False)
