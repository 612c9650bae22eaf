"""Model calls of a turn: one per step, with room made before it, and retries with growing, jittered pauses.

A server that has answered before is waited for as long as a restart may take; one that never has is most likely not
started. A stream that was cut has been paid for, so such attempts are counted as well. Failures on the way are emitted
as events; the result is an answer, or the error that ends the turn.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Final, Literal, cast

from msgspec import Struct, field

from core.agent.answer.documents import AnswerDocuments, CodeContext, TurnDocuments
from core.agent.answer.receiver import AnswerReceiver, ModelAnswer
from core.agent.answer.side_requests import record_usage
from core.agent.base.budget import TurnBudget
from core.agent.base.routes import FALLBACK_BUDGET, Route, TurnRoutes
from core.agent.context.dropped_reasoning import drop_refused_reasoning
from core.agent.context.prefix import SHORT_BELOW, PromptSetup
from core.agent.context.reminders import Reminders, append_reminder
from core.agent.context.turn_context import TurnContext
from core.agent.gate.file_capabilities import build_reader
from core.agent.turn.compaction import build_compactor, measure_room
from core.agent.turn.prompt_setup import CALLS_IN_TEXT, build_request, is_cache_cold, load_setup, recall_count
from core.clock import monotonic, now_ms, pause
from core.errors import ContextOverflow, PathRefused, ProviderError
from core.prompts import render
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, MessageAppended, Notice, StepFinished, StepRetried
from core.protocol.messages import AssistantMessage, Effort, EffortMessage, ToolMessage, Usage
from core.providers.connection.failures import LONG_WAIT, format_duration
from core.state.session import SessionState
from core.text.display_names import shorten_model

MAX_QUOTED_FILE: Final = 2_000_000  # bytes of a file with which a quotation is compared
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 20.0
FLOOR: Final = 0.5  # least seconds between two attempts, whatever a server asks for
BUDGET: Final = 90.0  # seconds from the first failure of a step to the last attempt
UNREACHABLE_BUDGET: Final = 2.5  # the same for a server that has not answered yet
UNANSWERED: Final = frozenset({"unreachable", "tls_failed"})  # error codes without an answer of the server
PAID_CODES: Final = frozenset({"stream_cut", "stalled", "stream_invalid", "call_malformed"})
MAX_PAID_ATTEMPTS: Final = 6
LOOP_LENGTH: Final = 3  # compactions, each at most so many steps after the one before, that leave this share in use
LOOP_STEPS: Final = 2
LOOP_SHARE: Final = 0.6
MOST_PROMPTS: Final = 0.7  # share of a window that is too small to work in if the prompts take up more
FULL_PROMPTS: Final = 0.95  # share of a window from which on it can't hold them


class Backoff(Struct, eq=False, kw_only=True):
    """The pauses between attempts of one step. `budget`: in seconds; `has_answered`: the server has answered before."""

    has_answered: bool = False
    budget: float = BUDGET
    attempt: int = 1
    _paid_count: int = 0
    _first_failures: dict[bool, float] = field(default_factory=dict)

    def compute_pause(self, error: ProviderError) -> float | None:
        """Return the seconds to wait before the next attempt, None = give up. The error's hint then gives the
        reason."""
        now, absent = monotonic(), error.code in UNANSWERED and not self.has_answered
        remaining_time = (
            self._first_failures.setdefault(absent, now) + (UNREACHABLE_BUDGET if absent else self.budget) - now
        )
        self.has_answered = self.has_answered or error.code not in UNANSWERED
        self._paid_count += error.code in PAID_CODES
        pause = min(FIRST_PAUSE * 2.0 ** (self.attempt - 1), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        pause = max(pause, FLOOR, error.retry_after or 0.0)
        is_too_long = error.retry_after is not None and error.retry_after > remaining_time
        if not error.retryable:
            return None
        if is_too_long or self._paid_count >= MAX_PAID_ATTEMPTS or remaining_time < FLOOR:
            error.hint = self._format_give_up(error, now)
            return None
        self.attempt += 1
        return min(pause, remaining_time)

    def _format_give_up(self, error: ProviderError, now: float) -> str:
        attempt_note = ""
        if self.attempt > 1:
            attempt_note = f"It was tried {self.attempt} times in {now - min(self._first_failures.values()):.0f} s. "
        if (wait := error.retry_after) is not None and wait >= LONG_WAIT:
            asks = f"It asks for a pause of {format_duration(wait)}."
            limit_note = f"The limit for waiting on a model is {self.budget:.0f} s. "
            return f"{asks} {limit_note}{attempt_note}Send the prompt again later, or choose another model with /model."
        return f"{attempt_note}{error.hint}"


class ModelCalls(Struct, eq=False):
    """The model calls of one turn. `setup`: the start of requests, which depends on the model."""

    setup: PromptSetup
    _context: TurnContext
    _routes: TurnRoutes
    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _budget: TurnBudget
    _documents: TurnDocuments
    _reminders: Reminders
    _todo_model: tuple[str, str] = ("", "")  # model and effort of the current todo
    _leaks: int = 0  # answers of the turn with a call in their text
    _compacted_steps: list[int] = field(default_factory=list)  # the steps before which the history was compacted
    _is_window_full: bool = False  # The window was full before the last answer was complete.

    async def request_answer(self) -> ModelAnswer:
        """Return the model's answer, after retries, fallbacks and a compaction as needed."""
        backoff: Backoff | None = None
        is_shortened = False
        while True:
            receiver = self._start_attempt()
            try:
                self._record_effort()
                answer = await receiver.receive(await build_request(self._context, self.setup, self._state.messages))
                self._record_success(self._routes.current)
                self._is_window_full = answer.reason == "context_full"
                if answer.problem and not answer.calls and self._is_leaking():
                    await self._switch_to_text_calls("It wrote a call that its server could not turn into one.")
                return answer
            except ContextOverflow as overflow:
                if is_shortened:
                    self._abort(receiver, "the conversation is too long")
                    raise self._build_too_long(overflow) from None
                self._record_retry(receiver, 1, 0.0, overflow)
                is_shortened = await self._shorten(overflow)
            except ProviderError as error:
                if await self._repair(receiver, error):
                    continue
                backoff = backoff or self._build_backoff()
                wait = backoff.compute_pause(error)
                if wait is not None:
                    self._record_retry(receiver, backoff.attempt, wait, error)
                    await pause(wait)
                elif other := self._routes.find_next(error):
                    self._record_retry(receiver, 1, 0.0, error)
                    self._routes.fall_back(other, error, self._emit)
                    self.setup = await load_setup(self._context)
                    backoff = None
                else:
                    self._abort(receiver, error.message)
                    raise
            except asyncio.CancelledError:
                self._abort(receiver, "cancelled by the user.")
                raise

    def _record_success(self, route: Route) -> None:
        self._context.memory.sent_efforts[route.id] = route.effort
        self._context.memory.cached_at = now_ms()
        self._routes.answered.add(route.id)

    def _start_attempt(self) -> AnswerReceiver:
        dialect, documents = self.setup.dialect, self._documents
        return AnswerReceiver(
            self._routes,
            self._routes.current,
            documents,
            dialect,
            dialect.create_parser(job=self._context.memory.foreground_job),
            self._context.tools,
            self._emit,
            AnswerDocuments(documents, CodeContext(self._state.mode, self._has_file, self._read_lines)),
            len(documents.ids),
        )

    def _has_file(self, path: str) -> bool:
        shadow = self._context.terminal.host.shadow
        try:
            path_stat = shadow.stat(shadow.workspace.to_relative(path))
        except PathRefused:
            return False
        return path_stat is not None and path_stat.kind == "file"

    def _read_lines(self, path: str) -> dict[int, str] | None:
        """Return the lines of a file by number, empty = there is none, None = they can't be told: the agent may not
        read it, or it cites another revision."""
        if self._context.cites_other_revision:
            return None
        if not self._has_file(path):
            return {}
        try:
            data = build_reader(self._context.permissions, {}).read_bytes(path, MAX_QUOTED_FILE)
        except (PathRefused, OSError):
            return None
        if len(data) >= MAX_QUOTED_FILE:
            return None
        return dict(enumerate(data.decode("utf-8", "replace").removesuffix("\n").split("\n"), 1))

    async def _repair(self, receiver: AnswerReceiver, error: ProviderError) -> bool:
        """Leave out a part of the request that the server refused. Returns True if the step can be retried at once."""
        if drop_refused_reasoning(self._state, error, self._routes.current.id, self._emit):
            self._record_retry(receiver, 1, 0.0, error)
            return True
        return error.code == "tools_unsupported" and await self._switch_to_text_calls(
            f"The server said: {error.message}"
        )

    def _is_leaking(self) -> bool:
        """True if the server does not seem to parse the model's calls: it has parsed none so far, or failed twice."""
        self._leaks += 1
        model = self._routes.current.id
        answers = (
            message
            for message in self._state.messages
            if isinstance(message, AssistantMessage) and message.model == model
        )
        has_called = any(
            call.id not in answer.in_text for answer in answers if not answer.dialect for call in answer.tool_calls
        )
        return not has_called or self._leaks > 1

    async def _switch_to_text_calls(self, reason: str) -> bool:
        """Let the model write its calls into its text from now on. Returns False if it does so already."""
        model = self._routes.current.id
        if not self.setup.prefix.tools:
            return False
        self._context.memory.variants.mark_toolless(model)
        await self._load_setup_again()
        self._emit(Notice(level="info", message=CALLS_IN_TEXT.format(shorten_model(model)), hint=reason))
        return True

    def _build_backoff(self) -> Backoff:
        """Build the backoff of this route, which is shorter if the chain has another one."""
        budget = FALLBACK_BUDGET if self._routes.find_next() else BUDGET
        return Backoff(has_answered=self._routes.current.id in self._routes.answered, budget=budget)

    def _record_effort(self) -> None:
        """Append a change of the effort to the history if the API takes it from there, so that its cache is hit."""
        route, messages = self._routes.current, self._state.messages
        effort = cast("Effort | Literal['']", route.effort or route.capabilities.default_effort)
        changes = [message.effort for message in messages if isinstance(message, EffortMessage)]
        before = changes[-1] if changes else self._context.memory.sent_efforts.get(route.id)
        used = before or route.capabilities.default_effort
        thinks = route.capabilities.wire == "messages" and "none" in {effort, used}
        if not route.capabilities.changes_effort or before is None or not effort or effort == used or thinks:
            return
        if route.capabilities.wire == "messages" and isinstance(messages[-1], ToolMessage):
            append_reminder(self._emit, render("reminders/effort", effort=effort))  # Results alone begin no turn there.
        change = EffortMessage(effort=effort, before=cast("Effort | Literal['']", before))
        self._emit(MessageAppended(message=change))

    def _record_retry(self, receiver: AnswerReceiver, attempt: int, wait: float, error: ProviderError) -> None:
        """Record a void attempt that is retried. Its usage counts."""
        self._budget.add(receiver.usage, self._routes.current.id)
        record_usage("chat", self._routes.current, receiver.usage, self._budget, self._emit)
        void = tuple(self._documents.ids[receiver.first_document :])
        self._emit(
            StepRetried(
                step=self._budget.steps,
                attempt=attempt,
                delay_ms=round(wait * 1000),
                message=error.message,
                code=error.code,
                void_documents=void,
            )
        )

    def _abort(self, receiver: AnswerReceiver, reason: str) -> None:
        message = receiver.abort(reason)
        if message is not None:
            self._emit(MessageAppended(message=message))
        self._budget.add(receiver.usage, self._routes.current.id)
        self._emit(StepFinished(step=self._budget.steps, usage=receiver.usage, model=self._routes.current.id))

    async def ensure_room(self) -> None:
        """Compact a history that fills the window. Raises `ContextOverflow`."""
        memory, (_, limit) = self._context.memory, measure_room(self._context)
        await self._fit_prompts(self._context.window)
        recall_count(self._context, self.setup.size)
        tokens = memory.meter.count_tokens(self.setup.size, self._state.messages)
        full, self._is_window_full = self._is_window_full, False
        if full or (
            limit and tokens >= limit and tokens > memory.compacted_tokens * 1.2
        ):  # it has grown by a fifth since the last time
            await self._compact(is_full=full)
        remaining = memory.meter.count_tokens(self.setup.size, self._state.messages)
        if full and remaining >= tokens:
            raise self._build_too_long(ContextOverflow("the last answer did not fit."))
        self._warn_of_price(remaining)

    def _warn_of_price(self, tokens: int) -> None:
        """Notify the user of the cost of the next request once it is above a price step, until it is below again."""
        route, memory = self._routes.current, self._context.memory
        step, was_above = route.price_step, memory.is_above_step
        memory.is_above_step = bool(step.tokens) and tokens > step.tokens
        if not memory.is_above_step or was_above:
            return
        cached = 0 if is_cache_cold(self._context) else min(memory.meter.counted_tokens, tokens)
        usage = Usage(prompt_tokens=tokens, cached_tokens=cached, cache_write_tokens=tokens - cached, tier=route.tier)
        cost = self._routes.price(route.id, usage)
        amount = f": about ${cost:.2f} instead of ${cost / step.factor:.2f} for its input" if cost else ""
        message = (
            f"The next request has about {tokens:,} tokens. Above {step.tokens:,}, each token sent to {route.id} costs "
            f"{step.factor:g} times as much{amount}."
        )
        self._emit(Notice(level="warning", message=message, hint="/compact shortens the conversation."))

    async def use_model_of(self, todo: Todo | None) -> None:
        """Switch to the model and effort of the current todo, if the project is trusted."""
        trusted_todo = todo if self._context.permissions.is_trusted else None
        choice = (trusted_todo.model, str(trusted_todo.effort)) if trusted_todo is not None else ("", "")
        if choice != self._todo_model and self._routes.chain:
            self._todo_model = choice
            if self._routes.switch_to(*choice, self._emit):
                self.setup = await load_setup(self._context)

    async def _compact(self, *, is_full: bool) -> None:
        """Make room. Raises `ContextOverflow` if the history has to be compacted again and again."""
        compactor = build_compactor(self._context, self.setup)
        is_enough = not is_full and compactor.drop_results(self.setup.size, self._context.terminal.host.directory)
        if not is_enough and await compactor.compact(self.setup.size, is_full=is_full):
            self._compacted_steps.append(self._budget.steps)
            self._check_progress(compactor.window)
        self._reminders.append_news()

    def _check_progress(self, room: int) -> None:
        """Raise `ContextOverflow` if the last compactions freed little and each was needed a step or two later."""
        steps = self._compacted_steps[-LOOP_LENGTH:]
        gaps = [later - earlier for earlier, later in itertools.pairwise(steps)]
        rest = self._context.memory.compacted_tokens
        if len(steps) < LOOP_LENGTH or max(gaps) > LOOP_STEPS or rest < room * LOOP_SHARE:
            return
        raise ContextOverflow(
            f"The conversation was compacted {len(steps)} times within {steps[-1] - steps[0]} steps, and about "
            f"{rest:,} of {room:,} tokens are in use again at once: your messages, the notes and the latest steps.",
            hint="Start a new session with /new, attach less, or choose a model with a larger window.",
        )

    async def _fit_prompts(self, window: int) -> None:
        """Send shorter prompts where the window can't hold the present ones: the server may have been started again.
        Raises `ContextOverflow` for a window that can't hold those either, which some servers cut off in silence."""
        if not window or self._measure_prompts() < window * FULL_PROMPTS:
            return
        if window < SHORT_BELOW and self._context.memory.variants.shorten(self._routes.current.id):
            await self._load_setup_again()
        if self._measure_prompts() >= window:
            raise self._build_too_long(
                ContextOverflow(f"{shorten_model(self._routes.current.id)} has a window of {window:,} tokens.")
            )

    def _measure_prompts(self) -> int:
        return self._context.memory.meter.estimate(self.setup.size)

    async def _load_setup_again(self) -> None:
        self._context.memory.known_setup = None
        self.setup = await load_setup(self._context)

    async def _shorten(self, overflow: ContextOverflow) -> bool:
        """Make the request smaller after a refusal, which names the window: by shorter prompts if the window is small,
        and by a compaction. Returns False if more can be done."""
        memory, routes = self._context.memory, self._routes
        memory.meter.calibrate(self.setup.size, self._state.messages, overflow.tokens)
        if overflow.window and overflow.window != routes.current.window:
            routes.learn_window(overflow.window, self._emit)
        is_small = 0 < self._context.window < SHORT_BELOW
        if is_small and memory.variants.shorten(routes.current.id):
            await self._load_setup_again()
            tokens = memory.meter.count_tokens(self.setup.size, self._state.messages)
            if tokens < measure_room(self._context)[1]:
                return False
        if 0 < overflow.window <= self._measure_prompts():
            return True  # Notes of the history would cost a request and not help.
        await self._compact(is_full=True)
        return True

    def _build_too_long(self, overflow: ContextOverflow) -> ContextOverflow:
        """Build the error for a request that can't be made small enough."""
        hint = "Start a new session, attach less, or choose a model with a larger window."
        prompts = self._measure_prompts()
        if (window := self._context.window) and prompts > window * MOST_PROMPTS:
            hint = (
                f"The instructions and tools alone have about {prompts:,} tokens: "
                "start the model's server with a larger window (for llama.cpp: -c 16384)."
            )
        text = f"{overflow.message.rstrip('.')}. Shortening the conversation was not enough."
        return ContextOverflow(text, hint=hint)
