"""A todo of a plan may name its own model and effort: while it is built, that one answers.

They are words of a file of the project, so they are heard where the project is trusted, and they name a model of the
user's own providers. What can't be used is said, and the session's model goes on.
"""

from __future__ import annotations

from core.agent.session import Route, SessionContext
from core.errors import AgentTuiError
from core.plans.graph import ready
from core.protocol.documents import Todo
from core.protocol.events import Notice, RouteTaken


class TodoRoute:
    """That of one turn."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._wanted = ("", "")

    def take(self) -> bool:
        """Before a step: let the model of the todo at hand answer. Whether it is another one than before."""
        session, todo = self._session, self._at_hand()
        wanted = (todo.model, str(todo.effort)) if todo is not None and session.trusted else ("", "")
        if wanted == self._wanted or not session.chain:
            return False
        self._wanted = wanted
        before, session.route = session.route, self._route(*wanted)
        route = session.route
        if (route.id, route.effort) == (before.id, before.effort):
            return False
        asked = wanted[1] if wanted[1] != route.effort else ""
        session.emit(RouteTaken(model=route.id, effort=route.effort, wanted=asked, context_window=route.window))
        if asked:
            message = f"{route.id} has no effort {asked}: {route.effort or 'its default'} is used for this todo."
            session.emit(Notice(level="info", message=message))
        return True

    def _at_hand(self) -> Todo | None:
        """The todo that is built: the chosen one, else the one in progress, else the first that can be begun."""
        session = self._session
        if not session.building:
            return None
        todos = session.state.todos
        if session.building_todo:
            return next((todo for todo in todos if todo.id == session.building_todo), None)
        now = next((todo for todo in todos if todo.status == "in_progress"), None)
        return now or next(iter(ready(todos)), None)

    def _route(self, model: str, effort: str) -> Route:
        first, find = self._session.chain[0], self._session.find_route
        if not (model or effort) or find is None:
            return first
        try:
            return find(model or first.id, effort or first.effort)
        except AgentTuiError as problem:
            message = f"The model {model} of the todo can't be used: {problem.message}"
            self._session.emit(Notice(level="warning", message=message, hint=problem.hint))
            return first
