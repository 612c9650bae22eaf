"""The loop: from a prompt to an answer, step by step, until the model stops calling tools.

A step is one model call and the tool calls in its answer. However a turn ends, every provider accepts the history that
it leaves.
"""

from __future__ import annotations

from functools import partial

from core.agent.answer.documents import TurnDocuments
from core.agent.answer.receiver import ModelAnswer
from core.agent.base.budget import NO_LIMITS, TurnBudget
from core.agent.context.dropped_reasoning import notify_dropped, notify_removed
from core.agent.context.offers import append_offers
from core.agent.context.prefix import PromptSetup
from core.agent.context.reminders import Reminders, append_reminder
from core.agent.context.rule_injection import append_rule_news
from core.agent.context.turn_context import TurnContext
from core.agent.debug.debug_policy import DebugPolicy
from core.agent.debug.fix_verdict import FixReview
from core.agent.gate.call_results import ResultFormatter
from core.agent.gate.capabilities import build_capabilities
from core.agent.gate.edit_diagnostics import EditDiagnostics
from core.agent.gate.gate import Gate
from core.agent.gate.gated_call import GatedCall
from core.agent.mentions.sources import PromptSurroundings
from core.agent.turn.goal_keeper import GoalKeeper
from core.agent.turn.loop_guard import LoopGuard
from core.agent.turn.model_calls import ModelCalls
from core.agent.turn.prompt_setup import load_setup
from core.agent.turn.todo_following import TodoFollower, read_back_statuses
from core.agent.turn.turn_frame import Ending, TurnFrame
from core.agent.turn.turn_policy import TurnPolicy
from core.agent.turn.user_message import build_bare_message, compose_user_message
from core.prompts import render
from core.protocol.events import (
    ContextMeasured,
    MessageAppended,
    StepFinished,
    StepStarted,
    TurnFinished,
)
from core.protocol.messages import ToolCall, Usage, UserMessage
from core.tools.call_tool import resolve_scroll, unwrap_call
from core.tools.foreign_calls import translate_call

PRICE_CHECK_USAGE = Usage(prompt_tokens=1_000_000)
INTERRUPT_PATIENCE = 0.25  # seconds that an interrupted turn has for its clean-up


