"""The todos of a build, followed for a model that works on a plan without calling `todo_write`.

Todos begin in the order of the graph, and the file that the model edits tells which one it works on. Statuses that the
model writes into the plan's file, with its edit tool or a command, are read back one by one by the rules of
`todo_write`: the graph, one at a time, and the command that proves a todo. Other edits of that file stay pending.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.base.call_lease import CallLease
from core.agent.base.plan_sync import PlanSync
from core.agent.context.reminders import append_reminder
from core.agent.context.turn_context import BuildTarget
from core.agent.gate.capabilities import CapabilityFactory
from core.agent.gate.gated_call import GatedCall
from core.agent.gate.todo_editor import apply_statuses
from core.errors import AgentTuiError
from core.modes import Access
from core.patterns import compile_lazily
from core.plans.plan_file import parse_plan_file, rewrite_plan
from core.plans.todo_graph import find_in_progress, find_ready, sort_topologically
from core.prompts import render
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.events import AnyEvent, Notice
from core.protocol.review import Change, FileState, Origin
from core.shadow.shadow import Shadow
from core.state.session import SessionState
from core.tools.base import FileEditDetail, FileEditDetails
from core.tools.builtin.plans import format_todos
from core.tools.toolset import Toolset

# Finished todos come first, so that others can begin.
STATUS_ORDER: Final = {"completed": 0, "cancelled": 1, "pending": 2, "in_progress": 3}
SetStatus = Callable[[str, TodoStatus], Awaitable[Sequence[str]]]
WORK_ACCESSES = frozenset({Access.PROPOSE, Access.EXEC})
_WORDS = compile_lazily(r"[A-Za-z0-9]{3,}")


class StatusReadback(Struct, frozen=True, kw_only=True):
    """Statuses that were read back. `written_ids`: the ids of their todos; `notes`: lines for the model."""

    written_ids: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


async def read_back_statuses(
    plans: PlanSync, shadow: Shadow, announcements: dict[str, str], set_status: SetStatus
) -> StatusReadback:
    """Set the statuses written into the plan's file since the last call; `set_status` may raise `AgentTuiError`."""
    path = plans.state.todos_plan_path
    change = plans.state.changes.get(path) if path else None
    if change is None or change.pending.kind != "file":
        announcements.pop("plan_written", None)
        return StatusReadback()
    if announcements.get("plan_written") == change.pending.blob:
        return StatusReadback()
    announcements["plan_written"] = change.pending.blob
    try:
        status_changes = _list_status_changes(
            _parse_plan(shadow, path, change.base), _parse_plan(shadow, path, change.pending)
        )
    except AgentTuiError as error:
        return StatusReadback(
            notes=(f"Your edit of the plan file can't be read, so none of it was applied: {error.message}",)
        )
    notes: list[str] = []
    for key, status in status_changes:
        try:
            notes += await set_status(key, status)
        except AgentTuiError as refused:
            notes.append(f"{key} is not {status}: {refused.message}")
    if status_changes:
        _reset_pending_file(plans, shadow, announcements, path, change)
    return StatusReadback(written_ids=frozenset(key for key, _ in status_changes), notes=tuple(notes))


def _parse_plan(shadow: Shadow, path: str, state: FileState) -> Plan | None:
    if state.kind != "file":
        return None
    text = shadow.blobs.get(state.blob).decode("utf-8", errors="replace")
    return parse_plan_file(text, path)[0]


def _list_status_changes(base: Plan | None, written_plan: Plan | None) -> list[tuple[str, TodoStatus]]:
    if base is None or written_plan is None:
        return []
    base_statuses = {todo.id: todo.status for todo in base.todos}
    positions = {todo.id: number for number, todo in enumerate(sort_topologically(base.todos))}
    status_changes = [
        (todo.id, todo.status) for todo in written_plan.todos if base_statuses.get(todo.id, todo.status) != todo.status
    ]
    return sorted(status_changes, key=lambda change: (STATUS_ORDER[change[1]], positions[change[0]]))


def _reset_pending_file(
    plans: PlanSync, shadow: Shadow, announcements: dict[str, str], path: str, change: Change
) -> None:
    """Rewrite the pending file with the statuses that were set; without other changes nothing stays pending."""
    try:
        now = {todo.id: todo.status for todo in plans.store.load(path).todos}
        text = shadow.blobs.get(change.pending.blob).decode("utf-8", errors="replace")
        written_plan, page = parse_plan_file(text, path)
        text = rewrite_plan(page, replace(written_plan, todos=apply_statuses(written_plan.todos, now)))
        shadow.edit(path, text.encode(), origin=change.origin)
        shadow.check_disk(path)
    except AgentTuiError:
        return  # A broken file is reported elsewhere; the pending change stays for the review.
    remaining_change = plans.state.changes.get(path)
    announcements["plan_written"] = remaining_change.pending.blob if remaining_change is not None else ""


