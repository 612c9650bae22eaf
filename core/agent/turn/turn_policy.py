"""The policy of a turn's end: a plan turn ends with a question or a plan, a build when no todo is left.

A model that works a plan and never says so still has its todos followed: they begin in the order of the graph, and the
file that it edits tells which one it is at. One that writes statuses into the plan's file has them read back. What is
proved by a command is not completed without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from core.agent.context.reminders import append_reminder
from core.agent.debug.debug_policy import DebugPolicy
from core.agent.gate.capabilities import CallLease, CapabilityFactory, UserPrompter
from core.agent.gate.gated_call import GatedCall
from core.agent.planning.status_readback import read_back_statuses
from core.agent.planning.todo_editor import apply_statuses
from core.agent.turn.turn_context import TurnContext
from core.errors import AgentTuiError
from core.modes import Access
from core.plans.todo_graph import DONE, find_ready
from core.prompts import render
from core.protocol.documents import Todo, TodoStatus
from core.protocol.events import AnyEvent, Notice
from core.protocol.review import Origin
from core.state.session import SessionState
from core.tools.base import FileEditDetail
from core.tools.builtin.planning.todo_write import format_todos
from core.tools.toolset import Toolset

MAX_URGES = 2  # times in a row without a todo done that a model is asked to go on with a build
PLAN_ENDING_TOOLS = frozenset({"create_plan", "update_plan", "switch_mode"})
WORK_ACCESSES = frozenset({Access.PROPOSE, Access.EXEC})
_WORDS = re.compile(r"[A-Za-z0-9]{3,}")


class TurnPolicy(Struct, eq=False):
    """The policy of one turn."""

    _context: TurnContext
    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _capabilities: CapabilityFactory
    _debug_policy: DebugPolicy
    _known_todos: Sequence[Todo]
    _used_tools: set[str] = field(default_factory=set)
    _has_looked: bool = False
    _has_ended_plan: bool = False
    _is_file_kept_by_model: bool = False
    _edited_todos: set[str] = field(default_factory=set)
    _urge_count: int = 0
    _done_count: int = 0

    # What the user changed meanwhile.

    def refresh_todos(self) -> None:
        """Remind the model of the todos before a step, if somebody else changed them."""
        self._context.plans.refresh()
        if (now := self._state.todos) != self._known_todos:
            self._known_todos = now
            append_reminder(self._emit, render("reminders/plan_changed", todos=format_todos(self._state.todos)))

    # What the model does.

    async def follow_planned_calls(self, calls: Sequence[GatedCall]) -> None:
        """Follow the calls that a step is about to run, so that its first edit has a todo in progress."""
        if not self._is_list_kept_by_model(calls):
            first = next(filter(None, (_find_edited_path(self._context.tools, call) for call in calls)), "")
            if first and first != self._state.todos_plan_path:
                await self._follow_work(calls[0].request.id, first)

    def _is_list_kept_by_model(self, calls: Sequence[GatedCall] = ()) -> bool:
        """True if the model keeps the list itself, now or before: with `todo_write`, or in the plan's file."""
        used = self._used_tools | {self._context.tools.resolve_name(call.request.name) for call in calls}
        return self._is_file_kept_by_model or "todo_write" in used

    async def record_calls(self, calls: Sequence[GatedCall]) -> None:
        """Record the calls that a step has run, and follow them in the list."""
        self._used_tools |= {call.name for call in calls}
        self._has_looked = self._has_looked or any(call.status == "completed" for call in calls)
        self._has_ended_plan = self._has_ended_plan or any(map(_is_plan_end, calls))
        worked = [call for call in calls if call.status == "completed" and call.access in WORK_ACCESSES]
        if worked:
            await self._read_back_statuses(worked[-1].request.id)
        if self._is_following:
            for call in worked:
                for path in self._list_changed_paths(call):
                    await self._follow_work(call.request.id, path)
                    if path:
                        at_hand = (todo.id for todo in self._state.todos if todo.status == "in_progress")
                        self._edited_todos.update(at_hand)
        self._known_todos = self._state.todos

    def _list_changed_paths(self, call: GatedCall) -> list[str]:
        """Return the files that a call changed, but for the plan's own; [""] for a command that changed none."""
        detail, plan = call.outcome.detail, self._state.todos_plan_path
        if isinstance(detail, FileEditDetail):
            return [detail.path] if detail.path != plan else []
        changes = self._state.changes.items()
        made = [path for path, each in changes if each.origin is not None and each.origin.call == call.request.id]
        return [path for path in made if path != plan] or [""]

    async def _read_back_statuses(self, call: str) -> None:

        context = self._context
        found = await read_back_statuses(
            context.plans,
            context.shadow,
            context.memory.announced,
            lambda key, status: self._set_statuses(call, {key: status}),
        )
        self._is_file_kept_by_model = self._is_file_kept_by_model or bool(found.written_ids)
        if found.notes:
            told = render("reminders/plan_file", notes=found.notes, todos=format_todos(self._state.todos))
            append_reminder(self._emit, told)

    @property
    def _is_following(self) -> bool:
        return bool(self._context.build.plan) and not self._is_list_kept_by_model()

    async def _follow_work(self, call: str, path: str) -> None:
        """Mark the todo that the model works at, since it does not say so. `path`: what it edits, "" = a command."""
        todos = self._state.todos
        now = next((todo for todo in todos if todo.status == "in_progress"), None)
        free = self._select_wanted(find_ready(todos if now is None else apply_statuses(todos, {now.id: "completed"})))
        meant = max(free, key=lambda todo: _score_fit(todo, path), default=None)
        if now is None and meant is not None:
            await self._try_statuses(call, {meant.id: "in_progress"})
        elif (
            now and meant and path and now.id in self._edited_todos and _score_fit(meant, path) > _score_fit(now, path)
        ):
            await self._try_statuses(call, {now.id: "completed", meant.id: "in_progress"})

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
        origin = Origin(turn=self._context.turn_id, call=call, tool="todo_write")
        board = self._capabilities.build_todo_editor(origin, lease)
        try:
            return (await board.set_todos(apply_statuses(board.todos(), statuses))).notes
        finally:
            lease.end()

    # Whether it may end.

    async def should_continue(self, text: str, *, is_over: bool = False) -> bool:
        """True if the turn goes on after an answer without calls. `is_over`: it says so; then only a build goes on."""
        if is_over:
            return bool(self._context.build.plan) and await self._should_continue_build()
        if await self._debug_policy.should_continue():
            return True
        if text.rstrip().endswith("?"):
            return False
        if self._context.build.plan:
            return await self._should_continue_build()
        return self._should_continue_plan()

    def _should_continue_plan(self) -> bool:
        """True if a plan turn that looked into the code still owes a question or a plan. Asked for once."""
        if self._state.mode != "plan" or not self._has_looked or self._has_ended_plan or self._urge_count:
            return False
        self._urge_count = 1
        append_reminder(self._emit, render("reminders/plan_owed"))
        return True

    async def _should_continue_build(self) -> bool:
        if self._is_following and self._edited_todos:
            await self._complete_current()
        left = [todo for todo in self._select_wanted(self._state.todos) if todo.status not in DONE]
        done = len(self._state.todos) - len(left)
        self._urge_count = 0 if done > self._done_count else self._urge_count
        self._done_count = done
        if not left:
            return False
        if self._urge_count >= MAX_URGES:
            count = "one todo is" if len(left) == 1 else f"{len(left)} todos are"
            self._emit(
                Notice(
                    level="info",
                    message=f"The build stopped: {count} left.",
                    hint="Building again goes on there (b in the plan, or /build).",
                )
            )
            return False
        self._urge_count += 1
        now = next((todo.id for todo in left if todo.status == "in_progress"), "")
        free = [todo.id for todo in self._select_wanted(find_ready(self._state.todos))]
        has_commands_alone = self._context.dialect == "command"  # no tool for the list but the shell
        by_file = self._state.todos_plan_path if has_commands_alone else ""
        told = render("reminders/build_left", todos=format_todos(left), now=now, ready=free, by_file=by_file)
        append_reminder(self._emit, told)
        self._known_todos = self._state.todos
        return True

    async def _complete_current(self) -> None:
        now = next((todo for todo in self._state.todos if todo.status == "in_progress"), None)
        if now is not None and now.id in self._edited_todos:
            self._edited_todos.discard(now.id)
            await self._try_statuses("", {now.id: "completed"})

    def _select_wanted(self, todos: Sequence[Todo]) -> list[Todo]:
        chosen = self._context.build.todo
        return [todo for todo in todos if chosen in ("", todo.id)]


def _is_plan_end(call: GatedCall) -> bool:
    """True for a plan that was written, or a question that the user left open."""
    if call.status != "completed":
        return False
    desk = call.capability
    return call.name in PLAN_ENDING_TOOLS or (
        isinstance(desk, UserPrompter) and bool(desk.questions) and not desk.answers
    )


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