class Turn:
    """One turn. `prompt`: the text of the user; `instruction`: the text for the model instead, "" = the prompt."""

    def __init__(
        self,
        context: TurnContext,
        prompt: str,
        surroundings: PromptSurroundings | None = None,
        *,
        instruction: str = "",
    ) -> None:
        host, memory, permissions = context.terminal.host, context.memory, context.permissions
        state, emit, tools = context.state, context.emit, context.tools
        parent = permissions.subagent_limits.budget if permissions.subagent_limits else None
        self.budget = context.budget = memory.budget = TurnBudget(
            lambda: context.settings.limits,
            parent,
            lambda: memory.template_limits if context.dialect == "command" else NO_LIMITS,
        )
        self.prompt = prompt
        self._context = context
        self._state = state
        self._emit = emit
        self._model_prompt = instruction or prompt
        self._surroundings = surroundings or PromptSurroundings()
        self._documents = TurnDocuments(emit)
        capabilities = build_capabilities(context)
        self._diagnostics = EditDiagnostics(context.languages, state, emit)
        self._gate = Gate(capabilities, self._documents, self._diagnostics, tools=tools, turn_id=context.turn_id)
        is_attended = context.user.is_interactive
        self._reminders = Reminders(state, memory, permissions, tools, emit, lambda: context.dialect, is_attended)
        self._loop_guard = LoopGuard(state, context.routes, emit)
        read_back = partial(read_back_statuses, context.plans, host.shadow, memory.announced)
        self._todos = TodoFollower(
            state, emit, context.build, context.turn_id, tools, capabilities, read_back, state.todos
        )
        self._policy = self._build_policy(context)
        self._goal = GoalKeeper(context)
        self._frame = TurnFrame(context, prompt, self._documents.add_error, stop_limit=INTERRUPT_PATIENCE)
        self._hooks = self._frame.hooks

    def _build_policy(self, context: TurnContext) -> TurnPolicy:
        host = context.terminal.host
        fix = FixReview(host, context.user, context.memory.read_digests)
        return TurnPolicy(
            context.state,
            context.emit,
            context.build,
            self._todos,
            DebugPolicy(host, fix, context.permissions, context.turn_id),
            self._diagnostics,
            lambda: context.dialect == "command",
            self._surroundings.wants_plan,
        )

    async def run(self) -> TurnFinished:
        """Run the whole turn. `TurnContext.interrupt` stops it; so does cancelling this coroutine, which then
        raises."""
        return await self._frame.run(self._answer, lambda: (self.budget.usage, self.budget.steps))

    async def _answer(self, hook_context: str) -> Ending:
        """Run all steps."""
        model = ModelCalls(
            await self._append_prompt(hook_context),
            self._context,
            self._context.routes,
            self._state,
            self._emit,
            self.budget,
            self._documents,
            self._reminders,
        )
        while await self._run_step(model) or self._state.pending_steers:
            pass
        self.budget.check_end()
        if self._policy.lacks_plan:
            self._documents.add_question(self._hooks.last_answer)
        return "done", ""

    async def _append_prompt(self, hook_context: str) -> PromptSetup:
        """Append the prompt with its context to the history, or the prompt alone if that is interrupted."""
        message: UserMessage | None = None
        try:
            message = await compose_user_message(self._context, self._model_prompt, self._surroundings, self._reminders)
        finally:
            if message is None:
                message = build_bare_message(self._model_prompt, self._state.attachments)
            self._emit(MessageAppended(message=message))
        self._hooks.append_context(hook_context)
        return await load_setup(self._context)

    async def _run_step(self, model: ModelCalls) -> bool:
        """Run one model call and its tools. Returns False when the turn is done."""
        if self._state.todos_plan_path:
            self._todos.refresh()
        await append_rule_news(self._context, model.setup.prefix.system)
        if self.budget.steps:  # the prompt of the first step has carried them
            await append_offers(self._context.offers, self._state.messages, self._emit)
        await self._hooks.check_steers()
        self._reminders.append_news()
        self._diagnostics.append_late()
        self.budget.check()
        if self._context.build.plan:
            await model.use_model_of(self._todos.find_current())
        await model.ensure_room()
        self._emit(StepStarted(step=self.budget.begin_step()))
        answer = await model.request_answer()
        self._record_answer(model.setup, answer)
        await self._hooks.report_answer(answer.message.content)
        if answer.calls:
            return await self._hooks.should_continue(await self._run_calls(model.setup, answer))
        text = answer.message.content
        return await self._hooks.should_continue(
            self._loop_guard.should_continue(answer)
            or await self._policy.should_continue(text, is_over=answer.is_over)
            or await self._goal.should_continue(text)
        )

    def _record_answer(self, setup: PromptSetup, answer: ModelAnswer) -> None:
        """Record the answer and its usage. An empty answer becomes no message."""
        context, usage, model = self._context, answer.usage, self._context.routes.current.id
        meter, messages = context.memory.meter, self._state.messages
        self.budget.add(usage, model)
        if usage.cost is None and context.routes.price(model, PRICE_CHECK_USAGE) != 0.0:
            self.budget.mark_unpriced(model)
        meter.calibrate(setup.size, messages, usage.prompt_tokens)
        if answer.message.content.strip() or answer.calls or answer.is_resumable:
            self._emit(MessageAppended(message=answer.message))
        if answer.report.dropped_reasoning > self._state.dropped_reasoning_count:
            notify_dropped(self._state, answer, model, self._emit)
        if answer.report.removed_reasoning and answer.report.removal != context.memory.announced.get("removal"):
            context.memory.announced["removal"] = answer.report.removal
            notify_removed(answer, model, self._emit)
        tokens = meter.count_tokens(setup.size, self._state.messages)
        self._emit(StepFinished(step=self.budget.steps, usage=usage, context_tokens=tokens, model=model))
        self._emit(
            ContextMeasured(
                used=tokens,
                window=context.window,
                estimated=usage.prompt_tokens <= 0,
                dropped_reasoning=answer.report.dropped_reasoning,
                cache_miss=answer.report.cache_miss,
            )
        )

    def _unwrap_call(self, request: ToolCall) -> ToolCall:
        """Unwrap `call_tool`, the tool names of other agents, and requests to scroll earlier output."""
        return resolve_scroll(translate_call(unwrap_call(request)), self._state.messages)

    async def _run_calls(self, setup: PromptSetup, answer: ModelAnswer) -> bool:
        """Run the calls of an answer. Returns False when one of them ended the turn."""
        calls = [
            GatedCall(call, document, call.name, answer.problems.get(call.id), call.id == answer.cut_call)
            for call, document in ((self._unwrap_call(request), document) for request, document in answer.calls)
        ]
        if self._context.build.plan:
            await self._todos.follow_planned_calls(calls)
        results = ResultFormatter(setup.dialect, self._context.terminal.host, self._context.terminal.jobs)
        await self._gate.run(calls, results.format, self._loop_guard.get_warning)
        self._loop_guard.record_calls(calls)
        with_inner = [*calls, *(inner for call in calls for inner in call.inner)]
        await self._todos.record_calls(with_inner)
        self._policy.record_calls(with_inner)
        if answer.cut_call:
            append_reminder(self._emit, render("reminders/truncated", call=True))
        results.track_foreground_job(calls, self._context.memory)
        has_ended = results.show_submission(calls, self._documents)
        return not has_ended or await self._policy.should_continue("", is_over=True)