class TodoFollower(Struct, eq=False):
    """Follows the todos of one turn. `known`: the todos that the model was last informed of; `_read_back`: sets the
    statuses that the model wrote into the plan's file."""

    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _build: BuildTarget
    _turn_id: str
    _tools: Toolset
    _capabilities: CapabilityFactory
    _read_back: Callable[[SetStatus], Awaitable[StatusReadback]]
    known: Sequence[Todo]
    _used_tools: set[str] = field(default_factory=set)
    _does_model_edit_plan: bool = False
    _edited_todos: set[str] = field(default_factory=set)

    def refresh(self) -> None:
        """Remind the model of the todos before a step, if the user or another session changed them."""
        self._capabilities.plans.refresh()
        if (now := self._state.todos) != self.known:
            self.known = now
            append_reminder(self._emit, render("reminders/plan_changed", todos=format_todos(now)))

    async def follow_planned_calls(self, calls: Sequence[GatedCall]) -> None:
        """Start a todo for the first edit of a step that is about to run."""
        if not self._does_model_track(calls):
            first = next(filter(None, (_find_edited_path(self._tools, call) for call in calls)), "")
            if first and first != self._state.todos_plan_path:
                await self._follow_work(calls[0].request.id, first)

    def _does_model_track(self, calls: Sequence[GatedCall] = ()) -> bool:
        """True if the model sets statuses itself, in `calls` or before: with `todo_write`, or in the plan's file."""
        tool_names = self._used_tools | {self._tools.resolve_name(call.request.name) for call in calls}
        return self._does_model_edit_plan or "todo_write" in tool_names

    async def record_calls(self, calls: Sequence[GatedCall]) -> None:
        """Update the todos after the calls of a step."""
        self._used_tools |= {call.name for call in calls}
        work_calls = [call for call in calls if call.status == "completed" and call.access in WORK_ACCESSES]
        if work_calls:
            await self._read_back_statuses(work_calls[-1].request.id)
        if self._is_following:
            for call in work_calls:
                for path in self._list_changed_paths(call):
                    await self._follow_work(call.request.id, path)
                    if path:
                        current_ids = (todo.id for todo in self._state.todos if todo.status == "in_progress")
                        self._edited_todos.update(current_ids)
        self.known = self._state.todos

    def _list_changed_paths(self, call: GatedCall) -> list[str]:
        """Return the files that a call changed without the plan's file, [""] for a command that changed none."""
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
        self._does_model_edit_plan = self._does_model_edit_plan or bool(readback.written_ids)
        if readback.notes:
            reminder = render("reminders/plan_file", notes=readback.notes, todos=format_todos(self._state.todos))
            append_reminder(self._emit, reminder)

    @property
    def _is_following(self) -> bool:
        return bool(self._build.plan) and not self._does_model_track()

    async def _follow_work(self, call: str, path: str) -> None:
        """Mark the todo that the model works on. `path`: the file that it edits, "" = it runs a command."""
        todos = self._state.todos
        now = find_in_progress(todos)
        ready = self.select_wanted(find_ready(todos if now is None else apply_statuses(todos, {now.id: "completed"})))
        best_match = max(ready, key=lambda todo: _score_fit(todo, path), default=None)
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
        """Set statuses by the rules for the model, and remind it of the notes."""
        try:
            if notes := await self._set_statuses(call, statuses):
                append_reminder(self._emit, "\n".join(notes))
        except AgentTuiError as error:
            self._emit(Notice(level="warning", message=error.message, hint=error.hint))

    async def _set_statuses(self, call: str, statuses: dict[str, TodoStatus]) -> Sequence[str]:
        """Set statuses by the rules of the list and return notes for the model. Raises `AgentTuiError` if refused."""
        lease = CallLease()
        origin = Origin(turn=self._turn_id, call=call, tool="todo_write")
        editor = self._capabilities.build_todo_editor(origin, lease)
        try:
            return (await editor.set_todos(apply_statuses(editor.todos(), statuses))).notes
        finally:
            lease.end()

    async def complete_current(self) -> None:
        """Complete the current todo of a model that does not set statuses, if it has edited files for it."""
        now = find_in_progress(self._state.todos)
        if self._is_following and now is not None and now.id in self._edited_todos:
            self._edited_todos.discard(now.id)
            await self._try_statuses("", {now.id: "completed"})

    def find_current(self) -> Todo | None:
        """Return the current todo: the chosen one, else the one in progress, else the first that can begin."""
        todos = self._state.todos
        if self._build.todo:
            return next((todo for todo in todos if todo.id == self._build.todo), None)
        return find_in_progress(todos) or next(iter(find_ready(todos)), None)

    def select_wanted(self, todos: Sequence[Todo]) -> list[Todo]:
        """Return the todos that are to be built."""
        return [todo for todo in todos if self._build.todo in ("", todo.id)]


def _find_edited_path(tools: Toolset, call: GatedCall) -> str:
    """Return the first file that a call will edit, "" = none, or its arguments are malformed."""
    try:
        tool = tools.parse(call.request.name, call.request.arguments)
    except AgentTuiError:
        return ""
    return next(iter(tool.paths()), "") if tool.access is Access.PROPOSE else ""


def _score_fit(todo: Todo, path: str) -> float:
    """Score how well a todo's text matches a file: its path (3), its name (2), or words of it (0 to 1)."""
    if not path:
        return 0
    text, name = f"{todo.id} {todo.content}".lower(), path.rpartition("/")[2].lower()
    if path.lower() in text:
        return 3
    if name in text:
        return 2
    words = {word.lower() for word in _WORDS.findall(path.rpartition(".")[0] or path)}
    return len(words & set(_WORDS.findall(text))) / (len(words) + 1)
