"""The user, as a turn reaches them: approvals and questions, the two things that a turn waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeVar

from msgspec import Struct, field

from core.protocol.documents import QuestionAnswer
from core.protocol.events import (
    AnyEvent,
    ApprovalDecision,
    ApprovalRequested,
    ApprovalResolved,
    QuestionAnswered,
    QuestionAsked,
)

QUESTION_STILL_OPEN = (
    "The turn was interrupted before the user answered. The question stays open; the answer may still come."
)


Answer = TypeVar("Answer", ApprovalResolved, QuestionAnswered)
Answerer = Literal["user", "program"]


class UserChannel(Struct, eq=False):
    """Approvals and questions of one session. If `is_interactive` is False, nobody can be asked: nothing is granted."""

    _emit: Callable[[AnyEvent], None]
    is_interactive: bool = True
    _approvals: dict[str, asyncio.Future[ApprovalResolved]] = field(default_factory=dict)
    _questions: dict[str, asyncio.Future[QuestionAnswered]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)  # ids with an accepted answer, which may not be emitted yet

    async def approve(self, request: ApprovalRequested) -> ApprovalResolved:
        """Ask the user and wait. The program refuses when nobody can be asked or the turn is interrupted."""
        self._emit(request)
        if not self.is_interactive:
            return self._refuse(request.id, "Nobody can be asked in this session.")
        try:
            return await _wait_for(request.id, self._approvals)
        except asyncio.CancelledError:
            self._refuse(request.id, "The turn was interrupted.")
            raise

    def _refuse(self, identity: str, note: str) -> ApprovalResolved:
        resolution = ApprovalResolved(id=identity, decision="reject_once", by="program", note=note)
        self._emit(resolution)
        return resolution

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        """Ask the user and wait. Without answers the question was dismissed, or nobody could be asked.

        A lasting question stays open when the turn is interrupted."""
        self._emit(question)
        dismissal = QuestionAnswered(id=question.id, by="program")
        if not self.is_interactive:
            self._emit(dismissal)
            return dismissal
        try:
            return await _wait_for(question.id, self._questions)
        except asyncio.CancelledError:
            if not question.lasting:
                self._emit(dismissal)
            raise

    def is_question_open(self, identity: str) -> bool:
        """True if a turn waits for the answer."""
        return identity in self._questions

    def resolve_approval(
        self,
        identity: str,
        decision: ApprovalDecision,
        note: str = "",
        pattern: str = "",
        *,
        answerer: Answerer = "user",
    ) -> bool:
        """Resolve an approval. `answerer`: "program" if the user did not decide. Returns False if no turn waits for
        it."""
        resolution = ApprovalResolved(id=identity, decision=decision, by=answerer, note=note, pattern=pattern)
        return self._resolve(self._approvals, resolution)

    def resolve_question(
        self, identity: str, answers: tuple[QuestionAnswer, ...], *, answerer: Answerer = "user"
    ) -> bool:
        """Resolve a question with the user's answers, () = dismissed. Returns False if no turn waits for it."""
        return self._resolve(self._questions, QuestionAnswered(id=identity, answers=answers, by=answerer))

    def _resolve(self, waiting: dict[str, asyncio.Future[Answer]], answer: Answer) -> bool:
        future = waiting.get(answer.id)
        if future is None or future.done():
            return False
        future.set_result(answer)
        self._emit(answer)
        return True


async def _wait_for(identity: str, waiting: dict[str, asyncio.Future[Answer]]) -> Answer:
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    waiting[identity] = future
    try:
        return await future
    finally:
        del waiting[identity]
