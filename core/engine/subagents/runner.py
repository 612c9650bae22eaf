"""Run one subagent at its todo: turns until it is done and its `verify` passes, or until it can't go on."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.gate.gated_call import CallLease
from core.agent.turn.budget import SubagentLimits
from core.agent.turn.stages import build_capabilities
from core.agent.turn.turn_context import TurnContext
from core.clock import monotonic
from core.engine.session.session import Session
from core.engine.session.turns import ask_model, build_context, reserve_turn, start_turn
from core.engine.subagents.progress_report import SubagentReporter
from core.ids import new_id
from core.plans.todo_graph import select_current
from core.prompts import render
from core.protocol.documents import Todo
from core.protocol.events import EffortChanged, ModelChanged, SubagentFinished, SubagentStarted, TurnEnd
from core.protocol.plans import Plan
from core.protocol.review import Origin

MAX_TURNS: Final = 3  # turns in which it may make its command pass
RESUMED_INSTRUCTION: Final = (
    "It was begun before and not finished: look at what is changed already, and go on from there."
)
UNANSWERED_INSTRUCTION: Final = (
    "You stopped with a question that nobody could answer: ask with ask_question what only the user can say, decide "
    "the rest yourself, and go on."
)
MAX_LAST_WORDS: Final = 2_000  # characters of its last words that are kept


class SubagentEnd(Struct, frozen=True, kw_only=True):
    """The end of a subagent's run; `message` says why the todo is not done."""

    reason: TurnEnd
    message: str = ""


class SubagentTask(Struct, frozen=True, kw_only=True):
    """A todo for a subagent. `why`: what is still wrong with it, "" = not known; `others`: todos in work beside it."""

    plan: Plan
    todo: Todo
    others: tuple[str, ...] = ()
    why: str = ""


class SubagentRunner:
    """Runs one subagent at its todo. `close` has to be called, whatever happened."""

    def __init__(self, parent: Session, child: Session, task: SubagentTask, limits: SubagentLimits) -> None:
        self.parent = parent
        self.child = child
        self.task = task
        self._started = monotonic()
        self._is_resumed = child.id in parent.state.subagents
        self._is_finished = False
        child.call_permissions.subagent_limits = limits
        todo = task.todo
        _choose_model(child, todo)
        plan, again = task.plan.path, self._is_resumed
        started = SubagentStarted(
            id=child.id, todo=todo.id, plan=plan, title=todo.content, model=child.state.model, again=again
        )
        parent.emit(started)
        self._reporter = SubagentReporter(parent, child, plan, todo.id)

    @property
    def id(self) -> str:
        return self.child.id

    async def run(self) -> SubagentEnd:
        """Run until it has ended and nothing of it runs any more. Raises `AgentTuiError`."""
        end = await self._run_turns()
        await self.child.terminal.close()
        self.report_end(end)
        return end

    async def _run_turns(self) -> SubagentEnd:
        is_done, known = self._is_done, self.parent.state.subagents[self.id]
        asked = known.reason == "done" and bool(known.message)
        why = self.task.why or (UNANSWERED_INSTRUCTION if asked else RESUMED_INSTRUCTION if self._is_resumed else "")
        self._reporter.repeat_questions()
        for _ in range(MAX_TURNS):
            if not is_done and (end := await self._run_turn(why)).reason != "done":
                return end
            if self._reporter.last_words.endswith("?") and not is_done:
                return SubagentEnd(reason="done", message=f"It asks: {self._reporter.last_words[-MAX_LAST_WORDS:]}")
            if not (is_done or self.task.todo.verify or self._has_worked):
                message = f"It did nothing. {self._reporter.last_words[-MAX_LAST_WORDS:]}".strip()
                return SubagentEnd(reason="failed", message=message)
            why = await self._verify()
            if not why:
                return SubagentEnd(reason="done")
            is_done = False
        return SubagentEnd(reason="failed", message=why)

    @property
    def _is_done(self) -> bool:
        """True if it was done when it was stopped, so that only `verify` and the merge are left."""
        known, turns = self.parent.state.subagents[self.id], self.child.state.turns
        has_ended = known.reason == "done" and not known.message
        return self._is_resumed and has_ended and bool(turns) and turns[-1].reason == "done"

    @property
    def _has_worked(self) -> bool:
        review = self.child.review
        begun = next(iter(review.checkpoints.values()), None)
        return bool(self._reporter.calls) or begun is None or dict(begun.changes) != review.changes

    async def _run_turn(self, why: str) -> SubagentEnd:
        child, task = self.child, self.task
        whole = not child.state.turns
        plan = replace(task.plan, todos=select_current(task.plan.todos))
        instruction = render("plan_subagent", todo=task.todo, plan=plan, others=task.others, why=why, whole=whole)
        await reserve_turn(child)
        prompt = task.todo.content
        start_turn(child, partial(ask_model, prompt=prompt, instruction=instruction), prompt)
        await child.turn_slot.wait_ended()
        turn = child.state.turns[-1]
        return SubagentEnd(reason=turn.reason or "failed", message=turn.message)

    async def _verify(self) -> str:
        """Run the todo's command. Returns why it does not pass, "" = it does, or there is none."""
        todo = self.task.todo
        if not todo.verify:
            return ""
        self._reporter.report_verify(todo.verify, "running")
        why = await verify_todo(build_context(self.child), todo)
        self._reporter.report_verify(todo.verify, "failed" if why else "completed")
        return why

    def report_end(self, end: SubagentEnd) -> None:
        """Report, once, that it has stopped."""
        if self._is_finished:
            return
        self._is_finished = True
        self._reporter.close()
        self.parent.emit_surely(
            SubagentFinished(
                id=self.id,
                reason=end.reason,
                message=end.message,
                said=self._reporter.last_words[-MAX_LAST_WORDS:],
                acts=self._reporter.final_acts,
                steps=sum(turn.steps for turn in self.child.state.turns),
                usage=self._reporter.usage,
                duration_ms=round((monotonic() - self._started) * 1000),
            )
        )

    async def close(self, end: SubagentEnd) -> None:
        """Stop it if it still works, save what it has, and close its session."""
        await self.child.stop_turn()
        await self.child.terminal.close()
        self.report_end(end)
        self.parent.subagents.pop(self.id, None)
        await self.child.close()


def _choose_model(child: Session, todo: Todo) -> None:
    """Set the model and effort that the todo names, if the project is trusted; else those of the job."""
    heard, state = child.services.trust.trusted, child.state
    model = (todo.model if heard else "") or child.settings.resolve_route("chat").model
    effort = todo.effort if heard else ""
    if model and model != state.model:
        child.emit(ModelChanged(model=model))
    if effort != state.model_choices.effort:
        child.emit(EffortChanged(effort=effort))


async def verify_todo(context: TurnContext, todo: Todo) -> str:
    """Run a todo's command over what is pending in a session. Returns why it does not pass, "" = it does."""
    lease, call = CallLease(), new_id("proof")
    origin = Origin(turn=context.turn_id, call=call, tool="todo_write", todo=todo.id)
    try:
        return await build_capabilities(context).build_prover(origin, lease)(todo)
    finally:
        lease.end()
