"""After an answer without calls: whether the turn goes on, and what the model is told so that it does better."""

from __future__ import annotations

from core.agent.reminders import remind
from core.agent.repeats import GoingInCircles
from core.agent.session import SessionContext
from core.agent.streaming import Answer
from core.errors import ProviderError
from core.prompts import render
from core.protocol.events import MessageAppended
from core.protocol.messages import UserMessage

MAX_NUDGES = 2  # empty or cut-off answers in a turn that the model is asked to go on from
MAX_PAUSES = 8  # in a turn
MAX_OBJECTIONS = 4  # answers in a row that are not in the form of the model's dialect


class Nudges:
    """Counts them within a turn."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._nudges = 0
        self._objections = 0
        self._pauses = 0

    def well_formed(self) -> None:
        """An answer had calls."""
        self._objections = 0

    def goes_on(self, answer: Answer) -> bool:
        """Raises `ProviderError` or `GoingInCircles` when there is no use in going on."""
        if self._session.state.steers or self._session.state.untold_answers:
            return True
        if answer.reason == "refused":
            hint = "Say it otherwise, or choose another model with /model."
            raise ProviderError(f"{self._session.route.id} refused to answer.", code="model_refused", hint=hint)
        if answer.reason == "paused":
            return self._go_on_after_pause()
        is_empty, is_cut = not answer.message.content.strip(), answer.reason in {"length", "context_full"}
        if is_empty or is_cut:
            return self._nudge("truncated" if is_cut else "empty", is_empty=is_empty)
        if answer.over or not answer.problem:
            return False
        self._object(answer.problem)
        return True

    def _go_on_after_pause(self) -> bool:
        """Its server stopped in the middle, and goes on when it is sent the answer back."""
        self._pauses += 1
        if self._pauses > MAX_PAUSES:
            raise GoingInCircles(
                f"Stopped: the model's server paused {self._pauses} times in this turn.",
                hint="Send another message to go on.",
            )
        return True

    def _nudge(self, name: str, *, is_empty: bool) -> bool:
        self._nudges += 1
        if self._nudges <= MAX_NUDGES:
            remind(self._session, render(f"reminders/{name}", call=False))
            return True
        if is_empty:
            message = f"{self._session.route.id} answered nothing, {self._nudges} times in a row."
            hint = "Send it again, or choose another model with /model."
            raise ProviderError(message, code="empty_answer", hint=hint)
        return False

    def _object(self, problem: str) -> None:
        self._objections += 1
        if self._objections >= MAX_OBJECTIONS:
            raise GoingInCircles(
                f"Stopped: {self._objections} answers in a row were not in the form that the model was asked for.",
                hint=f"Choose another model, or another dialect for {self._session.route.id} in your configuration.",
            )
        self._session.emit(MessageAppended(message=UserMessage(content=problem, origin="program")))
