"""The todos of a build, followed for a model that works a plan and never says so.

They begin in the order of the graph, and the file that the model edits tells which one it is at. One that writes
statuses into the plan's file has them read back. What is proved by a command is not completed without it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from core.agent.context.reminders import append_reminder
from core.agent.gate.capabilities import CapabilityFactory
from core.agent.gate.gated_call import CallLease, GatedCall
from core.agent.planning.status_readback import SetStatus, StatusReadback
from core.agent.planning.todo_editor import apply_statuses
from core.agent.turn.turn_context import BuildTarget
from core.errors import AgentTuiError
from core.modes import Access
from core.plans.todo_graph import find_in_progress, find_ready
from core.prompts import render
from core.protocol.documents import Todo, TodoStatus
from core.protocol.events import AnyEvent, Notice
from core.protocol.review import Origin
from core.state.session import SessionState
from core.tools.base import FileEditDetail, FileEditDetails
from core.tools.builtin.plans import format_todos
from core.tools.toolset import Toolset

WORK_ACCESSES = frozenset({Access.PROPOSE, Access.EXEC})
_WORDS = re.compile(r"[A-Za-z0-9]{3,}")


class TodoFollower(Struct, eq=False):
    """The todos of one turn, as the model was told of them last (`known`). `read_back` sets the statuses that stand in
    the plan's file."""

    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _build: BuildTarget
    _turn_id: str
    _tools: Toolset
    _capabilities: CapabilityFactory
    _read_back: Callable[[SetStatus], Awaitable[StatusReadback]]
    known: Sequence[Todo]
    _used_tools: set[str] = field(default_factory=set)
    _is_file_kept_by_model: bool = False
    _edited_todos: set[str] = field(default_factory=set)

    def refresh(self) -> None:
        """Remind the model of the todos before a step, if somebody else changed them."""
        self._capabilities.plans.refresh()
        if (now := self._state.todos) != self.known:
            self.known = now
            append_reminder(self._emit, render("reminders/plan_changed", todos=format_todos(now)))

    async def follow_planned_calls(self, calls: Sequence[GatedCall]) -> None:
        """Follow the calls that a step is about to run, so that its first edit has a todo in progress."""
        if not self._is_list_kept_by_model(calls):
            first = next(filter(None, (_find_edited_path(self._tools, call) for call in calls)), "")
            if first and first != self._state.todos_plan_path:
                await self._follow_work(calls[0].request.id, first)

    def _is_list_kept_by_model(self, calls: Sequence[GatedCall] = ()) -> bool:
        """True if the model keeps the list itself, now or before: with `todo_write`, or in the plan's file."""
        tool_names = self._used_tools | {self._tools.resolve_name(call.request.name) for call in calls}
        return self._is_file_kept_by_model or "todo_write" in tool_names

    async def record_calls(self, calls: Sequence[GatedCall]) -> None:
        """Follow the calls that a step has run."""
        self._used_tools |= {call.name for call in calls}
        work_calls = [call for call in calls if call.status == "completed" and call.access in WORK_ACCESSES]
        if work_calls:
            await self._read_back_statuses(work_calls[-1].request.id)
        if self._is_following:
            for call in work_calls:
                for path in self._list_changed_paths(call):
                    await self._follow_work(call.request.id, path)
                    if path:
                        at_hand = (todo.id for todo in self._state.todos if todo.status == "in_progress")
                        self._edited_todos.update(at_hand)
        self.known = self._state.todos

    def _list_changed_paths(self, call: GatedCall) -> list[str]:
        """Return the files that a call changed, but for the plan's own; [""] for a command that changed none."""
        detail, plan = call.outcome.detail, self._state.todos_plan_path
        if isinstance(detail, FileEditDetail | FileEditDetails):
            edits = detail.edits if isinstance(detail, FileEditDetails) else (detail,)
            return [edit.path for edit in edits if edit.path != plan]
        changes = self._state.changes.items()
        changed_paths = [
            path for path, change in changes if change.origin is not None and change.origin.call == call.request.id
        ]
        return [path for path in changed_paths if path != plan] or [""]

    async def _read_back_statuses(self, call: str) -> None:
        readback = await self._read_back(lambda key, status: self._set_statuses(call, {key: status}))
        self._is_file_kept_by_model = self._is_file_kept_by_model or bool(readback.written_ids)
        if readback.notes:
            reminder = render("reminders/plan_file", notes=readback.notes, todos=format_todos(self._state.todos))
            append_reminder(self._emit, reminder)

    @property
    def _is_following(self) -> bool:
        return bool(self._build.plan) and not self._is_list_kept_by_model()

    async def _follow_work(self, call: str, path: str) -> None:
        """Mark the todo that the model works at, since it does not say so. `path`: what it edits, "" = a command."""
        todos = self._state.todos
        now = find_in_progress(todos)
        free = self.select_wanted(find_ready(todos if now is None else apply_statuses(todos, {now.id: "completed"})))
        best_match = max(free, key=lambda todo: _score_fit(todo, path), default=None)
        if now is None and best_match is not None:
            await self._try_statuses(call, {best_match.id: "in_progress"})
        elif (
            now
            and best_match
            and path
            and now.id in self._edited_todos
            and _score_fit(best_match, path) > _score_fit(now, path)
        ):
            await self._try_statuses(call, {now.id: "completed", best_match.id: "in_progress"})

    async def _try_statuses(self, call: str, statuses: dict[str, TodoStatus]) -> None:
        """Set statuses by the same rules as the model; remind it of what stands against them."""
        try:
            if notes := await self._set_statuses(call, statuses):
                append_reminder(self._emit, "\n".join(notes))
        except AgentTuiError as trouble:
            self._emit(Notice(level="warning", message=trouble.message, hint=trouble.hint))

    async def _set_statuses(self, call: str, statuses: dict[str, TodoStatus]) -> Sequence[str]:
        """Set statuses by the rules of the list and return notes for the model. Raises `AgentTuiError` if refused."""
        lease = CallLease()
        origin = Origin(turn=self._turn_id, call=call, tool="todo_write")
        board = self._capabilities.build_todo_editor(origin, lease)
        try:
            return (await board.set_todos(apply_statuses(board.todos(), statuses))).notes
        finally:
            lease.end()

    async def complete_current(self) -> None:
        """Complete the todo at hand, if the model is done with it and would not say so."""
        now = find_in_progress(self._state.todos)
        if self._is_following and now is not None and now.id in self._edited_todos:
            self._edited_todos.discard(now.id)
            await self._try_statuses("", {now.id: "completed"})

    def find_current(self) -> Todo | None:
        """Return the todo that is built: the chosen one, else the one in progress, else the first that can begin."""
        todos = self._state.todos
        if self._build.todo:
            return next((todo for todo in todos if todo.id == self._build.todo), None)
        return find_in_progress(todos) or next(iter(find_ready(todos)), None)

    def select_wanted(self, todos: Sequence[Todo]) -> list[Todo]:
        """Return the todos that are to be built."""
        return [todo for todo in todos if self._build.todo in ("", todo.id)]


def _find_edited_path(tools: Toolset, call: GatedCall) -> str:
    """Return the file that a call is going to edit; "" = none, or its arguments are malformed."""
    try:
        tool = tools.parse(call.request.name, call.request.arguments)
    except AgentTuiError:
        return ""
    return next(iter(tool.paths()), "") if tool.access is Access.PROPOSE else ""


def _score_fit(todo: Todo, path: str) -> float:
    """Score how much a todo speaks of a file: by its path (3), its name (2), or words of it (0 to 1)."""
    if not path:
        return 0
    text, name = f"{todo.id} {todo.content}".lower(), path.rpartition("/")[2].lower()
    if path.lower() in text:
        return 3
    if name in text:
        return 2
    words = {word.lower() for word in _WORDS.findall(path.rpartition(".")[0] or path)}
    return len(words & set(_WORDS.findall(text))) / (len(words) + 1)
