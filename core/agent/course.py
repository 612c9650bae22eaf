"""Keeps a turn on its course: a plan turn ends with a question or a plan, a build goes on until no todo is left.

A model that works a plan and never says so still has its todos followed: they begin in the order of the graph, and the
file that it edits tells which one it is at. One that writes statuses into the plan's file has them read back. What is
proved by a command is not completed without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.agent.capabilities import CommandRunner, Lease, UserDesk
from core.agent.debug_course import DebugCourse
from core.agent.gate import Call
from core.agent.plan_news import refresh
from core.agent.plan_readback import read_back
from core.agent.proving import prover
from core.agent.reminders import remind
from core.agent.session import SessionContext
from core.agent.task_board import TaskBoard
from core.errors import AgentTuiError
from core.modes import Access
from core.plans.graph import DONE, ready
from core.prompts import render
from core.protocol.documents import Todo, TodoStatus
from core.protocol.events import Notice
from core.protocol.review import Origin
from core.tools.base import FileEditDetail
from core.tools.registry import ALIASES, parse_call
from core.tools.todo_write import told_todos

MAX_URGED = 2  # times in a row without a todo done that a model is asked to go on with a build
ENDS_A_PLAN = frozenset({"create_plan", "update_plan", "switch_mode"})
WORKS = frozenset({Access.PROPOSE, Access.EXEC})
_WORDS = re.compile(r"[A-Za-z0-9]{3,}")


class Course:
    """That of one turn."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._used: set[str] = set()
        self._looked = False
        self._owes_nothing = False
        self._keeps_file = False
        self._edited: set[str] = set()
        self._seen = self._list()
        self._urged = 0
        self._debugging = DebugCourse(session)
        self._done = 0

    # What the user changed meanwhile.

    def take_in(self) -> None:
        """Before a step: the todos as they are now, if somebody else changed them."""
        session = self._session
        if not session.state.plan_path:
            return
        refresh(session)
        if (now := self._list()) != self._seen:
            self._seen = now
            remind(session, render("reminders/plan_changed", todos=told_todos(session.state.todos)))

    def _list(self) -> tuple[Todo, ...]:
        return self._session.state.todos

    # What the model does.

    async def expect(self, calls: Sequence[Call]) -> None:
        """Before the calls of a step, so that its first edit is known by the todo that it is for."""
        if self._session.building and not self._keeps_list(calls):
            first = next(filter(None, map(_path_of, calls)), "")
            if first and first != self._session.state.plan_path:
                await self._follow(calls[0].request.id, first)

    def _keeps_list(self, calls: Sequence[Call] = ()) -> bool:
        """Whether the model keeps the list itself, now or before: with `todo_write`, or in the plan's file."""
        used = self._used | {ALIASES.get(call.request.name, call.request.name) for call in calls}
        return self._keeps_file or "todo_write" in used

    async def note(self, calls: Sequence[Call]) -> None:
        """After the calls of a step."""
        self._used |= {call.name for call in calls}
        self._looked = self._looked or any(call.status == "completed" for call in calls)
        self._owes_nothing = self._owes_nothing or any(map(_ends_a_plan, calls))
        worked = [call for call in calls if call.status == "completed" and call.access in WORKS]
        if worked:
            await self._read_back(worked[-1].request.id)
        if self._follows:
            for call in worked:
                for path in self._paths_of(call):
                    await self._follow(call.request.id, path)
                    self._note_edit(path)
        self._seen = self._list()

    def _paths_of(self, call: Call) -> list[str]:
        """The files that a call changed, but for the plan's own; of a command that changed none: an empty one."""
        detail, plan = call.outcome.detail, self._session.state.plan_path
        if isinstance(detail, FileEditDetail):
            return [detail.path] if detail.path != plan else []
        changes = self._session.state.changes.items()
        made = [path for path, each in changes if each.origin is not None and each.origin.call == call.request.id]
        return [path for path in made if path != plan] or [""]

    async def _read_back(self, call: str) -> None:
        """What the model wrote into the plan's file becomes the list, as far as the rules let it."""

        async def settle(key: str, status: TodoStatus) -> Sequence[str]:
            return await self._settle(call, {key: status})

        found = await read_back(self._session, settle)
        self._keeps_file = self._keeps_file or bool(found.written)
        if found.notes:
            told = render("reminders/plan_file", notes=found.notes, todos=told_todos(self._session.state.todos))
            remind(self._session, told)

    @property
    def _follows(self) -> bool:
        return bool(self._session.building) and not self._keeps_list()

    async def _follow(self, call: str, path: str) -> None:
        """Let the list show what the model is at, since it does not say so. `path`: what it edits, "" = a command."""
        todos = self._session.state.todos
        now = next((todo for todo in todos if todo.status == "in_progress"), None)
        free = self._wanted(ready(todos if now is None else _set(todos, {now.id: "completed"})))
        meant = max(free, key=lambda todo: _fits(todo, path), default=None)
        if now is None and meant is not None:
            await self._step(call, {meant.id: "in_progress"})
        elif now and meant and path and now.id in self._edited and _fits(meant, path) > _fits(now, path):
            await self._step(call, {now.id: "completed", meant.id: "in_progress"})

    def _note_edit(self, path: str) -> None:
        if path:
            self._edited |= {todo.id for todo in self._session.state.todos if todo.status == "in_progress"}

    async def _step(self, call: str, statuses: dict[str, TodoStatus]) -> None:
        """Set statuses as the model would, by the same rules; what stands against it is said."""
        try:
            if notes := await self._settle(call, statuses):
                remind(self._session, "\n".join(notes))
        except AgentTuiError as trouble:
            self._session.emit(Notice(level="warning", message=trouble.message, hint=trouble.hint))

    async def _settle(self, call: str, statuses: dict[str, TodoStatus]) -> Sequence[str]:
        """Set statuses by the rules of the list; what there is to say. Raises `AgentTuiError` for what must not be."""
        session, lease = self._session, Lease()
        origin = Origin(turn=session.turn, call=call, tool="todo_write")
        prove = prover(session, call, lambda yes: CommandRunner(session, origin, yes, lease))
        board = TaskBoard(session, call, lease.check, prove)
        try:
            return (await board.set_todos(_set(board.todos(), statuses))).notes
        finally:
            lease.end()

    # Whether it may end.

    async def goes_on(self, text: str, *, over: bool = False) -> bool:
        """After an answer without calls: whether the model was told to go on. `over`: it said in the form of its
        dialect that it is done, so nothing but a build that is not done is urged on."""
        if over:
            return bool(self._session.building) and await self._builds_on()
        if await self._debugging.goes_on():
            return True
        if text.rstrip().endswith("?"):
            return False
        if self._session.building:
            return await self._builds_on()
        return self._plans_on()

    def _plans_on(self) -> bool:
        """A plan turn that looked into the code owes a question or a plan. Asked for once; a talk needs neither."""
        if self._session.state.mode != "plan" or not self._looked or self._owes_nothing or self._urged:
            return False
        self._urged = 1
        remind(self._session, render("reminders/plan_owed"))
        return True

    async def _builds_on(self) -> bool:
        if self._follows and self._edited:
            await self._close()
        left = [todo for todo in self._wanted(self._session.state.todos) if todo.status not in DONE]
        done = len(self._session.state.todos) - len(left)
        self._urged = 0 if done > self._done else self._urged
        self._done = done
        if not left:
            return False
        if self._urged >= MAX_URGED:
            count = "one todo is" if len(left) == 1 else f"{len(left)} todos are"
            self._session.emit(
                Notice(
                    level="info",
                    message=f"The build stopped: {count} left.",
                    hint="Building again goes on there (b in the plan, or /build).",
                )
            )
            return False
        self._urged += 1
        now = next((todo.id for todo in left if todo.status == "in_progress"), "")
        free = [todo.id for todo in self._wanted(ready(self._session.state.todos))]
        by_file = self._session.state.plan_path if self._has_commands_alone else ""
        told = render("reminders/build_left", todos=told_todos(left), now=now, ready=free, by_file=by_file)
        remind(self._session, told)
        self._seen = self._list()
        return True

    @property
    def _has_commands_alone(self) -> bool:
        """Whether the model has no tool for the list, but the shell."""
        return self._session.dialect == "command"

    async def _close(self) -> None:
        """The model says that it is done: so is what it worked at, if its command says so, too."""
        now = next((todo for todo in self._session.state.todos if todo.status == "in_progress"), None)
        if now is not None and now.id in self._edited:
            self._edited.discard(now.id)
            await self._step("", {now.id: "completed"})

    def _wanted(self, todos: Sequence[Todo]) -> list[Todo]:
        """Those that are to be built: all, or the one that the user chose."""
        chosen = self._session.building_todo
        return [todo for todo in todos if chosen in ("", todo.id)]


