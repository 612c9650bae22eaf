"""The user, as a turn reaches them: approvals and questions, and the two places where a turn waits."""

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
    "The turn was interrupted before the user answered. The question stays open: the answer may come later."
)


Answer = TypeVar("Answer", ApprovalResolved, QuestionAnswered)
Answerer = Literal["user", "program"]


class UserChannel(Struct, eq=False):
    """Approvals and questions of one session. `is_interactive` False: nobody can be asked, so nothing is granted."""

    _emit: Callable[[AnyEvent], None]
    is_interactive: bool = True
    _approvals: dict[str, asyncio.Future[ApprovalResolved]] = field(default_factory=dict)
    _questions: dict[str, asyncio.Future[QuestionAnswered]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)  # what an answer was accepted for, which may not be told yet

    async def approve(self, request: ApprovalRequested) -> ApprovalResolved:
        """Ask the user and wait. Refused by the program when nobody can be asked or the turn is interrupted."""
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
        """Ask the user and wait. No answers: dismissed, or nobody there. A lasting question outlives an interrupt."""
        self._emit(question)
        nobody = QuestionAnswered(id=question.id, by="program")
        if not self.is_interactive:
            self._emit(nobody)
            return nobody
        try:
            return await _wait_for(question.id, self._questions)
        except asyncio.CancelledError:
            if not question.lasting:
                self._emit(nobody)
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
        """Resolve an approval with the user's answer, or `answerer` the program where nobody gave one. False: nobody
        waits for it (any more); nothing was changed."""
        resolution = ApprovalResolved(id=identity, decision=decision, by=answerer, note=note, pattern=pattern)
        return self._resolve(self._approvals, resolution)

    def resolve_question(
        self, identity: str, answers: tuple[QuestionAnswer, ...], *, answerer: Answerer = "user"
    ) -> bool:
        """Resolve a question with the user's answers (none = dismissed). False: nobody waits for them (any more)."""
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
