"""Turns in the session's state: their documents and calls, and the messages of the history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from core.protocol import events as ev
from core.protocol.documents import AnyDocument, TerminalCommandDocument
from core.protocol.messages import AssistantMessage, Message, Usage
from core.state.questions import mark_answer_delivered
from core.state.steering import drop_steers
from core.state.usage import add_usage

if TYPE_CHECKING:
    from core.state.fold import SessionState


@dataclass(slots=True, kw_only=True)
class TurnState:
    """One turn: `documents` in order, until the next turn begins; `reason` is "" while it runs. `seq` is that of the
    record that began it. Times in ms."""

    id: str
    seq: int
    prompt: str
    mode: ev.ModeName
    model: str
    started: int
    documents: dict[str, AnyDocument | None] = field(default_factory=dict)
    calls: dict[str, ev.ToolRequested] = field(default_factory=dict)
    tool_count: int = 0
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    duration_ms: int = 0
    reason: ev.TurnEnd | Literal[""] = ""
    message: str = ""

    def list_finished_documents(self) -> list[AnyDocument]:
        """Return the documents that have ended, in the order in which they began."""
        return [document for document in self.documents.values() if document is not None]


def add_attachment(state: SessionState, _: ev.Envelope, event: ev.AttachmentAdded) -> None:
    state.attachments[event.label] = event.attachment


def start_turn(state: SessionState, envelope: ev.Envelope, event: ev.TurnStarted) -> None:
    if state.turns:
        state.turns[-1].documents.clear()
    turn = TurnState(
        id=envelope.turn,
        seq=envelope.seq,
        prompt=event.prompt,
        mode=event.mode,
        model=event.model,
        started=envelope.at,
    )
    state.turns.append(turn)
    state.turn_branch.add(envelope.seq)
    state.draft = ""


def finish_turn(state: SessionState, _: ev.Envelope, event: ev.TurnFinished) -> None:
    state.usage = add_usage(state.usage, event.usage)
    turn = state.current_turn
    if turn is not None:
        turn.reason, turn.usage, turn.steps = event.reason, event.usage, event.steps
        turn.duration_ms, turn.message = event.duration_ms, event.message
        turn.calls.clear()


def finish_step(state: SessionState, _: ev.Envelope, event: ev.StepFinished) -> None:
    turn = state.current_turn
    if turn is not None:
        turn.steps, turn.usage = event.step, add_usage(turn.usage, event.usage)
        state.model_choices.add_usage("chat", event.model or turn.model, event.usage)


def void_documents(state: SessionState, _: ev.Envelope, event: ev.StepRetried) -> None:
    turn = state.current_turn
    if turn is not None:
        for document in event.void_documents:
            turn.documents.pop(document, None)


def append_message(state: SessionState, envelope: ev.Envelope, event: ev.MessageAppended) -> None:
    state.messages.append(event.message)
    state.message_branch.add(envelope.seq)
    drop_steers(state, event.steers)
    mark_answer_delivered(state, event.message)


def compact_history(state: SessionState, envelope: ev.Envelope, event: ev.ContextCompacted) -> None:
    state.messages[:] = event.messages
    state.message_branch.move_to(0)
    state.message_branch.add(envelope.seq)
    state.context_used = event.after_tokens
    state.dropped_reasoning_count = 0


def drop_reasoning(state: SessionState, envelope: ev.Envelope, _: ev.ReasoningDropped) -> None:
    state.messages[:] = strip_reasoning(state.messages)
    state.message_branch.add(envelope.seq)


def strip_reasoning(messages: Iterable[Message]) -> list[Message]:
    """Return the same messages without what only their API can read: answers go back as text and calls."""
    return [replace(each, wire=None) if isinstance(each, AssistantMessage) else each for each in messages]


def _is_outside_turn(state: SessionState, envelope: ev.Envelope) -> bool:
    """True if an event belongs to no turn: a command of the user's own, also while a turn runs."""
    return not envelope.turn and bool(state.turns) and bool(state.turns[-1].id)


def start_document(state: SessionState, envelope: ev.Envelope, event: ev.DocumentStarted) -> None:
    if state.turns and not _is_outside_turn(state, envelope):
        state.turns[-1].documents.setdefault(event.id, None)


def finish_document(state: SessionState, envelope: ev.Envelope, event: ev.DocumentFinished) -> None:
    document = event.document
    if isinstance(document, TerminalCommandDocument):
        state.command_history[document.metadata.command] = None
    if state.turns and not _is_outside_turn(state, envelope):
        state.turns[-1].documents[document.id] = document


def start_call(state: SessionState, envelope: ev.Envelope, event: ev.ToolRequested) -> None:
    turn = state.current_turn
    if turn is not None and not _is_outside_turn(state, envelope):
        turn.calls[event.call] = event
        turn.tool_count += 1


def finish_call(state: SessionState, _: ev.Envelope, event: ev.ToolFinished) -> None:
    turn = state.current_turn
    if turn is not None:
        turn.calls.pop(event.call, None)
