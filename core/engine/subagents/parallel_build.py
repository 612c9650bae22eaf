"""Build a plan with several subagents at once, each at one ready todo.

The coordinator is a turn of the parent. It alone writes the plan file, starts the todos in the order of the graph,
merges the changes of a subagent that is done, and runs the todo's `verify` again if others were merged meanwhile. A
todo that becomes ready starts from the merged state. A subagent that could not finish keeps its changes and its todo;
the next build resumes its session.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from msgspec.structs import replace

from core.agent.base.budget import SubagentLimits
from core.agent.context.turn_context import TurnContext
from core.agent.turn.turn_frame import STOP_LIMIT, Ending
from core.engine.session.session import Session
from core.engine.session.tasks import explain_fault
from core.engine.subagents.runner import SubagentEnd, SubagentRunner, is_granted_to_subagent
from core.engine.subagents.sessions import (
    adopt_checks,
    create_subagent_session,
    find_unresolved_paths,
    merge_subagent,
    open_subagent_session,
)
from core.engine.subagents.subagent_turn import SubagentTurn
from core.engine.subagents.todo_runner import TodoRunner, TodoTask, verify_todo
from core.errors import AgentTuiError
from core.plans.todo_graph import DONE, find_ready
from core.protocol import events as ev
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.documents import Todo, TodoStatus
from core.state.session import SubagentState
from core.tasks import cancel_tasks

STOPPED_REASON: Final = "it was stopped; building again continues it"
UNWANTED_REASON: Final = "its todo is no longer in progress; its work stays with the subagent"


class ParallelBuild(SubagentTurn):
    """One build. `workers`: the most subagents at once; `only`: the one todo to build, "" = all."""

    def __init__(self, session: Session, plan: str, workers: int, only: str = "") -> None:
        super().__init__(session)
        self._plan = plan
        self._workers = max(1, min(workers, MAX_SUBAGENTS))
        self._only = only
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reasons: dict[str, str] = {}  # why a started todo is not done, "" = it is done or in progress
        self._conflicted: dict[str, SubagentState] = {}  # their conflicts wait for the user
        self._unwanted: set[str] = set()
        self._merges = 0
        self._merge_lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._limit = ""
        self._listening = ((ev.TodoChanged, ev.ChangeRevised, ev.ChangeResolved), lambda _: self._wake.set())

    async def run(self, context: TurnContext, prompt: str) -> None:
        self.session.recorder.listeners.append(self._listening)
        self.session.is_building = True
        await super().run(context, prompt)

    def end_work(self) -> None:
        self.session.recorder.listeners.remove(self._listening)
        self.session.is_building = False

    async def work(self) -> None:
        try:
            while True:
                self._start_todos()
                if not self._tasks:
                    return
                await self._wake.wait()
                self._wake.clear()
                self._review_progress()
        finally:
            running, self._tasks = self._tasks, {}
            await cancel_tasks(running.values(), limit=STOP_LIMIT)

    def _load_todos(self) -> tuple[Todo, ...]:
        state = self.context.state
        if state.todos_plan_path == self._plan:
            self.context.plans.refresh()
            return state.todos
        plan = state.plans.get(self._plan)
        try:
            return self.context.plans.store.load(self._plan).todos
        except AgentTuiError as trouble:
            self.context.plans.report_error(trouble)
            return plan.todos if plan else ()

    def _set_status(self, key: str, status: TodoStatus) -> None:
        """Write a todo's status to the plan file. Nothing else in a build writes it."""
        todos = tuple(replace(todo, status=status) if todo.id == key else todo for todo in self._load_todos())
        context = self.context
        if context.state.todos_plan_path == self._plan:
            todos = context.plans.save_todos(self._plan, todos)
            context.emit(ev.TodoChanged(todos=todos, plan=self._plan))
            return
        try:
            context.plans.publish(context.plans.store.edit(self._plan, todos=todos))
        except AgentTuiError as trouble:
            context.plans.report_error(trouble)

    def _start_todos(self) -> None:
        """Start todos up to the limit of workers: those in progress first, then the ready ones, in order."""
        todos = self._load_todos()
        active_todos = [todo for todo in todos if todo.status == "in_progress"]
        for todo in (*active_todos, *find_ready(todos)):
            if self._limit or len(self._tasks) >= self._workers:
                return
            if todo.id in self._reasons or self._only not in {"", todo.id}:
                continue
            self._reasons[todo.id] = ""
            if todo.status == "pending":
                self._set_status(todo.id, "in_progress")
            task = self._tasks[todo.id] = self.owner.start(self._build_todo(todo), name=f"todo {todo.id}")
            task.add_done_callback(lambda _: self._wake.set())

    def _review_progress(self) -> None:
        """Collect ended tasks, cancel todos that are no longer wanted, and forget conflicts that the user resolved."""
        for key in [key for key, task in self._tasks.items() if task.done()]:
            task = self._tasks.pop(key)
            if not task.cancelled():
                task.result()
        status = {todo.id: todo.status for todo in self._load_todos()}
        for key in [key for key in self._tasks if status.get(key, "cancelled") not in {"in_progress", "completed"}]:
            if key not in self._unwanted:
                self._unwanted.add(key)
                self._reasons[key] = UNWANTED_REASON
                self._tasks[key].cancel()
        for key in [
            key for key, subagent in self._conflicted.items() if not find_unresolved_paths(self.session, subagent)
        ]:
            del self._conflicted[key], self._reasons[key]

    async def _build_todo(self, todo: Todo) -> None:
        subagent = self._find_subagent(todo.id)
        try:
            if subagent is not None and subagent.state == "merged":
                reason = await self._complete_merged(todo, subagent)
                if reason is None:
                    return
                subagent = None
            else:
                reason = ""
            await self._run_subagent(todo, subagent, reason)
        except AgentTuiError as problem:
            self._reasons[todo.id] = problem.format_with_hint()
        except Exception as problem:  # a fault of ours with one of them must not end the others
            self._reasons[todo.id] = explain_fault(problem).message

    def _find_subagent(self, key: str) -> SubagentState | None:
        subagents = [
            subagent
            for subagent in self.session.state.subagents.values()
            if (subagent.todo, subagent.plan) == (key, self._plan)
        ]
        return subagents[-1] if subagents and subagents[-1].state != "closed" else None

    async def _complete_merged(self, todo: Todo, subagent: SubagentState) -> str | None:
        """Complete a todo that was merged before. Return why it needs more work; None = it needs none."""
        async with self._merge_lock:
            if find_unresolved_paths(self.session, subagent):
                self._wait_for_user(todo, subagent)
                return None
            reason = await verify_todo(self.context, todo) if todo.verify else None
            if reason is None:
                self._set_status(todo.id, "completed")
        return reason

    async def _run_subagent(self, todo: Todo, subagent: SubagentState | None, reason: str) -> None:
        child = open_subagent_session(self.session, subagent.id) if subagent is not None else None
        merges = self._merges if child is None else -1
        limits = SubagentLimits(parent_grants=partial(is_granted_to_subagent, self.context), budget=self.spent)
        others = tuple(key for key in self._tasks if key != todo.id)
        plan = replace(self.context.plans.store.load(self._plan), todos=self._load_todos())
        task = TodoTask(plan=plan, todo=todo, others=others, why=reason)
        runner = TodoRunner(self.session, child or await create_subagent_session(self.session), task, limits)
        end = SubagentEnd(reason="interrupted")
        try:
            end = await runner.run()
            if end.reason == "limit":
                self._limit = end.message
            if end.reason == "done" and not end.message:
                async with self._merge_lock:
                    await self._merge_result(runner, todo, merges)
            else:
                self._reasons[todo.id] = end.message or STOPPED_REASON
        except AgentTuiError as problem:
            end = SubagentEnd(reason="failed", message=problem.format_with_hint())
            self._reasons[todo.id] = end.message
        finally:
            await runner.close(end)

    async def _merge_result(self, runner: SubagentRunner, todo: Todo, merges: int) -> None:
        if all(current_todo.id != todo.id or current_todo.status in DONE for current_todo in self._load_todos()):
            self._reasons[todo.id] = UNWANTED_REASON
            return
        merge = merge_subagent(self.session, runner.child)
        others, self._merges = merges != self._merges, self._merges + 1
        if not others:
            adopt_checks(self.session, runner.child)
        if merge.refused:
            self._reasons[todo.id] = " ".join(merge.notes)
            return
        if merge.conflicts:
            self._wait_for_user(todo, self.session.state.subagents[runner.id])
            message = f"{todo.id} conflicts with other changes in {', '.join(merge.conflicts)}."
            hint = "Resolve it in the review (t); then the todo is completed."
            self.context.emit(ev.Notice(level="warning", message=message, hint=hint))
            return
        reason = await verify_todo(self.context, todo) if todo.verify and others else None
        if reason is not None:
            self._reasons[todo.id] = f"together with the others' changes it does not pass. {reason}"
            return
        self._set_status(todo.id, "completed")

    def _wait_for_user(self, todo: Todo, subagent: SubagentState) -> None:
        self._conflicted[todo.id] = subagent
        paths = ", ".join(f"`{path}`" for path in find_unresolved_paths(self.session, subagent))
        self._reasons[todo.id] = f"its changes conflict with others in {paths}"

    def find_outcome(self) -> Ending:
        if self._limit:
            return "limit", self._limit
        failed_keys = [key for key, reason in self._reasons.items() if reason and key not in self._conflicted]
        if failed_keys:
            return "failed", f"{', '.join(failed_keys)}: {self._reasons[failed_keys[0]]}"
        return "done", ""

    def report(self) -> tuple[str, str]:
        result = self._format_result()
        return result, result

    def _format_result(self) -> str:
        todos = [todo for todo in self._load_todos() if self._only in {"", todo.id}]
        done_count = sum(todo.status == "completed" for todo in todos)
        lines = [f"Built by subagents: {done_count} of {len(todos)} todos are completed."]
        lines += [f"- {key}: {reason.splitlines()[0]}" for key, reason in self._reasons.items() if reason]
        waiting = [todo.id for todo in todos if todo.status not in DONE and not self._reasons.get(todo.id)]
        lines += [f"- not started or not finished: {', '.join(waiting)}"] if waiting else []
        return "\n".join(lines)
