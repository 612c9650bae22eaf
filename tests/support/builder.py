"""A model that works a plan as it is told to: it reads the plan file, takes what is ready, and looks at the answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from core.engine.shared.models import ModelAccess
from core.plans.plan_store import PlanStore
from core.plans.todo_graph import find_ready, sort_topologically
from core.protocol.documents import Todo
from core.protocol.messages import AssistantMessage, Message, ToolMessage
from core.providers.base import Delta, ModelInfo, ModelRequest
from core.workspace import Workspace
from core.workspace.plan_folder import PlanFolder
from tests.support.agent_case import Step, calls, says
from tests.support.default_model import access_to
from tests.support.story import MODEL

PATH = ".cursor/plans/shop_01234567.plan.md"
# A diamond (b and c between a and d), a chain (e to j) behind it, and two beside them; g is proved by a command.
GRAPH = {
    "k": (),
    "a": (),
    "b": ("a",),
    "c": ("a",),
    "d": ("b", "c"),
    "e": ("d",),
    "f": ("e",),
    "g": ("f",),
    "h": ("g",),
    "i": ("h",),
    "j": ("i",),
    "l": ("k", "j"),
}


def plan_text() -> str:
    """The plan file, with comments and keys of another tool in it."""
    rows = []
    for key, needs in reversed(GRAPH.items()):
        rows += [f"  - id: {key} # {key}", f"    content: 'Make {key}'", "    status: pending"]
        rows += [f"    dependencies: [ {', '.join(needs)} ]"] if needs else []
        rows += ["    verify: test -e out/fixed.txt"] if key == "g" else []
    return "\n".join(["---", "name: Shop", "tool: other", "todos:", *rows, "---", "# Shop", "", "All of it.  ", ""])


class BuildingModel:
    """`project` is where the plan is."""

    name = "building"

    def __init__(self, project: Path) -> None:
        self._plans = PlanStore(PlanFolder(Workspace(project)))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        for delta in self._step(request.messages):
            assert not isinstance(delta, Exception)
            yield delta  # type: ignore[misc]

    def _step(self, messages: Sequence[Message]) -> Step:
        todos = self._plans.load(PATH).todos
        now = next((todo for todo in todos if todo.status == "in_progress"), None)
        written = _written(messages)
        if now is None:
            free = find_ready(sort_topologically(todos))
            return _mark(free[0], "in_progress") if free else says("All done.")
        if f"out/{now.id}.txt" not in written:
            return _write(f"out/{now.id}.txt")
        last = messages[-1]
        if isinstance(last, ToolMessage) and "is not completed" in last.content:
            return _write("out/fixed.txt")
        return _mark(now, "completed")

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def close(self) -> None:
        self._plans = self._plans


def _mark(todo: Todo, status: str) -> Step:
    return calls(("todo_write", {"todos": [{"id": todo.id, "status": status}]}))


def _write(path: str) -> Step:
    return calls(("write", {"file_path": path, "contents": f"{path}\n"}))


def _written(messages: Sequence[Message]) -> set[str]:
    """The files that were written, as far as the answers say so."""
    good = {message.call_id for message in messages if isinstance(message, ToolMessage) and not message.is_error}
    return {
        json.loads(call.arguments)["file_path"]
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.name == "write" and call.id in good
    }


def access(project: Path) -> ModelAccess:
    return access_to(lambda _id, _settings: (BuildingModel(project), "building"), MODEL, cost=0.0, window=1_000_000)
