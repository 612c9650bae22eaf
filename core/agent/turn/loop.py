"""The loop: from a prompt to an answer, step by step, until the model stops calling tools.

A step is one model call and the tools that it asks for. Whatever ends a turn (the answer, a limit, a fault, the user),
the history it leaves is one that every provider accepts, and there is exactly one `turn.finished`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.agent.answer.documents import TurnDocuments
from core.agent.answer.receiver import ModelAnswer, find_truncated_call
from core.agent.context.compaction import get_window
from core.agent.context.deferred_answers import report_answers
from core.agent.context.dropped_reasoning import notify_dropped
from core.agent.context.model_dialect import build_result_formatter, show_hand_in
from core.agent.context.prefix import PromptSetup
from core.agent.context.reminders import append_reminder, append_updates
from core.agent.context.user_message import build_bare_message, compose_user_message, load_setup
from core.agent.gate.tool_calls import GatedCall, run_calls
from core.agent.turn.answer_guard import AnswerGuard
from core.agent.turn.limits import LimitReached, TurnBudget
from core.agent.turn.loop_guard import LoopGuard
from core.agent.turn.model_calls import ModelCalls
from core.agent.turn.turn_context import TurnContext
from core.agent.turn.turn_policy import TurnPolicy
from core.clock import monotonic
from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError, ProviderError
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

PRICED_PROBE = Usage(prompt_tokens=1_000_000)
INTERRUPT_PATIENCE = 0.25  # seconds that an interrupted turn has to end by itself


async def run_turn(session: TurnContext, prompt: str, open_files: Sequence[str] = ()) -> TurnFinished:
    """Run one turn of a session, from `turn.started` to `turn.finished`; see `Turn`."""
    return await Turn(session, prompt, open_files).run()


class Turn:
    """One turn. `prompt` is what the user typed; `instruction`, if given, is what the model is sent in its place."""

    def __init__(
        self, session: TurnContext, prompt: str, open_files: Sequence[str] = (), *, instruction: str = ""
    ) -> None:
        self.session = session
        self.prompt = prompt
        self.model_prompt = instruction or prompt
        self.open_files = tuple(open_files)
        self.documents = TurnDocuments(session.emit)
        self.budget = TurnBudget(
            lambda: session.settings.limits, session.subagent_limits.budget if session.subagent_limits else None
        )
        session.budget = self.budget
        self.loop_guard = LoopGuard()
        self.started = monotonic()
        self.answer_guard = AnswerGuard(session)
        self.policy = TurnPolicy(session)
        self.ending: tuple[TurnEnd, str] = ("interrupted", "")

    async def run(self) -> TurnFinished:
        """Run the whole turn.

        `session.interrupt()` stops it; cancelling this coroutine does the same and then raises.
        """
        session = self.session
        session.emit(TurnStarted(prompt=self.prompt, mode=session.state.mode, model=session.route.id))
        working = session.working = asyncio.create_task(self.run_steps())
        try:
            await asyncio.wait({working})
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=INTERRUPT_PATIENCE)
            fault = working.exception() if working.done() and not working.cancelled() else None
            session.working = None
            session.return_steers()
            finished = self._build_finished()
            session.emit(finished)
        if fault is not None:
            raise fault
        return finished

    async def run_steps(self) -> None:
        """Run all steps and record in `ending` how they ended; only an interrupt comes out as an exception."""
        try:
            model = ModelCalls(self.session, self.documents, self.budget, await self._append_prompt())
            while await self._run_step(model) or self.session.state.pending_steers:
                pass
            self.budget.check_end()
            self.ending = ("done", "")
        except LimitReached as limit:
            self.ending = ("limit", limit.format_with_hint())
            self.session.emit(Notice(level="info", message=limit.message, hint=limit.hint))
        except AgentTuiError as error:
            self._fail(error, retryable=isinstance(error, ProviderError) and error.retryable)
        except Exception as error:  # a fault of ours: said plainly, and the session goes on
            hint = f"Try again. {describe_crash_report(save_crash_report(error, 'a turn'))}"
            fault = AgentTuiError(f"An unexpected fault ended the turn ({type(error).__name__}).", hint=hint)
            self._fail(fault, retryable=True)

    def _build_finished(self) -> TurnFinished:
        reason, message = self.ending
        duration = round((monotonic() - self.started) * 1000)
        return TurnFinished(
            reason=reason, usage=self.budget.usage, steps=self.budget.steps, duration_ms=duration, message=message
        )

    def _fail(self, error: AgentTuiError, *, retryable: bool) -> None:
        self.ending = ("failed", error.format_with_hint())
        self.documents.add_error(error.code, error.message, hint=error.hint)
        self.session.emit(ErrorRaised(code=error.code, message=error.message, hint=error.hint, retryable=retryable))

    async def _append_prompt(self) -> PromptSetup:
        """Append the prompt with its context to the history; the prompt alone if there is no time for more."""
        message = build_bare_message(self.session, self.model_prompt)
        try:
            message = await compose_user_message(self.session, self.model_prompt, self.open_files)
        finally:
            self.session.emit(MessageAppended(message=message))
        return await load_setup(self.session)

    async def _run_step(self, model: ModelCalls) -> bool:
        """Run one model call and its tools. Returns False when the turn is done."""
        self.policy.refresh_todos()
        report_answers(self.session)
        append_updates(self.session)
        self.budget.check()
        await model.ensure_room()
        self.session.emit(StepStarted(step=self.budget.begin_step()))
        answer = await model.request_answer()
        self._record_answer(model.setup, answer)
        if answer.calls:
            return await self._run_calls(model.setup, answer)
        return self.answer_guard.should_continue(answer) or await self.policy.should_continue(
            answer.message.content, is_over=answer.is_over
        )

    def _record_answer(self, made: PromptSetup, answer: ModelAnswer) -> None:
        """Record the answer and its usage. An answer that says nothing at all is no message."""
        session, usage = self.session, answer.usage
        self.budget.add(usage, session.route.id)
        if usage.cost is None and session.price(session.route.id, PRICED_PROBE) != 0.0:  # no tokens were told either
            self.budget.mark_unpriced(session.route.id)
        session.meter.calibrate(made.size, session.state.messages, usage.prompt_tokens)
        if answer.message.content.strip() or answer.calls or answer.is_resumable:
            session.emit(MessageAppended(message=answer.message))
        notify_dropped(session, answer.report, usage)
        estimated = usage.prompt_tokens <= 0
        used = session.meter.count_tokens(made.size, session.state.messages)
        session.emit(StepFinished(step=self.budget.steps, usage=usage, context_tokens=used, model=session.route.id))
        session.emit(
            ContextMeasured(
                used=used,
                window=get_window(session),
                estimated=estimated,
                dropped_reasoning=answer.report.dropped_reasoning,
                cache_miss=answer.report.cache_miss,
            )
        )

    async def _run_calls(self, made: PromptSetup, answer: ModelAnswer) -> bool:
        """Run the calls of an answer. Returns False when one of them ended the turn."""
        truncated = find_truncated_call(answer)
        self.answer_guard.reset_objections()
        calls = [
            GatedCall(
                self.session,
                request,
                opened,
                is_truncated=request.id == truncated,
                problem=answer.problems.get(request.id, ""),
            )
            for request, opened in answer.calls
        ]
        await self.policy.follow_planned_calls(calls)
        await run_calls(
            self.documents,
            calls,
            get_warning=self.loop_guard.get_warning,
            get_answer=build_result_formatter(made.dialect),
        )
        self.loop_guard.record_calls(calls)
        await self.policy.record_calls(calls)
        if truncated:
            append_reminder(self.session, render("reminders/truncated", call=True))
        return not show_hand_in(self.documents, made.dialect, calls) or await self.policy.should_continue(
            "", is_over=True
        )
