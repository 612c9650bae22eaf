"""The screen's fold of what the user is asked: approvals, questions, and whether to trust the project.

A question that lasts is open until it is answered or dismissed, also when its turn has ended; an answer that comes late
is shown where it was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.protocol import events
from core.protocol.documents import Clarification, QuestionAnswer

if TYPE_CHECKING:
    from tui.state import ViewState


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the turn that it belongs to, and the block that shows it."""

    event: events.QuestionAsked
    turn: str
    block: str


@dataclass(slots=True)
class Questions:
    """`open` by id; `marks`: what was open at each checkpoint; `known`: all there ever were."""

    open: dict[str, Asked] = field(default_factory=dict)
    known: dict[str, Asked] = field(default_factory=dict)
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
            asked = Asked(event, turn, state.calls.get(event.call, ""))
            state.asked.open[event.id] = state.asked.known[event.id] = asked
        case events.QuestionAnswered():
            _answered(state, event)
        case events.AnswersReported(ids=ids):
            state.asked.untold = [each for each in state.asked.untold if each not in ids]
        case events.TrustStated():
            state.trust = event if event.state == "asked" else None
        case _:
            return False
    return True


def _answered(state: ViewState, event: events.QuestionAnswered) -> None:
    asked = state.asked.open.pop(event.id, None)
    if asked is None:
        return
    if event.answers and not awaits(state, asked):
        state.asked.untold.append(event.id)
    _show(state, asked, event.answers, "")


def awaits(state: ViewState, asked: Asked) -> bool:
    """Whether a turn waits for the answer."""
    return state.running and asked.turn == state.turn


def mark_asked(state: ViewState, checkpoint: str) -> None:
    """Keep what is open at a checkpoint, or was answered and not told yet."""
    state.asked.marks[checkpoint] = (*state.asked.untold, *state.asked.open)


def rewind_asked(state: ViewState, checkpoint: str) -> None:
    """What was open at a checkpoint is open again."""
    questions = state.asked
    questions.untold.clear()
    questions.open = {each: questions.known[each] for each in questions.marks.get(checkpoint, ())}
    for asked in questions.open.values():
        _show(state, asked, (), "cancelled")


def _show(state: ViewState, asked: Asked, answers: tuple[QuestionAnswer, ...], status: str) -> None:
    """Put answers into the document that asked, if that has ended."""
    block = state.by_key.get(asked.block)
    if block is not None and isinstance(block.document, Clarification):
        metadata = replace(block.document.metadata, answers=answers)
        block.document, block.status = replace(block.document, metadata=metadata), status
        block.revision += 1
