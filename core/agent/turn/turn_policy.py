"""The policy of a turn's end: a plan turn ends with a question or a plan, a build when no todo is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from core.agent.context.reminders import append_reminder
from core.agent.debug.debug_policy import DebugPolicy
from core.agent.gate.capabilities import UserPrompter
from core.agent.gate.edit_diagnostics import EditDiagnostics
from core.agent.gate.gated_call import GatedCall
from core.agent.turn.todo_following import TodoFollower
from core.agent.turn.turn_context import BuildTarget
from core.plans.todo_graph import DONE, find_ready
from core.prompts import render
from core.protocol.events import AnyEvent, Notice
from core.state.session import SessionState
from core.tools.builtin.plans import format_todos

MAX_URGES = 2  # times in a row without a todo done that a model is asked to go on with a build
PLAN_ENDING_TOOLS = frozenset({"create_plan", "update_plan", "switch_mode"})


class TurnPolicy(Struct, eq=False):
    """The policy of one turn. `has_commands_alone()`: the model has no tool for the list of todos but the shell."""

    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _build: BuildTarget
    _todos: TodoFollower
    _debug_policy: DebugPolicy
    _diagnostics: EditDiagnostics
    _has_commands_alone: Callable[[], bool]
    _has_looked: bool = False
    _has_ended_plan: bool = False
    _urge_count: int = 0
    _done_count: int = 0

    def record_calls(self, calls: Sequence[GatedCall]) -> None:
        """Record the calls that a step has run."""
        self._has_looked = self._has_looked or any(call.status == "completed" for call in calls)
        self._has_ended_plan = self._has_ended_plan or any(map(_is_plan_end, calls))

    async def should_continue(self, text: str, *, is_over: bool = False) -> bool:
        """True if the turn goes on after an answer without calls. `is_over`: it says so; then only a build goes on."""
        if is_over:
            return bool(self._build.plan) and await self._should_continue_build()
        if await self._debug_policy.should_continue():
            return True
        if text.rstrip().endswith("?"):
            return False
        if await self._diagnostics.should_continue():
            return True
        if self._build.plan:
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
        await self._todos.complete_current()
        open_todos = [todo for todo in self._todos.select_wanted(self._state.todos) if todo.status not in DONE]
        done_count = len(self._state.todos) - len(open_todos)
        self._urge_count = 0 if done_count > self._done_count else self._urge_count
        self._done_count = done_count
        if not open_todos:
            return False
        if self._urge_count >= MAX_URGES:
            count = "one todo is" if len(open_todos) == 1 else f"{len(open_todos)} todos are"
            self._emit(
                Notice(
                    level="info",
                    message=f"The build stopped: {count} left.",
                    hint="Building again goes on there (b in the plan, or /build).",
                )
            )
            return False
        self._urge_count += 1
        now = next((todo.id for todo in open_todos if todo.status == "in_progress"), "")
        free = [todo.id for todo in self._todos.select_wanted(find_ready(self._state.todos))]
        by_file = self._state.todos_plan_path if self._has_commands_alone() else ""
        reminder = render("reminders/build_left", todos=format_todos(open_todos), now=now, ready=free, by_file=by_file)
        append_reminder(self._emit, reminder)
        self._todos.known = self._state.todos
        return True


def _is_plan_end(call: GatedCall) -> bool:
    """True for a plan that was written, or a question that the user left open."""
    if call.status != "completed":
        return False
    desk = call.capability
    return call.name in PLAN_ENDING_TOOLS or (
        isinstance(desk, UserPrompter) and bool(desk.questions) and not desk.answers
    )
