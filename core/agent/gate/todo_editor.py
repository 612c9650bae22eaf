"""The TODO and PLAN capabilities: the task list, its plan file, new plan files, and the verification of todos.

A list is checked before it is set: only steps that an agent may take, the user's decision on todos that depend on a
cancelled one, and a passed command for every todo with `verify`.

A `verify` command is decided on like any other command of the agent. It runs alone in a clean layer over all pending
changes, so its exit code is a proof. Without a box it runs in the project itself, after a yes, and verifies nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.approvals import Approver
from core.agent.base.plan_sync import PlanSync
from core.agent.base.user_channel import UserChannel
from core.errors import ToolFailed
from core.ids import new_id
from core.modes import Access
from core.permissions.approval import Approval
from core.plans.todo_graph import (
    CancelledTodo,
    apply_todo_changes,
    check_graph,
    check_steps,
    find_cancelled,
    find_newly_completed,
)
from core.protocol.documents import Option, Plan, Question, QuestionAnswer, Todo, TodoStatus
from core.protocol.events import PlanCreated, QuestionAsked, TodoChanged, ToolOutput
from core.protocol.review import Origin
from core.sandbox.results import CommandResult
from core.shell.command_host import CommandHost
from core.shell.verification.clean_run import (
    MAX_OUTPUT,
    list_acceptable_changes,
    record_todo_run,
    run_clean,
    verify_todo_run,
)
from core.tools.base import PlanChange, Runner, TodosUpdated
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd, format_outcome

Prove = Callable[[Todo], Awaitable[str | None]]
MAX_NAMED = 6  # todos in a question
RELEASE, CANCEL, KEEP = "release", "cancel", "keep"
TIME_LIMIT = 300.0


class TodoEditor(Struct, eq=False):
    """The TODO capability. `_check` raises when the call has ended; `_prove` runs a todo's command and returns why it
    failed; None: it passed."""

    _plans: PlanSync
    _user: UserChannel
    _call: str
    _check: Callable[[], None]
    _prove: Prove

    def todos(self) -> tuple[Todo, ...]:
        self._check()
        self._plans.refresh()
        return self._plans.state.todos

    @property
    def plan(self) -> str:
        return self._plans.state.todos_plan_path

    async def set_todos(self, todos: tuple[Todo, ...]) -> TodosUpdated:
        self._check()
        before = self._plans.state.todos
        check_graph(todos, before)
        check_steps(before, todos)
        update = await self._apply_changes(before, todos)
        self._check()
        plan, after = self.plan, update.todos
        if plan:
            after = self._plans.save_todos(plan, after)
        self._plans.emit(TodoChanged(todos=after, plan=plan))
        return replace(update, todos=after)

    async def _apply_changes(self, before: Sequence[Todo], after: tuple[Todo, ...]) -> TodosUpdated:
        notes: list[str] = []
        for cut in find_cancelled(before, after):
            after, note = await self._ask_about_cancelled(cut, before, after)
            notes.append(note)
        old_statuses = {todo.id: todo.status for todo in before}
        has_failed = False
        for todo in find_newly_completed(before, after):
            if todo.verify and (reason := await self._prove(todo)) is not None:
                has_failed = True
                notes.append(f"{todo.id} is not completed. {reason}")
                status: TodoStatus = old_statuses.get(todo.id, "pending")
                after = apply_statuses(after, {todo.id: status})
        after, undone = _hold_dependents(before, after)
        notes += undone
        return TodosUpdated(todos=after, notes=tuple(notes), failed=has_failed)

    async def _ask_about_cancelled(
        self, cut: CancelledTodo, before: Sequence[Todo], after: tuple[Todo, ...]
    ) -> tuple[tuple[Todo, ...], str]:
        key, names = cut.todo.id, [todo.id for todo in cut.waiting]
        request = QuestionAsked(id=new_id("ask"), call=self._call, questions=(_build_question(cut),))
        response = await self._user.ask(request)
        answer = response.answers[0] if response.answers else QuestionAnswer(question="cancelled", options=(RELEASE,))
        quote = f' The user said: "{answer.text.strip()}"' if answer.text.strip() else ""
        if CANCEL in answer.options:
            cancelled_status: TodoStatus = "cancelled"
            return apply_statuses(
                after, dict.fromkeys(names, cancelled_status)
            ), f"Cancelled with {key}: {', '.join(names)}."
        if KEEP in answer.options or (quote and RELEASE not in answer.options):
            old_status: TodoStatus = next((todo.status for todo in before if todo.id == key), "pending")
            return apply_statuses(
                after, {key: old_status}
            ), f"{key} is not cancelled: the user wants to keep it.{quote}"
        return after, f"{', '.join(names)} no longer depend{'s' if len(names) == 1 else ''} on {key}.{quote}"


class PlanFileEditor(TodoEditor):
    """The PLAN capability: the task list, and plan files."""

    def create_plan(self, plan: Plan) -> Plan:
        self._check()
        created_plan = self._plans.store.create(plan)
        self._plans.emit(PlanCreated(plan=created_plan))
        self._plans.emit(TodoChanged(todos=created_plan.todos, plan=created_plan.path))
        return created_plan

    async def update_plan(self, change: PlanChange) -> tuple[Plan, TodosUpdated]:
        self._check()
        plans, state = self._plans, self._plans.state
        path = change.path or state.todos_plan_path or state.current_plan_path
        if not path:
            raise ToolFailed("This session has no plan yet.", hint="Write one with create_plan.")
        plans.refresh()
        base = plans.store.load(path)
        todos = _remove_todos(apply_todo_changes(base.todos, change.todos, merge=True), change.remove)
        check_graph(todos, base.todos)
        check_steps(base.todos, todos)
        update = await self._apply_changes(base.todos, todos)
        self._check()
        merged_plan = plans.store.edit(
            path, name=change.name, overview=change.overview, body=change.body, todos=update.todos, base=base
        )
        plans.publish(merged_plan)
        plans.emit(TodoChanged(todos=merged_plan.plan.todos, plan=path))
        return merged_plan.plan, replace(update, todos=merged_plan.plan.todos)


def _remove_todos(todos: Sequence[Todo], removed_ids: Sequence[str]) -> tuple[Todo, ...]:
    unknown = sorted(set(removed_ids) - {todo.id for todo in todos})
    if unknown:
        raise ToolFailed(f"There is no todo {unknown[0]} to remove.", hint="Nothing was changed.")
    return tuple(todo for todo in todos if todo.id not in removed_ids)


def apply_statuses(todos: Sequence[Todo], status: Mapping[str, TodoStatus]) -> tuple[Todo, ...]:
    """Return the todos with these statuses, by id; other todos are unchanged."""
    return tuple(replace(todo, status=status.get(todo.id, todo.status)) for todo in todos)


def _hold_dependents(before: Sequence[Todo], after: tuple[Todo, ...]) -> tuple[tuple[Todo, ...], list[str]]:
    """Reset the status of todos that can't begin yet, and return all todos with notes about the reset ones.

    A todo can't begin while a dependency is open, or while another todo is in progress."""
    old_todos = {todo.id: todo for todo in before}
    notes: list[str] = []
    open_ids = {todo.id for todo in after if todo.status not in {"completed", "cancelled"}}
    working = [todo.id for todo in after if todo.status == "in_progress" == old_todos.get(todo.id, todo).status]
    for todo in after:
        old = old_todos[todo.id].status if todo.id in old_todos else "pending"
        if todo.status == old or todo.status not in {"in_progress", "completed"}:
            continue
        open_dependencies = [dependency for dependency in todo.dependencies if dependency in open_ids]
        if open_dependencies or (
            todo.status == "in_progress" and [todo_id for todo_id in working if todo_id != todo.id]
        ):
            notes.append(f"{todo.id} stays {old}: {', '.join(open_dependencies or working)} comes first.")
            after = apply_statuses(after, {todo.id: old})
            open_ids.add(todo.id)
    return after, notes