def _ends_a_plan(call: Call) -> bool:
    """A plan that was written, or a question that the user left open: with an answer there is more to do."""
    if call.status != "completed":
        return False
    desk = call.capability
    return call.name in ENDS_A_PLAN or (isinstance(desk, UserDesk) and bool(desk.questions) and not desk.answers)


def _set(todos: Sequence[Todo], statuses: dict[str, TodoStatus]) -> tuple[Todo, ...]:
    from msgspec.structs import replace

    return tuple(replace(todo, status=statuses.get(todo.id, todo.status)) for todo in todos)


def _path_of(call: Call) -> str:
    """The file that a call is going to edit, "" = it edits none, or does not say it well."""
    try:
        tool = parse_call(call.request.name, call.request.arguments)
    except AgentTuiError:
        return ""
    return next(iter(tool.paths()), "") if tool.access is Access.PROPOSE else ""


def _fits(todo: Todo, path: str) -> float:
    """How much a todo speaks of a file: by its path, its name, or words of it; 0 = not at all."""
    if not path:
        return 0
    text, name = f"{todo.id} {todo.content}".lower(), path.rpartition("/")[2].lower()
    if path.lower() in text:
        return 3
    if name in text:
        return 2
    words = {word.lower() for word in _WORDS.findall(path.rpartition(".")[0] or path)}
    return len(words & set(_WORDS.findall(text))) / (len(words) + 1)
