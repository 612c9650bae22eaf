"""The loop: from a prompt to an answer, step by step, until the model stops calling tools.

A step is one model call and the tools that it asks for. Whatever ends a turn (the answer, a limit, a fault, the user),
the history it leaves is one that every provider accepts, and there is exactly one `turn.finished`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.agent.compaction import window_of
from core.agent.context import compose, prepared, said_alone
from core.agent.course import Course
from core.agent.documents import Documents
from core.agent.gate import Call, run_calls
from core.agent.late_answers import report_answers
from core.agent.limits import LimitReached, Spent
from core.agent.model_calls import ModelCalls
from core.agent.nudges import Nudges
from core.agent.prefix import Prepared
from core.agent.reminders import remind, take_in
from core.agent.repeats import Repeats
from core.agent.session import SessionContext
from core.agent.speaking import hand_in, teller
from core.agent.streaming import Answer, truncated_call
from core.agent.void_reasoning import tell_dropped
from core.clock import monotonic
from core.errors import AgentTuiError, ProviderError
from core.faults import keep, told
from core.prompts import render
from core.protocol.events import (
    ContextMeasured,
    ErrorRaised,
    MessageAppended,
    Notice,
    StepFinished,
    StepStarted,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from core.protocol.messages import Usage

A_MILLION = Usage(prompt_tokens=1_000_000)
PATIENCE = 0.25  # seconds that an interrupted turn has to end by itself


async def run_turn(session: SessionContext, prompt: str, open_files: Sequence[str] = ()) -> TurnFinished:
    """One turn of a session, from `turn.started` to `turn.finished`; see `Turn`."""
    return await Turn(session, prompt, open_files).run()


class Turn:
    """One turn. `prompt` is what the user typed; `instruction`, if given, is what the model is sent in its place."""

    def __init__(
        self, session: SessionContext, prompt: str, open_files: Sequence[str] = (), *, instruction: str = ""
    ) -> None:
        self.session = session
        self.prompt = prompt
        self.text = instruction or prompt
        self.open_files = tuple(open_files)
        self.documents = Documents(session.emit)
        self.spent = Spent(lambda: session.settings.limits, session.leash.spent if session.leash else None)
        session.spent = self.spent
        self.repeats = Repeats()
        self.started = monotonic()
        self.nudges = Nudges(session)
        self.course = Course(session)
        self.end: tuple[TurnEnd, str] = ("interrupted", "")

    async def run(self) -> TurnFinished:
        """All of it. `session.interrupt()` stops it; cancelling this coroutine does the same and then raises."""
        session = self.session
        session.emit(TurnStarted(prompt=self.prompt, mode=session.state.mode, model=session.route.id))
        working = session.working = asyncio.create_task(self.work())
        try:
            await asyncio.wait({working})
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=PATIENCE)
            fault = working.exception() if working.done() and not working.cancelled() else None
            session.working = None
            session.give_back()
            finished = self._finished()
            session.emit(finished)
        if fault is not None:
            raise fault
        return finished

    async def work(self) -> None:
        """All steps. How it ended is in `end`; only an interrupt comes out as an exception."""
        try:
            model = ModelCalls(self.session, self.documents, self.spent, await self._open())
            while await self._step(model) or self.session.state.steers:
                pass
            self.spent.check_end()
            self.end = ("done", "")
        except LimitReached as limit:
            self.end = ("limit", limit.explained())
            self.session.emit(Notice(level="info", message=limit.message, hint=limit.hint))
        except AgentTuiError as error:
            self._fail(error, retryable=isinstance(error, ProviderError) and error.retryable)
        except Exception as error:  # a fault of ours: said plainly, and the session goes on
            hint = f"Try again. {told(keep(error, 'a turn'))}"
            fault = AgentTuiError(f"An unexpected fault ended the turn ({type(error).__name__}).", hint=hint)
            self._fail(fault, retryable=True)

    def _finished(self) -> TurnFinished:
        reason, message = self.end
        duration = round((monotonic() - self.started) * 1000)
        return TurnFinished(
            reason=reason, usage=self.spent.usage, steps=self.spent.steps, duration_ms=duration, message=message
        )

    def _fail(self, error: AgentTuiError, *, retryable: bool) -> None:
        self.end = ("failed", error.explained())
        self.documents.error(error.code, error.message, hint=error.hint)
        self.session.emit(ErrorRaised(code=error.code, message=error.message, hint=error.hint, retryable=retryable))

    async def _open(self) -> Prepared:
        """Put the prompt with its context into the history; the prompt alone if there is no time for more."""
        message = said_alone(self.session, self.text)
        try:
            message = await compose(self.session, self.text, self.open_files)
        finally:
            self.session.emit(MessageAppended(message=message))
        return await prepared(self.session)

    async def _step(self, model: ModelCalls) -> bool:
        """One model call and its tools. False: the turn is done."""
        self.course.take_in()
        report_answers(self.session)
        take_in(self.session)
        self.spent.check()
        await model.make_room()
        self.session.emit(StepStarted(step=self.spent.begin_step()))
        answer = await model.answer()
        self._account(model.made, answer)
        if answer.calls:
            return await self._run(model.made, answer)
        return self.nudges.goes_on(answer) or await self.course.goes_on(answer.message.content, over=answer.over)

    def _account(self, made: Prepared, answer: Answer) -> None:
        """Record the answer and what it took. An answer that says nothing at all is no message."""
        session, usage = self.session, answer.usage
        self.spent.add(usage, session.route.id)
        if usage.cost is None and session.price(session.route.id, A_MILLION) != 0.0:  # no tokens were told either
            self.spent.miss_price(session.route.id)
        session.meter.learn(made.size, session.state.messages, usage.prompt_tokens)
        if answer.message.content.strip() or answer.calls or answer.goes_back:
            session.emit(MessageAppended(message=answer.message))
        tell_dropped(session, answer.report, usage)
        estimated = usage.prompt_tokens <= 0
        used = session.meter.tokens(made.size, session.state.messages)
        session.emit(StepFinished(step=self.spent.steps, usage=usage, context_tokens=used, model=session.route.id))
        session.emit(
            ContextMeasured(
                used=used,
                window=window_of(session),
                estimated=estimated,
                dropped_reasoning=answer.report.dropped_reasoning,
                cache_miss=answer.report.cache_miss,
            )
        )

    async def _run(self, made: Prepared, answer: Answer) -> bool:
        """The calls of an answer. False: one of them ended the turn."""
        truncated = truncated_call(answer)
        self.nudges.well_formed()
        calls = [
            Call(
                self.session,
                request,
                opened,
                truncated=request.id == truncated,
                problem=answer.problems.get(request.id, ""),
            )
            for request, opened in answer.calls
        ]
        await self.course.expect(calls)
        await run_calls(self.documents, calls, warn=self.repeats.warn, tell=teller(made.dialect))
        self.repeats.note(calls)
        await self.course.note(calls)
        if truncated:
            remind(self.session, render("reminders/truncated", call=True))
        return not hand_in(self.documents, made.dialect, calls) or await self.course.goes_on("", over=True)
