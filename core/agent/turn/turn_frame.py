"""The frame of every turn, whoever answers it: its start, hooks, interrupt, errors and end.

A model, a hosted agent and subagents answer inside the same frame. However a turn ends (an answer, a limit, a fault,
the user), messages that still wait return to the user, and there is exactly one `turn.finished`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from core.agent.base.budget import LimitReached
from core.agent.context.reminders import return_steers
from core.agent.context.turn_context import TurnContext
from core.agent.turn.turn_policy import PromptRefused, TurnHooks
from core.clock import monotonic
from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError, ProviderError
from core.protocol.events import ErrorRaised, Notice, TurnEnd, TurnFinished, TurnStarted
from core.protocol.messages import Usage
from core.tasks import cancel_tasks

STOP_LIMIT: Final = 15.0  # seconds that an interrupted turn has for its clean-up, if other processes work on it
Ending = tuple[TurnEnd, str]  # why a turn ended, with a message for the user


class AddError(Protocol):
    """Shows an error in the answer."""

    def __call__(self, code: str, message: str, *, hint: str = "") -> None: ...


class TurnFrame:
    """The frame of one turn. `add_error` shows errors in the answer; `stop_limit`: seconds for interrupted work to end;
    `is_retryable`: the user may retry after any error."""

    def __init__(
        self,
        context: TurnContext,
        prompt: str,
        add_error: AddError,
        *,
        stop_limit: float = STOP_LIMIT,
        is_retryable: bool = False,
    ) -> None:
        self.hooks = TurnHooks(context)
        self._context, self._prompt, self._add_error = context, prompt, add_error
        self._stop_limit, self._is_retryable = stop_limit, is_retryable
        self._ending: Ending = ("interrupted", "")
        self._started = monotonic()

    async def run(
        self, work: Callable[[str], Awaitable[Ending]], finish: Callable[[], tuple[Usage, int]]
    ) -> TurnFinished:
        """Run the whole turn. `TurnContext.interrupt` stops it; so does cancelling this coroutine, which then raises.

        `work` gets the additions of hooks to the prompt and answers it; a turn whose prompt is refused has no work.
        `finish` is called after any outcome, and returns the usage and the steps of the turn."""
        context = self._context
        origin, model = context.origin, context.routes.current.id
        context.emit(
            TurnStarted(prompt=self._prompt, mode=context.state.mode, model=model, cause=origin.cause, loop=origin.loop)
        )
        working = context.working = asyncio.create_task(self._run_work(work))
        try:
            await asyncio.wait({working})
        finally:
            if not working.done():
                await cancel_tasks([working], limit=self._stop_limit)
            fault = working.exception() if working.done() and not working.cancelled() else None
            context.working = None
            usage, steps = finish()
            return_steers(context.state, context.emit)
            reason, message = self._ending
            duration = round((monotonic() - self._started) * 1000)
            event = TurnFinished(reason=reason, usage=usage, steps=steps, duration_ms=duration, message=message)
            context.emit(event)
        if fault is not None:
            raise fault
        return event

    async def _run_work(self, work: Callable[[str], Awaitable[Ending]]) -> None:
        """Run the work between the hooks, and record how it ended. Only an interrupt raises."""
        try:
            self._ending = await work(await self.hooks.begin(self._prompt))
            if self._ending[0] == "failed":
                await self.hooks.report_failure()
        except LimitReached as limit:
            self._ending = ("limit", limit.format_with_hint())
            self._context.emit(Notice(level="info", message=limit.message, hint=limit.hint))
        except AgentTuiError as error:
            self._fail(error, retryable=self._is_retryable or (isinstance(error, ProviderError) and error.retryable))
            if not isinstance(error, PromptRefused):
                await self.hooks.report_failure()
        except Exception as error:  # A fault of the program is reported, and the session continues.
            hint = f"Try again. {describe_crash_report(save_crash_report(error, 'a turn'))}"
            fault = AgentTuiError(f"An unexpected error ended the turn ({type(error).__name__}).", hint=hint)
            self._fail(fault, retryable=True)

    def _fail(self, error: AgentTuiError, *, retryable: bool) -> None:
        self._ending = ("failed", error.format_with_hint())
        self._add_error(error.code, error.message, hint=error.hint)
        self._context.emit(ErrorRaised(code=error.code, message=error.message, hint=error.hint, retryable=retryable))
