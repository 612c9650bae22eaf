"""A build in which several subagents work the todos of a plan at once, each that is ready in a session of its own.

One coordinator, a turn of the parent: it alone writes the plan file, takes the todos in the order of the graph, merges
what a subagent did when that is done, and proves the todo again where others were merged meanwhile. What becomes ready
then begins from the merged state. A subagent that could not finish keeps its work and its todo; the next build goes on
in its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from core.agent.debug_course import held_back
from core.agent.documents import Documents
from core.agent.leash import Leash
from core.agent.limits import Spent
from core.agent.plan_news import plan_events, refresh, tell_trouble
from core.agent.reminders import remind
from core.agent.session import SessionContext
from core.agent.tags import as_data, tagged
from core.clock import monotonic
from core.engine.children import new_child, open_child, sweep
from core.engine.faults import explained
from core.engine.live import LiveSession
from core.engine.merging import carry_check, carry_on, merge, unsettled
from core.engine.worker import End, Task, Worker, prove
from core.errors import AgentTuiError
from core.modes import Access
from core.plans.graph import DONE, ready
from core.protocol.commands import MOST_AT_ONCE
from core.protocol.documents import Todo, TodoStatus
from core.protocol.events import (
    AnyEvent,
    ChangeResolved,
    ChangeRevised,
    MessageAppended,
    Notice,
    SubagentMerged,
    TodoChanged,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from core.protocol.messages import UserMessage
from core.sessions.subagents import Subagent

STOP_LIMIT: Final = 15.0  # seconds that the subagents have to end when the build is stopped
STOPPED: Final = "it was stopped; building again goes on with it"
UNWANTED: Final = "its todo is not in progress any more; what was done is kept with the subagent"
RUNS: Final = frozenset({Access.EXEC, Access.JOB})


class ParallelBuild:
    """One build. `workers`: how many at once; `only`: the one todo that is to be built, "" = all."""

    def __init__(self, live: LiveSession, plan: str, workers: int, only: str = "") -> None:
        self._live = live
        self._runtime = live.runtime
        self._plan = plan
        self._workers = max(1, min(workers, MOST_AT_ONCE))
        self._only = only
        self._working: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, str] = {}  # why a todo that was taken on is not done, "" = it is, or is worked on
        self._waiting: dict[str, Subagent] = {}  # whose conflicts the user has to settle first
        self._unwanted: set[str] = set()
        self._merges = 0
        self._joining = asyncio.Lock()
        self._woken = asyncio.Event()
        self._limit = ""
        self._started = monotonic()

    async def run(self, context: SessionContext, prompt: str) -> None:
        """All of it, from `turn.started` to `turn.finished`."""
        self._context = context
        self._spent = Spent(lambda: context.settings.limits)
        self._documents = Documents(context.emit)
        context.emit(TurnStarted(prompt=prompt, mode=context.state.mode, model=context.route.id))
        context.emit(MessageAppended(message=UserMessage(content=tagged("user_query", prompt))))
        end: tuple[TurnEnd, str] = ("interrupted", "")
        self._runtime.listener, self._live.builds = self._heard, True
        working = context.working = asyncio.create_task(self._work())
        try:
            await asyncio.wait({working})
            if not working.cancelled():
                working.result()
                end = self._end()
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=STOP_LIMIT)
            context.working = self._runtime.listener = None
            self._live.builds = False
            context.give_back()
            self._tell(end)

    async def _work(self) -> None:
        await carry_on(self._live)
        sweep(self._runtime)
        try:
            while True:
                self._take_on()
                if not self._working:
                    return
                self._woken.clear()
                waking = asyncio.ensure_future(self._woken.wait())
                await asyncio.wait({*self._working.values(), waking}, return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                self._look_around()
        finally:
            await self._stop(list(self._working))

    async def _stop(self, todos: Sequence[str]) -> None:
        tasks = {self._working.pop(key) for key in todos}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_LIMIT)

    # what is to be done

    def _todos(self) -> tuple[Todo, ...]:
        """As they are now, whoever changed them."""
        state = self._context.state
        if state.plan_path == self._plan:
            refresh(self._context)
            return state.todos
        known = state.plans.get(self._plan)
        try:
            return self._context.plans.load(self._plan).todos
        except AgentTuiError as trouble:
            tell_trouble(self._context, trouble)
            return known.todos if known else ()

    def _set(self, key: str, status: TodoStatus) -> None:
        """Only here the plan file is written."""
        todos = tuple(replace(each, status=status) if each.id == key else each for each in self._todos())
        context = self._context
        if context.state.plan_path == self._plan:
            todos = context.keep_plan_todos(self._plan, todos)
            context.emit(TodoChanged(todos=todos, plan=self._plan))
            return
        try:
            for event in plan_events(context.plans.edit(self._plan, todos=todos)):
                context.emit(event)
        except AgentTuiError as trouble:
            tell_trouble(context, trouble)

    def _take_on(self) -> None:
        """Begin with as many todos as there is room for: those that were begun before first, then those that are ready,
        in their order."""
        todos = self._todos()
        begun = [todo for todo in todos if todo.status == "in_progress"]
        for todo in (*begun, *ready(todos)):
            if self._limit or len(self._working) >= self._workers:
                return
            if todo.id in self._tried or self._only not in {"", todo.id}:
                continue
            self._tried[todo.id] = ""
            if todo.status == "pending":
                self._set(todo.id, "in_progress")
            self._working[todo.id] = asyncio.create_task(self._one(todo), name=f"todo {todo.id}")

    def _look_around(self) -> None:
        """After something has changed: who has ended, whose todo is not wanted any more, what the user has settled."""
        for key in [key for key, task in self._working.items() if task.done()]:
            task = self._working.pop(key)
            if not task.cancelled():
                task.result()
        status = {todo.id: todo.status for todo in self._todos()}
        for key in [key for key in self._working if status.get(key, "cancelled") not in {"in_progress", "completed"}]:
            if key not in self._unwanted:
                self._unwanted.add(key)
                self._tried[key] = UNWANTED
                self._working[key].cancel()
        for key in [key for key, known in self._waiting.items() if not unsettled(self._live, known)]:
            del self._waiting[key], self._tried[key]

    def _heard(self, event: AnyEvent) -> None:
        if isinstance(event, TodoChanged | ChangeRevised | ChangeResolved):
            self._woken.set()

    # one todo

    async def _one(self, todo: Todo) -> None:
        known = self._known(todo.id)
        try:
            if known is not None and known.state == "merged":
                why = await self._finish_merged(todo, known)
                if why is None:
                    return
                known = None
            else:
                why = ""
            await self._in_session(todo, known, why)
        except AgentTuiError as problem:
            self._tried[todo.id] = problem.explained()
        except Exception as problem:  # a fault of ours with one of them must not end the others
            self._tried[todo.id] = explained(problem).message

    def _known(self, key: str) -> Subagent | None:
        """The subagent that was at a todo last."""
        found = [each for each in self._runtime.state.subagents.values() if (each.todo, each.plan) == (key, self._plan)]
        return found[-1] if found and found[-1].state != "closed" else None

    async def _finish_merged(self, todo: Todo, known: Subagent) -> str | None:
        """What was merged and is not ticked off: why it has to be worked on again; None: it has not."""
        async with self._joining:
            if unsettled(self._live, known):
                self._wait_for_user(todo, known)
                return None
            why = await prove(self._context, todo) if todo.verify else ""
            if not why:
                self._set(todo.id, "completed")
        return why or None

    async def _in_session(self, todo: Todo, known: Subagent | None, why: str) -> None:
        """Let a subagent do it: the one that has begun with it, or a new one."""
        child = open_child(self._live, known.id) if known is not None else None
        merges = self._merges if child is None else -1
        leash = Leash(parent=self._may, spent=self._spent)
        others = tuple(key for key in self._working if key != todo.id)
        plan = replace(self._context.plans.load(self._plan), todos=self._todos())
        task = Task(plan=plan, todo=todo, others=others, why=why)
        worker = Worker(self._live, child or await new_child(self._live), task, leash)
        end = End(reason="interrupted")
        try:
            end = await worker.work()
            if end.reason == "limit":
                self._limit = end.message
            if end.reason == "done" and not end.message:
                async with self._joining:
                    await self._join(worker, todo, merges)
            else:
                self._tried[todo.id] = end.message or STOPPED
        except AgentTuiError as problem:
            end = End(reason="failed", message=problem.explained())
            self._tried[todo.id] = end.message
        finally:
            await worker.close(end)

    def _may(self, access: Access) -> bool:
        """What the parent may itself at this moment; effects are kept only where its own would be."""
        context = self._context
        return (
            context.grants(access)
            and not held_back(context, access)
            and (access not in RUNS or context.terminal.keeps() or not context.contained)
        )

    async def _join(self, worker: Worker, todo: Todo, merges: int) -> None:
        """Take in what it did, and tick the todo off if nothing speaks against it."""
        if all(each.id != todo.id or each.status in DONE for each in self._todos()):
            self._tried[todo.id] = UNWANTED
            return
        merged = merge(self._live, worker.child)
        others, self._merges = merges != self._merges, self._merges + 1
        if not others:
            carry_check(self._live, worker.child)
        if merged.refused:
            self._tried[todo.id] = " ".join(merged.notes)
            return
        if merged.conflicts:
            self._wait_for_user(todo, self._runtime.state.subagents[worker.id])
            self._tell_conflict(todo, merged)
            return
        why = await prove(self._context, todo) if todo.verify and others else ""
        if why:
            self._tried[todo.id] = f"with what others did meanwhile it does not pass. {why}"
            return
        self._set(todo.id, "completed")

    def _wait_for_user(self, todo: Todo, known: Subagent) -> None:
        self._waiting[todo.id] = known
        paths = ", ".join(f"`{path}`" for path in unsettled(self._live, known))
        self._tried[todo.id] = f"its changes clash with others in {paths}"

    def _tell_conflict(self, todo: Todo, merged: SubagentMerged) -> None:
        self._context.emit(
            Notice(
                level="warning",
                message=f"{todo.id} clashes with what others did in {', '.join(merged.conflicts)}.",
                hint="Settle it in the review (t); the todo is ticked off then.",
            )
        )

    # the end

    def _end(self) -> tuple[TurnEnd, str]:
        if self._limit:
            return "limit", self._limit
        failed = [key for key, why in self._tried.items() if why and key not in self._waiting]
        if failed:
            return "failed", f"{', '.join(failed)}: {self._tried[failed[0]]}"
        return "done", ""

    def _tell(self, end: tuple[TurnEnd, str]) -> None:
        """The end of the turn, for the user and, in the history, for the model."""
        context, state = self._context, self._runtime.state
        told = self._told()
        remind(context, as_data(told))
        self._documents.text(told)
        usage = state.turn.usage if state.turn is not None else self._spent.usage
        context.emit(
            TurnFinished(
                reason=end[0],
                usage=usage,
                steps=self._spent.steps,
                duration_ms=round((monotonic() - self._started) * 1000),
                message=end[1],
            )
        )

    def _told(self) -> str:
        """What was done and what is left, in a few lines."""
        todos = [todo for todo in self._todos() if self._only in {"", todo.id}]
        done = sum(todo.status == "completed" for todo in todos)
        lines = [f"Built by subagents: {done} of {len(todos)} todos are completed."]
        lines += [f"- {key}: {why.splitlines()[0]}" for key, why in self._tried.items() if why]
        waiting = [todo.id for todo in todos if todo.status not in DONE and not self._tried.get(todo.id)]
        lines += [f"- not begun or not finished: {', '.join(waiting)}"] if waiting else []
        return "\n".join(lines)
