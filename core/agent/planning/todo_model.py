"""The model of a todo: one of a plan may name its own model and effort, which answers while it is built.

They are words of a file of the project, so they are heard where the project is trusted, and they name a model of the
user's own providers. What can't be used is reported, and the session's model goes on.
"""

from __future__ import annotations

from core.agent.turn.turn_context import Route, TurnContext
from core.errors import AgentTuiError
from core.plans.todo_graph import find_ready
from core.protocol.documents import Todo
from core.protocol.events import Notice, RouteTaken


class TodoModel:
    """The todo's model during one turn."""

    def __init__(self, session: TurnContext) -> None:
        self._session = session
        self._wanted = ("", "")

    def switch_route(self) -> bool:
        """Switch to the model of the todo at hand before a step. True if it is another one than before."""
        session, todo = self._session, self._find_current_todo()
        wanted = (todo.model, str(todo.effort)) if todo is not None and session.is_trusted else ("", "")
        if wanted == self._wanted or not session.route_chain:
            return False
        self._wanted = wanted
        before, session.route = session.route, self._resolve_route(*wanted)
        route = session.route
        if (route.id, route.effort) == (before.id, before.effort):
            return False
        asked = wanted[1] if wanted[1] != route.effort else ""
        session.emit(RouteTaken(model=route.id, effort=route.effort, wanted=asked, context_window=route.window))
        if asked:
            message = f"{route.id} has no effort {asked}: {route.effort or 'its default'} is used for this todo."
            session.emit(Notice(level="info", message=message))
        return True

    def _find_current_todo(self) -> Todo | None:
        """Return the todo that is built: the chosen one, else the one in progress, else the first that can begin."""
        session = self._session
        if not session.build_plan:
            return None
        todos = session.state.todos
        if session.build_todo:
            return next((todo for todo in todos if todo.id == session.build_todo), None)
        now = next((todo for todo in todos if todo.status == "in_progress"), None)
        return now or next(iter(find_ready(todos)), None)

    def _resolve_route(self, model: str, effort: str) -> Route:
        first, find = self._session.route_chain[0], self._session.find_route
        if not (model or effort) or find is None:
            return first
        try:
            return find(model or first.id, effort or first.effort)
        except AgentTuiError as problem:
            message = f"The model {model} of the todo can't be used: {problem.message}"
            self._session.emit(Notice(level="warning", message=message, hint=problem.hint))
            return first
