"""The screen's fold of what the user is asked: approvals, questions, and whether to trust the project.

A question that lasts is open until it is answered or dismissed, also when its turn has ended; an answer that comes late
is shown where it was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.protocol import events
from core.protocol.documents import ClarificationDocument, QuestionAnswer

if TYPE_CHECKING:
    from tui.state import ViewState


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question, the turn that it belongs to, and the block that shows it."""

    event: events.QuestionAsked
    turn: str
    block: str


@dataclass(slots=True)
class QuestionLog:
    """`open` by id; `marks`: what was open at each checkpoint; `known`: all there ever were."""

    open: dict[str, OpenQuestion] = field(default_factory=dict)
    known: dict[str, OpenQuestion] = field(default_factory=dict)
    marks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)


def fold_asked(state: ViewState, event: events.AnyEvent, turn: str) -> bool:
    """Take one event in. False: it was about nothing that the user is asked."""
    match event:
        case events.ApprovalRequested():
            state.approvals[event.id] = event
        case events.ApprovalResolved():
            state.approvals.pop(event.id, None)
        case events.QuestionAsked():
            asked = OpenQuestion(event, turn, state.calls.get(event.call, ""))
            state.questions.open[event.id] = state.questions.known[event.id] = asked
        case events.QuestionAnswered():
            _answered(state, event)
        case events.AnswersReported(ids=ids):
            state.questions.untold = [each for each in state.questions.untold if each not in ids]
        case events.TrustStated():
            state.trust = event if event.state == "asked" else None
        case _:
            return False
    return True


def _answered(state: ViewState, event: events.QuestionAnswered) -> None:
    asked = state.questions.open.pop(event.id, None)
    if asked is None:
        return
    if event.answers and not is_awaited(state, asked):
        state.questions.untold.append(event.id)
    _show(state, asked, event.answers, "")


def is_awaited(state: ViewState, asked: OpenQuestion) -> bool:
    """Whether a turn waits for the answer."""
    return state.is_running and asked.turn == state.turn_id


def mark_asked(state: ViewState, checkpoint: str) -> None:
    """Keep what is open at a checkpoint, or was answered and not told yet."""
    state.questions.marks[checkpoint] = (*state.questions.untold, *state.questions.open)


def rewind_asked(state: ViewState, checkpoint: str) -> None:
    """What was open at a checkpoint is open again."""
    questions = state.questions
    questions.untold.clear()
    questions.open = {each: questions.known[each] for each in questions.marks.get(checkpoint, ())}
    for asked in questions.open.values():
        _show(state, asked, (), "cancelled")


def _show(state: ViewState, asked: OpenQuestion, answers: tuple[QuestionAnswer, ...], status: str) -> None:
    """Put answers into the document that asked, if that has ended."""
    block = state.blocks_by_key.get(asked.block)
    if block is not None and isinstance(block.document, ClarificationDocument):
        metadata = replace(block.document.metadata, answers=answers)
        block.document, block.status = replace(block.document, metadata=metadata), status
        block.revision += 1
