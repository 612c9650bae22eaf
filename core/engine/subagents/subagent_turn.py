"""The frame of a turn that subagents work on instead of a model, from `turn.started` to `turn.finished`."""

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
from core.engine.subagents.sessions import finish_merges, prune_subagent_sessions
from core.protocol import events as ev
from core.tasks import TaskOwner, cancel_tasks

STOP_LIMIT: Final = 15.0  # seconds for the subagents to end when the turn is stopped


class SubagentTurn(ABC):
    """One such turn of `session`. `owner` starts its subagents; `spent` is their common budget."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.owner = TaskOwner()
        self._started = monotonic()

    async def run(self, context: TurnContext, prompt: str) -> None:
        """Run the whole turn. Finishes merges that a crash cut off first."""
        self.context = context
        self.spent = TurnBudget(lambda: context.settings.limits)
        self.history = tuple(context.state.messages)  # the conversation before this turn
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

    def end_work(self) -> None:  # noqa: B027 (not every subclass has to undo something)
        """Undo the setup of the turn, after any outcome."""

    @abstractmethod
    def find_outcome(self) -> tuple[ev.TurnEnd, str]:
        """Return how the turn ended, once its work has ended."""

    @abstractmethod
    def report(self) -> tuple[str, str]:
        """Return the report for the model, and the text for the user."""

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
