"""TODO and PLAN: the task list, the file of the plan that it belongs to, and new plan files.

A list that is set is settled first: only steps that a worker may take, the user's word on what waits for a todo that is
cancelled, and a passed command for each todo that says how it is proved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from core.agent.plan_news import plan_events, refresh
from core.agent.session import SessionContext
from core.errors import ToolFailed
from core.ids import new_id
from core.plans.graph import check
from core.plans.model import merge_todos
from core.plans.transitions import Cut, check_steps, cuts, newly_completed
from core.protocol.documents import Option, Question, QuestionAnswer, Todo, TodoStatus
from core.protocol.events import PlanCreated, QuestionAsked, TodoChanged
from core.protocol.plans import Plan
from core.tools.base import PlanChange, Settled

Prove = Callable[[Todo], Awaitable[str]]
NAMED = 6  # todos in a question
RELEASE, CANCEL, KEEP = "release", "cancel", "keep"


class TaskBoard:
    """TODO. `check_lease` raises when the call is over; `prove` runs a todo's command and says why it did not pass."""

    def __init__(self, session: SessionContext, call: str, check_lease: Callable[[], None], prove: Prove) -> None:
        self._session = session
        self._call = call
        self._check = check_lease
        self._prove = prove

    def todos(self) -> tuple[Todo, ...]:
        self._check()
        refresh(self._session)
        return self._session.state.todos

    @property
    def plan(self) -> str:
        return self._session.state.plan_path

    async def set_todos(self, todos: tuple[Todo, ...]) -> Settled:
        self._check()
        before = self._session.state.todos
        check(todos, before)
        check_steps(before, todos)
        settled = await self._settle(before, todos)
        self._check()
        plan, after = self.plan, settled.todos
        if plan:
            after = self._session.keep_plan_todos(plan, after)
        self._session.emit(TodoChanged(todos=after, plan=plan))
        return replace(settled, todos=after)

    async def _settle(self, before: Sequence[Todo], after: tuple[Todo, ...]) -> Settled:
        """What of a change of todos comes true, and what there is to say about the rest."""
        notes: list[str] = []
        for cut in cuts(before, after):
            after, note = await self._cut(cut, before, after)
            notes.append(note)
        was = {todo.id: todo.status for todo in before}
        failed = False
        for todo in newly_completed(before, after):
            if todo.verify and (why := await self._prove(todo)):
                failed = True
                notes.append(f"{todo.id} is not completed. {why}")
                status: TodoStatus = was.get(todo.id, "pending")
                after = _with_status(after, {todo.id: status})
        after, undone = _held_back(before, after)
        notes += undone
        return Settled(todos=after, notes=tuple(notes), failed=failed)

    async def _cut(self, cut: Cut, before: Sequence[Todo], after: tuple[Todo, ...]) -> tuple[tuple[Todo, ...], str]:
        """Ask what becomes of the todos that wait for one that is cancelled."""
        key, names = cut.todo.id, [todo.id for todo in cut.waiting]
        asked = QuestionAsked(id=new_id("ask"), call=self._call, questions=(_question(cut),))
        answered = await self._session.ask(asked)
        answer = answered.answers[0] if answered.answers else QuestionAnswer(question="cancelled", options=(RELEASE,))
        said = f' The user said: "{answer.text.strip()}"' if answer.text.strip() else ""
        if CANCEL in answer.options:
            gone: TodoStatus = "cancelled"
            return _with_status(after, dict.fromkeys(names, gone)), f"Cancelled with {key}: {', '.join(names)}."
        if KEEP in answer.options or (said and RELEASE not in answer.options):
            was: TodoStatus = next((todo.status for todo in before if todo.id == key), "pending")
            return _with_status(after, {key: was}), f"{key} is not cancelled: the user wants to keep it.{said}"
        return after, f"{', '.join(names)} no longer wait{'s' if len(names) == 1 else ''} for {key}.{said}"


class PlanDesk(TaskBoard):
    """PLAN: plan files, beside the list."""

    def create_plan(self, plan: Plan) -> Plan:
        self._check()
        created = self._session.plans.create(plan)
        self._session.emit(PlanCreated(plan=created))
        self._session.emit(TodoChanged(todos=created.todos, plan=created.path))
        return created

    async def update_plan(self, change: PlanChange) -> tuple[Plan, Settled]:
        self._check()
        session = self._session
        path = change.path or session.state.plan_path or session.state.plan
        if not path:
            raise ToolFailed("There is no plan in this session yet.", hint="Write one with create_plan.")
        refresh(session)
        base = session.plans.load(path)
        todos = _without(merge_todos(base.todos, change.todos, merge=True), change.remove)
        check(todos, base.todos)
        check_steps(base.todos, todos)
        settled = await self._settle(base.todos, todos)
        self._check()
        merged = session.plans.edit(
            path, name=change.name, overview=change.overview, body=change.body, todos=settled.todos, base=base
        )
        for event in plan_events(merged):
            session.emit(event)
        session.emit(TodoChanged(todos=merged.plan.todos, plan=path))
        return merged.plan, replace(settled, todos=merged.plan.todos)


def _without(todos: Sequence[Todo], removed: Sequence[str]) -> tuple[Todo, ...]:
    unknown = sorted(set(removed) - {todo.id for todo in todos})
    if unknown:
        raise ToolFailed(f"There is no todo {unknown[0]} to remove.", hint="Nothing was changed.")
    return tuple(todo for todo in todos if todo.id not in removed)


def _with_status(todos: Sequence[Todo], status: Mapping[str, TodoStatus]) -> tuple[Todo, ...]:
    return tuple(replace(todo, status=status.get(todo.id, todo.status)) for todo in todos)


def _held_back(before: Sequence[Todo], after: tuple[Todo, ...]) -> tuple[tuple[Todo, ...], list[str]]:
    """What can't begin now, because what it depends on was not completed after all, or another is in progress still."""
    was = {todo.id: todo for todo in before}
    notes: list[str] = []
    open_ids = {todo.id for todo in after if todo.status not in {"completed", "cancelled"}}
    working = [todo.id for todo in after if todo.status == "in_progress" == was.get(todo.id, todo).status]
    for todo in after:
        old = was[todo.id].status if todo.id in was else "pending"
        if todo.status == old or todo.status not in {"in_progress", "completed"}:
            continue
        waits = [each for each in todo.dependencies if each in open_ids]
        if waits or (todo.status == "in_progress" and [each for each in working if each != todo.id]):
            notes.append(f"{todo.id} stays {old}: {', '.join(waits or working)} comes first.")
            after = _with_status(after, {todo.id: old})
            open_ids.add(todo.id)
    return after, notes


def _question(cut: Cut) -> Question:
    names = ", ".join(todo.id for todo in cut.waiting[:NAMED])
    more = len(cut.waiting) - NAMED
    shown = f"{names} and {more} more" if more > 0 else names
    return Question(
        id="cancelled",
        text=f"The agent cancels the todo {cut.todo.id} ({cut.todo.content}). What becomes of {shown}, which "
        f"{'depends' if len(cut.waiting) == 1 else 'depend'} on it?",
        options=(
            Option(id=RELEASE, label="Go on with them, without it"),
            Option(id=CANCEL, label="Cancel them, too"),
            Option(id=KEEP, label="Do not cancel it"),
        ),
    )
