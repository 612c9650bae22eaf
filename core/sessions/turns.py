"""The part of the fold that turns are: what was said and done in them, and which messages the model has seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from core.protocol import events as ev
from core.protocol.documents import AnyDocument, TerminalCommand
from core.protocol.messages import AssistantMessage, Message, Usage
from core.sessions.asking import heard
from core.sessions.steering import settled
from core.sessions.usage import total

if TYPE_CHECKING:
    from core.sessions.fold import SessionState


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

    def finished_documents(self) -> list[AnyDocument]:
        """The documents that have ended, in the order in which they began."""
        return [document for document in self.documents.values() if document is not None]


def attachment_added(state: SessionState, _: ev.Envelope, event: ev.AttachmentAdded) -> None:
    state.attached[event.label] = event.attachment


def turn_started(state: SessionState, envelope: ev.Envelope, event: ev.TurnStarted) -> None:
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


def turn_finished(state: SessionState, _: ev.Envelope, event: ev.TurnFinished) -> None:
    state.usage = total(state.usage, event.usage)
    turn = state.turn
    if turn is not None:
        turn.reason, turn.usage, turn.steps = event.reason, event.usage, event.steps
        turn.duration_ms, turn.message = event.duration_ms, event.message
        turn.calls.clear()


def step_finished(state: SessionState, _: ev.Envelope, event: ev.StepFinished) -> None:
    turn = state.turn
    if turn is not None:
        turn.steps, turn.usage = event.step, total(turn.usage, event.usage)
        state.chosen.take("chat", event.model or turn.model, event.usage)


def step_retried(state: SessionState, _: ev.Envelope, event: ev.StepRetried) -> None:
    turn = state.turn
    if turn is not None:
        for document in event.void_documents:
            turn.documents.pop(document, None)


def message_appended(state: SessionState, envelope: ev.Envelope, event: ev.MessageAppended) -> None:
    state.messages.append(event.message)
    state.message_branch.add(envelope.seq)
    settled(state, event.steers)
    heard(state, event.message)


def compacted(state: SessionState, envelope: ev.Envelope, event: ev.ContextCompacted) -> None:
    state.messages[:] = event.messages
    state.message_branch.go_to(0)
    state.message_branch.add(envelope.seq)
    state.context_used = event.after_tokens
    state.dropped_reasoning = 0


def reasoning_dropped(state: SessionState, envelope: ev.Envelope, _: ev.ReasoningDropped) -> None:
    state.messages[:] = without_reasoning(state.messages)
    state.message_branch.add(envelope.seq)


def without_reasoning(messages: Iterable[Message]) -> list[Message]:
    """The same messages, whose answers go back as what they said and called alone."""
    return [replace(each, wire=None) if isinstance(each, AssistantMessage) else each for each in messages]


def _is_apart(state: SessionState, envelope: ev.Envelope) -> bool:
    """Whether an event belongs to no turn: what the user runs, also while a turn does."""
    return not envelope.turn and bool(state.turns) and bool(state.turns[-1].id)


def document_started(state: SessionState, envelope: ev.Envelope, event: ev.DocumentStarted) -> None:
    if state.turns and not _is_apart(state, envelope):
        state.turns[-1].documents.setdefault(event.id, None)


def document_finished(state: SessionState, envelope: ev.Envelope, event: ev.DocumentFinished) -> None:
    document = event.document
    if isinstance(document, TerminalCommand):
        state.commands[document.metadata.command] = None
    if state.turns and not _is_apart(state, envelope):
        state.turns[-1].documents[document.id] = document


def tool_requested(state: SessionState, envelope: ev.Envelope, event: ev.ToolRequested) -> None:
    turn = state.turn
    if turn is not None and not _is_apart(state, envelope):
        turn.calls[event.call] = event
        turn.tool_count += 1


def tool_finished(state: SessionState, _: ev.Envelope, event: ev.ToolFinished) -> None:
    turn = state.turn
    if turn is not None:
        turn.calls.pop(event.call, None)
