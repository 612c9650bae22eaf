"""The model calls of a turn: one a step, tried again as often as is reasonable, and room made for them before.

What went wrong on the way is told as events; what comes out is an answer, or the error that ends the turn.
"""

from __future__ import annotations

import asyncio

from core.agent.attached import sendable
from core.agent.compaction import compact, is_due
from core.agent.context import prepared
from core.agent.documents import Documents
from core.agent.fallback import PATIENCE, fall_back, next_route
from core.agent.limits import Spent
from core.agent.prefix import Prepared
from core.agent.reminders import take_in
from core.agent.retry import BUDGET, Backoff, retried
from core.agent.session import Route, SessionContext
from core.agent.speaking import IN_TEXT
from core.agent.streaming import Answer, Reception
from core.agent.todo_route import TodoRoute
from core.agent.void_reasoning import give_up
from core.clock import pause
from core.errors import ContextOverflow, ProviderError
from core.protocol.events import MessageAppended, Notice, StepFinished
from core.providers.base import ModelRequest


class ModelCalls:
    """Those of one turn. `made` is what they begin with: another one, when another model goes on."""

    def __init__(self, session: SessionContext, documents: Documents, spent: Spent, made: Prepared) -> None:
        self.session = session
        self.documents = documents
        self.spent = spent
        self.made = made
        self._todo_route = TodoRoute(session)
        self._full = False  # the window was full before the last answer was whole

    async def answer(self) -> Answer:
        """The model's answer, after as many attempts as are reasonable."""
        backoff, shortened = self._backoff(), False
        while True:
            reception = Reception(self.session, self.documents, self.made.dialect)
            try:
                answer = await reception.receive(await self._request())
                self.session.reached.add(self.session.route.id)
                self._full = answer.reason == "context_full"
                if answer.problem and not answer.calls:
                    await self._goes_on_in_text("It wrote a call that its server did not make one of.")
                return answer
            except ContextOverflow as overflow:
                if shortened:
                    self._abandon(reception, "the conversation is too long")
                    raise _too_long(overflow) from None
                self._retried(reception, 1, 0.0, overflow)
                await self._compact(is_full=True)
                shortened = True
            except ProviderError as error:
                if await self._mended(reception, error):
                    continue
                wait = backoff.pause(error)
                if wait is not None:
                    self._retried(reception, backoff.attempt, wait, error)
                    await pause(wait)
                elif other := next_route(self.session, error):
                    self._retried(reception, 1, 0.0, error)
                    await self._go_on_with(other, error)
                    backoff = self._backoff()
                else:
                    self._abandon(reception, error.message)
                    raise
            except asyncio.CancelledError:
                self._abandon(reception, "cancelled by the user.")
                raise

    async def _mended(self, reception: Reception, error: ProviderError) -> bool:
        """Whether the step can do without what the server refused, so that it is asked again at once."""
        if give_up(self.session, error):
            self._retried(reception, 1, 0.0, error)
            return True
        return error.code == "tools_unsupported" and await self._goes_on_in_text(f"The server said: {error.message}")

    async def _goes_on_in_text(self, why: str) -> bool:
        """Let a model that has no function calls write them into its text from now on. False: it does so already."""
        session = self.session
        if not self.made.prefix.tools:
            return False
        session.variants.note_toolless(session.route.id)
        self.made = await prepared(session)
        session.emit(Notice(level="info", message=IN_TEXT.format(session.route.id), hint=why))
        return True

    def _backoff(self) -> Backoff:
        """How long this route is waited for: less while another one could be asked."""
        budget = PATIENCE if next_route(self.session) else BUDGET
        return Backoff(answered=self.session.route.id in self.session.reached, budget=budget)

    async def _go_on_with(self, route: Route, error: ProviderError) -> None:
        fall_back(self.session, route, error)
        self.made = await prepared(self.session)

    async def _request(self) -> ModelRequest:
        session = self.session
        return ModelRequest(
            model=session.route.model,
            system=self.made.prefix.system,
            tools=self.made.prefix.tools,
            messages=self.made.dialect.sent(await sendable(session, session.state.messages)),
            session=session.id,
            effort=session.route.effort,
            blobs=session.shadow.blobs.get,
            private=session.private,
        )

    def _retried(self, reception: Reception, attempt: int, wait: float, error: ProviderError) -> None:
        """The attempt is void and another one follows; what it cost counts all the same."""
        self.spent.add(reception.usage, self.session.route.id)
        self.session.used("chat", self.session.route, reception.usage)
        void = self.documents.void_attempt()
        self.session.emit(retried(self.spent.steps, attempt, wait, error, void))

    def _abandon(self, reception: Reception, why: str) -> None:
        message = reception.abandon(why)
        if message is not None:
            self.session.emit(MessageAppended(message=message))
        self.spent.add(reception.usage, self.session.route.id)
        self.session.emit(StepFinished(step=self.spent.steps, usage=reception.usage, model=self.session.route.id))

    async def make_room(self) -> None:
        """Before a step: the model of the todo at hand is taken, and a history that fills the window is made shorter.
        Raises `ContextOverflow` if it was too long for the last answer, and can't be."""
        if self._todo_route.take():
            self.made = await prepared(self.session)
        used = self._used()
        full, self._full = self._full, False
        if full or is_due(self.session, used):
            await self._compact(is_full=full)
        if full and self._used() >= used:
            raise _too_long(ContextOverflow("the last answer did not fit into it."))

    def _used(self) -> int:
        return self.session.meter.tokens(self.made.size, self.session.state.messages)

    async def _compact(self, *, is_full: bool) -> None:
        self.spent.add(await compact(self.session, self.made.size, is_full=is_full))
        take_in(self.session)


def _too_long(overflow: ContextOverflow) -> ContextOverflow:
    return ContextOverflow(
        f"The conversation does not fit into the model's window, even shortened: {overflow.message}",
        hint="Start a new session, attach less, or choose a model with a larger window.",
    )
