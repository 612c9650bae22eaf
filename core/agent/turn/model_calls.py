"""Model calls of a turn: one a step, tried again as often as is reasonable, and room made for them before.

What went wrong on the way is emitted as events; what comes out is an answer, or the error that ends the turn.
"""

from __future__ import annotations

import asyncio

from core.agent.answer.documents import TurnDocuments
from core.agent.answer.receiver import AnswerReceiver, ModelAnswer
from core.agent.context.compaction import compact, is_due
from core.agent.context.dropped_reasoning import drop_refused_reasoning
from core.agent.context.model_dialect import CALLS_IN_TEXT
from core.agent.context.prefix import PromptSetup
from core.agent.context.reminders import append_updates
from core.agent.context.sent_attachments import replace_unsendable
from core.agent.context.user_message import load_setup
from core.agent.planning.todo_model import TodoModel
from core.agent.turn.fallback import FALLBACK_BUDGET, fall_back, find_next_route
from core.agent.turn.limits import TurnBudget
from core.agent.turn.retry import BUDGET, Backoff, build_retry_event
from core.agent.turn.turn_context import Route, TurnContext
from core.clock import pause
from core.errors import ContextOverflow, ProviderError
from core.protocol.events import MessageAppended, Notice, StepFinished
from core.providers.base import ModelRequest


class ModelCalls:
    """The model calls of one turn. `setup`: what requests begin with; replaced when another model goes on."""

    def __init__(self, session: TurnContext, documents: TurnDocuments, budget: TurnBudget, setup: PromptSetup) -> None:
        self.session = session
        self.documents = documents
        self.budget = budget
        self.setup = setup
        self._todo_model = TodoModel(session)
        self._is_window_full = False  # the window was full before the last answer was whole

    async def request_answer(self) -> ModelAnswer:
        """Return the model's answer, after as many attempts as are reasonable."""
        backoff, shortened = self._build_backoff(), False
        while True:
            reception = AnswerReceiver(self.session, self.documents, self.setup.dialect)
            try:
                answer = await reception.receive(await self._build_request())
                self.session.answered_routes.add(self.session.route.id)
                self._is_window_full = answer.reason == "context_full"
                if answer.problem and not answer.calls:
                    await self._switch_to_text_calls("It wrote a call that its server did not make one of.")
                return answer
            except ContextOverflow as overflow:
                if shortened:
                    self._abandon(reception, "the conversation is too long")
                    raise _build_too_long(overflow) from None
                self._record_retry(reception, 1, 0.0, overflow)
                await self._compact(is_full=True)
                shortened = True
            except ProviderError as error:
                if await self._repair(reception, error):
                    continue
                wait = backoff.compute_pause(error)
                if wait is not None:
                    self._record_retry(reception, backoff.attempt, wait, error)
                    await pause(wait)
                elif other := find_next_route(self.session, error):
                    self._record_retry(reception, 1, 0.0, error)
                    await self._switch_route(other, error)
                    backoff = self._build_backoff()
                else:
                    self._abandon(reception, error.message)
                    raise
            except asyncio.CancelledError:
                self._abandon(reception, "cancelled by the user.")
                raise

    async def _repair(self, reception: AnswerReceiver, error: ProviderError) -> bool:
        """True if the step can do without what the server refused, so that it is asked again at once."""
        if drop_refused_reasoning(self.session, error):
            self._record_retry(reception, 1, 0.0, error)
            return True
        return error.code == "tools_unsupported" and await self._switch_to_text_calls(
            f"The server said: {error.message}"
        )

    async def _switch_to_text_calls(self, why: str) -> bool:
        """Let a model without function calls write them into its text from now on. False: it does so already."""
        session = self.session
        if not self.setup.prefix.tools:
            return False
        session.variants.mark_toolless(session.route.id)
        self.setup = await load_setup(session)
        session.emit(Notice(level="info", message=CALLS_IN_TEXT.format(session.route.id), hint=why))
        return True

    def _build_backoff(self) -> Backoff:
        """Build the backoff of this route: shorter while another one could be asked."""
        budget = FALLBACK_BUDGET if find_next_route(self.session) else BUDGET
        return Backoff(has_answered=self.session.route.id in self.session.answered_routes, budget=budget)

    async def _switch_route(self, route: Route, error: ProviderError) -> None:
        fall_back(self.session, route, error)
        self.setup = await load_setup(self.session)

    async def _build_request(self) -> ModelRequest:
        session = self.session
        return ModelRequest(
            model=session.route.model,
            system=self.setup.prefix.system,
            tools=self.setup.prefix.tools,
            messages=self.setup.dialect.convert_history(await replace_unsendable(session, session.state.messages)),
            session=session.id,
            effort=session.route.effort,
            blobs=session.shadow.blobs.get,
            private=session.is_private,
        )

    def _record_retry(self, reception: AnswerReceiver, attempt: int, wait: float, error: ProviderError) -> None:
        """Record an attempt that is void and followed by another; what it cost counts all the same."""
        self.budget.add(reception.usage, self.session.route.id)
        self.session.record_usage("chat", self.session.route, reception.usage)
        void = self.documents.void_attempt()
        self.session.emit(build_retry_event(self.budget.steps, attempt, wait, error, void))

    def _abandon(self, reception: AnswerReceiver, why: str) -> None:
        message = reception.abandon(why)
        if message is not None:
            self.session.emit(MessageAppended(message=message))
        self.budget.add(reception.usage, self.session.route.id)
        self.session.emit(StepFinished(step=self.budget.steps, usage=reception.usage, model=self.session.route.id))

    async def ensure_room(self) -> None:
        """Prepare a step: take the model of the todo at hand, and compact a history that fills the window.

        Raises `ContextOverflow` if it was too long for the last answer, and can't be compacted.
        """
        if self._todo_model.switch_route():
            self.setup = await load_setup(self.session)
        used = self._count_used_tokens()
        full, self._is_window_full = self._is_window_full, False
        if full or is_due(self.session, used):
            await self._compact(is_full=full)
        if full and self._count_used_tokens() >= used:
            raise _build_too_long(ContextOverflow("the last answer did not fit into it."))

    def _count_used_tokens(self) -> int:
        return self.session.meter.count_tokens(self.setup.size, self.session.state.messages)

    async def _compact(self, *, is_full: bool) -> None:
        self.budget.add(await compact(self.session, self.setup.size, is_full=is_full))
        append_updates(self.session)


def _build_too_long(overflow: ContextOverflow) -> ContextOverflow:
    return ContextOverflow(
        f"The conversation does not fit into the model's window, even shortened: {overflow.message}",
        hint="Start a new session, attach less, or choose a model with a larger window.",
    )
