"""The user, as a turn reaches them: approvals and questions, and the two places where a turn waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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


class UserChannel:
    """Approvals and questions of one session. `is_interactive` False: nobody can be asked, so nothing is granted."""

    def __init__(self, emit: Callable[[AnyEvent], None], *, is_interactive: bool = True) -> None:
        self.is_interactive = is_interactive
        self._emit = emit
        self._approvals: dict[str, asyncio.Future[ApprovalResolved]] = {}
        self._questions: dict[str, asyncio.Future[QuestionAnswered]] = {}

    async def approve(self, request: ApprovalRequested) -> ApprovalResolved:
        """Ask the user and wait. Refused by the program when nobody can be asked or the turn is interrupted."""
        self._emit(request)
        if not self.is_interactive:
            return self._refuse(request.id, "Nobody can be asked in this session.")
        waiting: asyncio.Future[ApprovalResolved] = asyncio.get_running_loop().create_future()
        self._approvals[request.id] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            self._refuse(request.id, "The turn was interrupted.")
            raise
        finally:
            del self._approvals[request.id]

    def _refuse(self, identity: str, note: str) -> ApprovalResolved:
        resolved = ApprovalResolved(id=identity, decision="reject_once", by="program", note=note)
        self._emit(resolved)
        return resolved

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        """Ask the user and wait. No answers: dismissed, or nobody can be asked (`by` program).

        A question that lasts stays open when the turn is interrupted.
        """
        self._emit(question)
        nobody = QuestionAnswered(id=question.id, by="program")
        if not self.is_interactive:
            self._emit(nobody)
            return nobody
        waiting: asyncio.Future[QuestionAnswered] = asyncio.get_running_loop().create_future()
        self._questions[question.id] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            if not question.lasting:
                self._emit(nobody)
            raise
        finally:
            del self._questions[question.id]

    def is_question_open(self, identity: str) -> bool:
        """True if a turn waits for the answer."""
        return identity in self._questions

    def resolve_approval(self, identity: str, decision: ApprovalDecision, note: str = "", pattern: str = "") -> bool:
        """Resolve an approval with the user's answer. False: nobody waits for it (any more); nothing was changed."""
        waiting = self._approvals.get(identity)
        if waiting is None or waiting.done():
            return False
        resolved = ApprovalResolved(id=identity, decision=decision, by="user", note=note, pattern=pattern)
        waiting.set_result(resolved)
        self._emit(resolved)
        return True

    def resolve_question(self, identity: str, answers: tuple[QuestionAnswer, ...]) -> bool:
        """Resolve a question with the user's answers (none = dismissed). False: nobody waits for them (any more)."""
        waiting = self._questions.get(identity)
        if waiting is None or waiting.done():
            return False
        answered = QuestionAnswered(id=identity, answers=answers, by="user")
        waiting.set_result(answered)
        self._emit(answered)
        return True
