"""Answers without calls: whether the turn goes on, and what the model is told so that it does better."""

from __future__ import annotations

from core.agent.answer.receiver import ModelAnswer
from core.agent.context.reminders import append_reminder
from core.agent.turn.loop_guard import LoopDetected
from core.agent.turn.turn_context import TurnContext
from core.errors import ProviderError
from core.prompts import render
from core.protocol.events import MessageAppended
from core.protocol.messages import UserMessage

MAX_NUDGES = 2  # empty or cut-off answers in a turn that the model is asked to go on from
MAX_PAUSES = 8  # in a turn
MAX_OBJECTIONS = 4  # answers in a row that are not in the form of the model's dialect


class AnswerGuard:
    """Counts of poor answers within a turn."""

    def __init__(self, session: TurnContext) -> None:
        self._session = session
        self._nudge_count = 0
        self._objection_count = 0
        self._pause_count = 0

    def reset_objections(self) -> None:
        """Reset the objections: an answer had calls."""
        self._objection_count = 0

    def should_continue(self, answer: ModelAnswer) -> bool:
        """True if the turn goes on. Raises `ProviderError` or `LoopDetected` when there is no use in it."""
        if self._session.state.pending_steers or self._session.state.unreported_answers:
            return True
        if answer.reason == "refused":
            hint = "Say it otherwise, or choose another model with /model."
            raise ProviderError(f"{self._session.route.id} refused to answer.", code="model_refused", hint=hint)
        if answer.reason == "paused":
            return self._count_pause()
        is_empty, is_cut = not answer.message.content.strip(), answer.reason in {"length", "context_full"}
        if is_empty or is_cut:
            return self._nudge("truncated" if is_cut else "empty", is_empty=is_empty)
        if answer.is_over or not answer.problem:
            return False
        self._object_to_form(answer.problem)
        return True

    def _count_pause(self) -> bool:
        """Count a pause of the model's server, which goes on when it is sent the answer back."""
        self._pause_count += 1
        if self._pause_count > MAX_PAUSES:
            raise LoopDetected(
                f"Stopped: the model's server paused {self._pause_count} times in this turn.",
                hint="Send another message to go on.",
            )
        return True

    def _nudge(self, name: str, *, is_empty: bool) -> bool:
        self._nudge_count += 1
        if self._nudge_count <= MAX_NUDGES:
            append_reminder(self._session, render(f"reminders/{name}", call=False))
            return True
        if is_empty:
            message = f"{self._session.route.id} answered nothing, {self._nudge_count} times in a row."
            hint = "Send it again, or choose another model with /model."
            raise ProviderError(message, code="empty_answer", hint=hint)
        return False

    def _object_to_form(self, problem: str) -> None:
        self._objection_count += 1
        if self._objection_count >= MAX_OBJECTIONS:
            raise LoopDetected(
                f"Stopped: {self._objection_count} answers in a row were not in the form that the model was asked for.",
                hint=f"Choose another model, or another dialect for {self._session.route.id} in your configuration.",
            )
        self._session.emit(MessageAppended(message=UserMessage(content=problem, origin="program")))
