"""Run one subagent at a todo of a plan: turns until the todo is done and its `verify` passes, or the subagent fails."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.budget import SubagentLimits
from core.agent.base.call_lease import CallLease
from core.agent.context.turn_context import TurnContext
from core.agent.gate.capabilities import build_capabilities
from core.engine.session.session import Session
from core.engine.subagents.runner import MAX_LAST_WORDS, SubagentEnd, SubagentRunner, set_model
from core.engine.turns.lifecycle import build_context
from core.ids import new_id
from core.plans.todo_graph import select_current
from core.prompts import render
from core.protocol.documents import Plan, Todo
from core.protocol.events import SubagentStarted
from core.protocol.review import Origin

MAX_TURNS: Final = 3  # turns to make the `verify` command pass
RESUMED_INSTRUCTION: Final = (
    "It was started before and not finished: see what is changed already, and continue from there."
)
UNANSWERED_INSTRUCTION: Final = (
    "You stopped with a question that nobody could answer: use ask_question for what only the user can "
    "say, decide the rest yourself, and continue."
)


class TodoTask(Struct, frozen=True, kw_only=True):
    """A todo for a subagent. `why`: its remaining problem, "" = not known; `others`: todos in progress in parallel."""

    plan: Plan
    todo: Todo
    others: tuple[str, ...] = ()
    why: str = ""


class TodoRunner(SubagentRunner):
    """Runs one subagent at its todo."""

    def __init__(self, parent: Session, child: Session, task: TodoTask, limits: SubagentLimits) -> None:
        self.task = task
        todo = task.todo
        is_trusted = child.services.trust.trusted
        set_model(child, (todo.model if is_trusted else ""), todo.effort if is_trusted else "")
        start_event = SubagentStarted(id=child.id, todo=todo.id, plan=task.plan.path, title=todo.content)
        super().__init__(parent, child, start_event, limits)

    async def work(self) -> SubagentEnd:
        is_done, subagent = self._is_done, self.parent.state.subagents[self.id]
        has_asked = subagent.reason == "done" and bool(subagent.message)
        reason = self.task.why or (
            UNANSWERED_INSTRUCTION if has_asked else RESUMED_INSTRUCTION if self.is_resumed else ""
        )
        self.reporter.repeat_questions()
        for _ in range(MAX_TURNS):
            if not is_done and (end := await self._run_turn(reason)).reason != "done":
                return end
            if self.reporter.last_words.endswith("?") and not is_done:
                return SubagentEnd(reason="done", message=f"It asks: {self.reporter.last_words[-MAX_LAST_WORDS:]}")
            if not (is_done or self.task.todo.verify or self._has_worked):
                message = f"It changed nothing. {self.reporter.last_words[-MAX_LAST_WORDS:]}".strip()
                return SubagentEnd(reason="failed", message=message)
            failure = await self._verify()
            if failure is None:
                return SubagentEnd(reason="done")
            reason = failure
            is_done = False
        return SubagentEnd(reason="failed", message=reason)

    @property
    def _is_done(self) -> bool:
        """True if it was done when it was stopped, so only `verify` and the merge remain."""
        subagent, turns = self.parent.state.subagents[self.id], self.child.state.turns
        has_ended = subagent.reason == "done" and not subagent.message
        return self.is_resumed and has_ended and bool(turns) and turns[-1].reason == "done"

    @property
    def _has_worked(self) -> bool:
        review = self.child.review
        checkpoint = next(iter(review.checkpoints.values()), None)
        return bool(self.reporter.calls) or checkpoint is None or dict(checkpoint.changes) != review.changes

    async def _run_turn(self, reason: str) -> SubagentEnd:
        task = self.task
        plan = replace(task.plan, todos=select_current(task.plan.todos))
        is_whole = not self.child.state.turns
        instructions = render(
            "plan_subagent", todo=task.todo, plan=plan, others=task.others, why=reason, whole=is_whole
        )
        return await self.run_turn(task.todo.content, instructions)

    async def _verify(self) -> str | None:
        """Run the todo's command. Return why it does not pass; None: it passes, or there is none."""
        todo = self.task.todo
        if not todo.verify:
            return None
        self.reporter.report_verify(todo.verify, "running")
        reason = await verify_todo(build_context(self.child), todo)
        self.reporter.report_verify(todo.verify, "completed" if reason is None else "failed")
        return reason


async def verify_todo(context: TurnContext, todo: Todo) -> str | None:
    """Run a todo's command over the pending changes of a session. Return why it does not pass; None: it passes."""
    lease, call = CallLease(), new_id("proof")
    origin = Origin(turn=context.turn_id, call=call, tool="todo_write", todo=todo.id)
    try:
        return await build_capabilities(context).build_prover(origin, lease)(todo)
    finally:
        lease.end()
