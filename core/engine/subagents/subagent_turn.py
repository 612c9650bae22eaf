"""A turn that subagents work on instead of a model, and the report that it ends with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

from core.agent.answer.documents import TurnDocuments
from core.agent.base.budget import TurnBudget
from core.agent.base.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder
from core.agent.context.turn_context import TurnContext
from core.agent.turn.turn_frame import Ending, TurnFrame
from core.agent.turn.user_message import build_bare_message
from core.engine.session.session import Session
from core.engine.subagents.sessions import finish_merges, prune_subagent_sessions
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.tasks import TaskOwner


class SubagentTurn(ABC):
    """One such turn of `session`. `owner` starts its subagents; `spent` is their common budget."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.owner = TaskOwner()
        self._documents = TurnDocuments(session.emit)
        self._has_begun = False

    async def run(self, context: TurnContext, prompt: str) -> None:
        """Run the whole turn. Finishes merges that a crash cut off first."""
        self.context = context
        self.spent = TurnBudget(lambda: context.settings.limits)
        self.history = tuple(context.state.messages)  # the conversation before this turn, and what hooks add to it
        self._frame = TurnFrame(context, prompt, self._documents.add_error)
        await self._frame.run(partial(self._begin, prompt), self._finish)

    async def _begin(self, prompt: str, hook_context: str) -> Ending:
        context, self._has_begun = self.context, True
        context.emit(ev.MessageAppended(message=build_bare_message(prompt, context.state.attachments)))
        count = len(context.state.messages)
        self._frame.hooks.append_context(hook_context)
        self.history += tuple(context.state.messages[count:])
        await finish_merges(self.session)
        prune_subagent_sessions(self.session)
        await self.work()
        if (ending := self.find_outcome())[0] == "done":
            self._frame.hooks.last_answer = self.report()[1]
            await self._frame.hooks.request_followup()  # It stays in the history: no model answers it in this turn.
        return ending

    @abstractmethod
    async def work(self) -> None:
        """Run the subagents to their end."""

    def end_work(self) -> None:  # noqa: B027 (not every subclass has to undo something)
        """Undo the setup of the turn, after any outcome."""

    @abstractmethod
    def find_outcome(self) -> Ending:
        """Return how the turn ended, once its work has ended."""

    @abstractmethod
    def report(self) -> tuple[str, str]:
        """Return the report for the model, and the text for the user."""

    def _finish(self) -> tuple[Usage, int]:
        """Append the report of a turn that has begun. Return the usage and the steps of the subagents."""
        self.end_work()
        if self._has_begun:
            reminder, text = self.report()
            append_reminder(self.context.emit, escape_tags(reminder))
            self._documents.add_text(text)
        turn = self.session.state.current_turn
        return turn.usage if turn is not None else self.spent.usage, self.spent.steps
