"""The frame of a turn that no model answers: from `turn.started` to `turn.finished`, it is what its subagents do."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from core.agent.answer.documents import TurnDocuments
from core.agent.base.budget import TurnBudget
from core.agent.base.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder, return_steers
from core.agent.context.turn_context import TurnContext
from core.agent.turn.user_message import build_bare_message
from core.clock import monotonic
from core.engine.session.session import Session
from core.engine.subagents.merging import finish_merges
from core.engine.subagents.sessions import prune_subagent_sessions
from core.protocol import events as ev
from core.tasks import TaskOwner, cancel_tasks

STOP_LIMIT: Final = 15.0  # seconds that the subagents have to end when the turn is stopped


class SubagentTurn(ABC):
    """One such turn of `session`; its subagents are started by `owner` and use up `spent`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.owner = TaskOwner()
        self._started = monotonic()

    async def run(self, context: TurnContext, prompt: str) -> None:
        """Run the whole turn. Merges that a crash cut off are finished first."""
        self.context = context
        self.spent = TurnBudget(lambda: context.settings.limits)
        self.history = tuple(context.state.messages)  # what was said before
        context.emit(ev.TurnStarted(prompt=prompt, mode=context.state.mode, model=context.routes.current.id))
        context.emit(ev.MessageAppended(message=build_bare_message(prompt, context.state.attachments)))
        end: tuple[ev.TurnEnd, str] = ("interrupted", "")
        working = context.working = self.owner.start(self._begin(), name="subagents")
        try:
            await asyncio.wait({working})
            if not working.cancelled():
                working.result()
                end = self.find_outcome()
        finally:
            if not working.done():
                await cancel_tasks([working], limit=STOP_LIMIT)
            context.working = None
            self.end_work()
            return_steers(context.state, context.emit)
            self._finish(end)

    async def _begin(self) -> None:
        await finish_merges(self.session)
        prune_subagent_sessions(self.session)
        await self.work()

    @abstractmethod
    async def work(self) -> None:
        """Run the subagents to their end."""

    def end_work(self) -> None:  # noqa: B027 (not each has anything to undo)
        """Undo what was set up for the turn, whatever became of it."""

    @abstractmethod
    def find_outcome(self) -> tuple[ev.TurnEnd, str]:
        """Find how the turn ended, when its work did."""

    @abstractmethod
    def report(self) -> tuple[str, str]:
        """Return what the model is told of it, and what the user reads."""

    def _finish(self, end: tuple[ev.TurnEnd, str]) -> None:
        context, state = self.context, self.session.state
        reminder, text = self.report()
        append_reminder(context.emit, escape_tags(reminder))
        TurnDocuments(context.emit).add_text(text)
        usage = state.current_turn.usage if state.current_turn is not None else self.spent.usage
        context.emit(
            ev.TurnFinished(
                reason=end[0],
                usage=usage,
                steps=self.spent.steps,
                duration_ms=round((monotonic() - self._started) * 1000),
                message=end[1],
            )
        )