def _build_question(cut: CancelledTodo) -> Question:
    names = ", ".join(todo.id for todo in cut.waiting[:MAX_NAMED])
    remaining_count = len(cut.waiting) - MAX_NAMED
    listing = f"{names} and {remaining_count} more" if remaining_count > 0 else names
    return Question(
        id="cancelled",
        text=f"The agent is cancelling the todo {cut.todo.id} ({cut.todo.content}). What should happen "
        f"to {listing}, which {'depends' if len(cut.waiting) == 1 else 'depend'} on it?",
        options=(
            Option(id=RELEASE, label="Continue without it"),
            Option(id=CANCEL, label="Cancel them too"),
            Option(id=KEEP, label="Don't cancel it"),
        ),
    )


def build_prover(approver: Approver, origin: Origin, build_runner: Callable[[Approval], Runner]) -> Prove:
    """Build a function that runs a todo's command and returns why it proves nothing; None: it passed.

    `build_runner`: builds the runner for a command without a box, in the project itself, after the user's yes."""

    host = approver.permissions.terminal.host

    async def prove(todo: Todo) -> str | None:
        tool = RunTerminalCmd(
            command=todo.verify, explanation=f"It has to pass before the todo {todo.id} is completed."
        )
        if (refusal := await approver.find_refusal(origin.call, tool)) is not None:
            return f"Its command `{todo.verify}` was not run: {refusal}"
        permissions = approver.permissions
        approval = permissions.build_approval(todo.verify)
        permissions.record_exposure(Access.EXEC, None, origin.turn)
        is_clean = await permissions.terminal.find_box()
        suffix = ", alone in a clean layer" if is_clean else ""
        host.emit(ToolOutput(call=origin.call, text=f"{todo.id} is verified by $ {todo.verify}{suffix}\n"))
        try:
            if is_clean:
                result = await _run_clean(host, origin, todo)
            else:
                result = await build_runner(approval).run_command(todo.verify, time_limit=TIME_LIMIT)
        finally:
            permissions.network_grants.revoke_once()
        await approver.report_command(origin.call, tool, result)
        return _record_verification(host, todo, result, is_clean=is_clean)

    return prove


def _run_clean(host: CommandHost, origin: Origin, todo: Todo) -> Awaitable[CommandResult]:
    def show(text: str) -> None:
        host.emit(ToolOutput(call=origin.call, text=text))

    return run_clean(host, list_acceptable_changes(host.state.changes), todo.verify, show, TIME_LIMIT)


def _record_verification(host: CommandHost, todo: Todo, result: CommandResult, *, is_clean: bool) -> str | None:
    plan = host.state.todos_plan_path
    if is_clean:
        verification = verify_todo_run(host, todo, plan=plan, result=result, emit=host.emit)
    else:
        verification = record_todo_run(todo, plan=plan, result=result, is_unboxed=True)
        host.emit(verification)
    if verification.has_passed:
        return None
    output = result.output if len(result.output) <= MAX_OUTPUT else f"[…]\n{result.output[-MAX_OUTPUT:]}"
    content = format_outcome(todo.verify, replace(result, output=output)).content
    return f"Its command `{todo.verify}` did not pass:\n{content}\n{verification.problem}".rstrip()
