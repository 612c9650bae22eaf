"""One subagent at its todo: its turns until it is done and its command passes, or until it can't go on."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.capabilities import CommandRunner, Lease
from core.agent.leash import Leash
from core.agent.proving import prover
from core.agent.session import SessionContext
from core.clock import monotonic
from core.engine.live import LiveSession
from core.engine.reporting import Reporter
from core.engine.runtime import SessionRuntime
from core.ids import new_id
from core.plans.graph import at_hand
from core.prompts import render
from core.protocol.documents import Todo
from core.protocol.events import EffortChanged, ModelChanged, SubagentFinished, SubagentStarted, TurnEnd
from core.protocol.plans import Plan
from core.protocol.review import Origin

TRIES: Final = 3  # turns in which it may make its command pass
BEGUN: Final = "It was begun before and not finished: look at what is changed already, and go on from there."
ASKED: Final = (
    "You stopped with a question that nobody could answer: ask with ask_question what only the user can say, decide "
    "the rest yourself, and go on."
)
SHOWN: Final = 2_000  # characters of its last words that are kept


class End(Struct, frozen=True, kw_only=True):
    """How it ended; `message` says why it is not done."""

    reason: TurnEnd
    message: str = ""


class Task(Struct, frozen=True, kw_only=True):
    """What it is given. `why` there is something to say about how it stands, "" = there is not; `others` are the todos
    that are worked on beside it."""

    plan: Plan
    todo: Todo
    others: tuple[str, ...] = ()
    why: str = ""


class Worker:
    """Belongs to one todo. `close` has to be called, whatever happened."""

    def __init__(self, parent: LiveSession, child: LiveSession, task: Task, leash: Leash) -> None:
        self.parent = parent
        self.child = child
        self.task = task
        self._started = monotonic()
        self._again = child.runtime.id in parent.runtime.state.subagents
        self._finished = False
        child.turns.leash = leash
        todo = task.todo
        _choose_model(child.runtime, todo)
        parent.runtime.emit(
            SubagentStarted(
                id=child.runtime.id,
                todo=todo.id,
                plan=task.plan.path,
                title=todo.content,
                model=child.runtime.state.model,
                again=self._again,
            )
        )
        self._reporter = Reporter(parent, child, task.plan.path, todo.id)

    @property
    def id(self) -> str:
        return self.child.runtime.id

    async def work(self) -> End:
        """Until it has come to an end, and is at rest: nothing of it runs any more. Raises `AgentTuiError`."""
        end = await self._work()
        await self.child.runtime.terminal.close()
        self.finish(end)
        return end

    async def _work(self) -> End:
        is_done, known = self._is_done, self.parent.runtime.state.subagents[self.id]
        asked = known.reason == "done" and bool(known.message)
        why = self.task.why or (ASKED if asked else BEGUN if self._again else "")
        self._reporter.ask_again()
        for _ in range(TRIES):
            if not is_done and (end := await self._turn(why)).reason != "done":
                return end
            if self._reporter.said.endswith("?") and not is_done:
                return End(reason="done", message=f"It asks: {self._reporter.said[-SHOWN:]}")
            if not (is_done or self.task.todo.verify or self._has_worked):
                return End(reason="failed", message=f"It did nothing. {self._reporter.said[-SHOWN:]}".strip())
            why = await self._proof()
            if not why:
                return End(reason="done")
            is_done = False
        return End(reason="failed", message=why)

    @property
    def _is_done(self) -> bool:
        """Whether it was done when it was stopped, so that nothing but the rest is left."""
        known, turns = self.parent.runtime.state.subagents[self.id], self.child.runtime.state.turns
        has_ended = known.reason == "done" and not known.message
        return self._again and has_ended and bool(turns) and turns[-1].reason == "done"

    @property
    def _has_worked(self) -> bool:
        """Whether it has called a tool, or changed something before."""
        review = self.child.runtime.review
        begun = next(iter(review.points.values()), None)
        return bool(self._reporter.calls) or begun is None or dict(begun.changes) != review.changes

    async def _turn(self, why: str) -> End:
        turns, task = self.child.turns, self.task
        whole = not self.child.runtime.state.turns
        plan = replace(task.plan, todos=at_hand(task.plan.todos))
        instruction = render("plan_subagent", todo=task.todo, plan=plan, others=task.others, why=why, whole=whole)
        await turns.reserve()
        turns.start(task.todo.content, (), instruction=instruction)
        await turns.ended()
        turn = self.child.runtime.state.turns[-1]
        return End(reason=turn.reason or "failed", message=turn.message)

    async def _proof(self) -> str:
        """Why the command of the todo is not passed here, "" = it is, or there is none."""
        todo = self.task.todo
        if not todo.verify:
            return ""
        self._reporter.proves(todo.verify, "running")
        why = await prove(self.child.turns.ready_context(), todo)
        self._reporter.proves(todo.verify, "failed" if why else "completed")
        return why

    def finish(self, end: End) -> None:
        """Say, once, that it has stopped."""
        if self._finished:
            return
        self._finished = True
        self._reporter.close()
        self.parent.runtime.emit_surely(
            SubagentFinished(
                id=self.id,
                reason=end.reason,
                message=end.message,
                said=self._reporter.said[-SHOWN:],
                acts=self._reporter.all_acts,
                steps=sum(turn.steps for turn in self.child.runtime.state.turns),
                usage=self._reporter.usage,
                duration_ms=round((monotonic() - self._started) * 1000),
            )
        )

    async def close(self, end: End) -> None:
        """Stop it if it still works, keep what it has, and let go of its session."""
        await self.child.turns.stop()
        await self.child.runtime.terminal.close()
        self.finish(end)
        self.parent.children.pop(self.id, None)
        await self.child.close()


def _choose_model(child: SessionRuntime, todo: Todo) -> None:
    """The model and the effort that its todo names, if the project's words are heard; else those of the job."""
    heard, state = child.trusted, child.state
    model = (todo.model if heard else "") or child.settings.route("chat").model
    effort = todo.effort if heard else ""
    if model and model != state.model:
        child.emit(ModelChanged(model=model))
    if effort != state.chosen.effort:
        child.emit(EffortChanged(effort=effort))


async def prove(context: SessionContext, todo: Todo) -> str:
    """Why the command of a todo does not pass over what is pending in a session, "" = it does."""
    lease, call = Lease(), new_id("proof")
    origin = Origin(turn=context.turn, call=call, tool="todo_write", todo=todo.id)
    try:
        return await prover(context, call, lambda yes: CommandRunner(context, origin, yes, lease))(todo)
    finally:
        lease.end()
