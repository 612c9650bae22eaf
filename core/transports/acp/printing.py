"""The translation of events into ACP updates, by one table for live events and for a replayed log."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.acp.client_methods import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionUpdate,
    Cost,
    CurrentModeUpdate,
    NoticeShown,
    PlanEntry,
    PlanEntryStatus,
    PlanShown,
    SessionInfoUpdate,
    SessionUpdate,
    ToolCallChanged,
    ToolCallStarted,
    UsageUpdate,
    UserMessageChunk,
)
from core.acp.content import TextContent, ToolCallStatus
from core.protocol import documents as d
from core.protocol import events as ev
from core.state.live_text import append_piece
from core.state.session import SessionState
from core.text.markup import choose_fence
from core.transports.acp.tool_calls import MAX_TAIL, ShownCall, build_call, describe_answers, describe_result

_STATUS: Final[dict[str, ToolCallStatus]] = {"completed": "completed"}
_PLAN_STATUS: Final[dict[str, PlanEntryStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}


class UpdatePrinter:
    """Prints the events of one session. `state` is their fold. `has_notices`, `has_compaction`: kinds of updates that
    the client can show; other notices appear in the thoughts of the next turn."""

    def __init__(self, state: SessionState, *, has_notices: bool, has_compaction: bool) -> None:
        self.calls: dict[str, ShownCall] = {}
        self.is_replaying = False
        self.is_prompted = False
        self._state = state
        self._has_notices, self._has_compaction = has_notices, has_compaction
        self._root = Path()
        self._sent: dict[str, int] = {}  # characters sent of streaming documents
        self._kinds: dict[str, str] = {}
        self._ends_with_text = False  # the last update was text
        self._held_notices: list[str] = []
        self._questions: dict[str, ev.QuestionAsked] = {}

    def print(self, envelope: ev.Envelope) -> Iterator[SessionUpdate]:
        """Yield the updates of an event that is already applied to `state`."""
        self._root = Path(self._state.workspace)
        event = envelope.event
        match event:
            case ev.TurnStarted(prompt=prompt, cause=cause):
                self._ends_with_text = False
                if cause != "job" and (
                    self.is_replaying or not self.is_prompted
                ):  # otherwise the client itself has just sent it
                    yield UserMessageChunk(content=TextContent(text=prompt), message_id=envelope.turn or None)
                yield from self._release_notices()
            case ev.TurnSteered(text=text):
                yield UserMessageChunk(content=TextContent(text=text))
            case ev.DocumentStarted(id=document, kind=kind):
                self._kinds[document], self._sent[document] = kind, 0
            case ev.DocumentDelta(id=document, text=text) if self._kinds.get(document) in {"text", "reasoning"}:
                yield self._print_text(document, text)
            case ev.DocumentFinished(document=document):
                yield from self._print_document(document)
            case ev.ToolRequested() | ev.ToolOutput() | ev.ToolFinished():
                yield from self._print_call(event)
            case ev.QuestionAsked() | ev.QuestionAnswered():
                yield from self._print_question(event)
            case _:
                yield from self._print_rest(envelope)

    def _print_rest(self, envelope: ev.Envelope) -> Iterator[SessionUpdate]:
        match envelope.event:
            case ev.TodoChanged(todos=todos):
                yield build_plan(todos)
            case ev.PlanCreated(plan=plan) | ev.PlanUpdated(plan=plan):
                yield build_plan(plan.todos)
            case ev.ModeChanged(mode=mode):
                yield CurrentModeUpdate(current_mode_id=mode)
            case ev.SessionRenamed(title=title):
                yield SessionInfoUpdate(title=title, updated_at=format_time(envelope.at))
            case ev.ContextMeasured(used=used, window=window) if window:
                cost = self._state.model_choices.sum_usage().cost
                total_cost = Cost(amount=round(cost, 6), currency="USD") if cost is not None else None
                yield UsageUpdate(used=used, size=window, cost=total_cost)
            case ev.ContextCompacted() if self._has_compaction:
                yield CompactionUpdate(compaction_id=f"compaction-{envelope.seq}", status="completed")
            case ev.StepRetried(message=message, delay_ms=delay):
                yield from self._note("warning", message, f"Trying again in {delay / 1000:.0f} s.")
            case ev.Notice(level=level, message=message, hint=hint):
                yield from self._note(level, message, hint)
            case ev.ErrorRaised(message=message, hint=hint):
                yield from self._note("error", message, hint)
            case _:
                pass

    def _note(self, severity: str, title: str, hint: str) -> Iterator[SessionUpdate]:
        if self._has_notices:
            yield NoticeShown(severity=severity, title=title, description=hint or None)
        elif self._state.current_turn is not None:
            yield _think(f"{title} {hint}".strip())
        else:
            self._held_notices.append(f"{title} {hint}".strip())

    def _release_notices(self) -> Iterator[SessionUpdate]:
        notices, self._held_notices = self._held_notices, []
        yield from map(_think, notices)

    def _print_text(self, document: str, text: str) -> SessionUpdate:
        is_thought = self._kinds.get(document) == "reasoning"
        begins = not self._sent.get(document) and self._ends_with_text and not is_thought
        self._sent[document] = self._sent.get(document, 0) + len(text)
        self._ends_with_text = not is_thought
        content = TextContent(text=f"\n\n{text}" if begins else text)
        chunk = AgentThoughtChunk if is_thought else AgentMessageChunk
        return chunk(content=content, message_id=document)

    def _print_document(self, document: d.AnyDocument) -> Iterator[SessionUpdate]:
        content = document.content or ""
        match document:
            case d.TextDocument() | d.ReasoningDocument():
                self._kinds[document.id] = "text" if isinstance(document, d.TextDocument) else "reasoning"
                if rest := content[self._sent.get(document.id, 0) :]:
                    yield self._print_text(document.id, rest)
            case d.CodeBlockDocument(metadata=block):
                yield self._print_text(document.id, fence(block.language, content))
            case d.CodeReferenceDocument(metadata=place):
                yield self._print_text(
                    document.id, fence(f"{place.start_line}:{place.end_line}:{place.file_path}", content)
                )
            case d.PlanDocument(metadata=plan):
                yield self._print_text(document.id, f"# {plan.title}\n\n{plan.overview}\n\n{content}".strip())
            case d.ErrorDocument() if not document.metadata.tool_call_id:  # otherwise its call shows it
                yield self._print_text(document.id, f"{content} {document.metadata.details}".strip())
            case _:
                yield from self._print_result(document)

    def _print_result(self, document: d.AnyDocument) -> Iterator[SessionUpdate]:
        result = describe_result(document)
        if result is None or (call := self.calls.get(result[0])) is None:
            return
        call.text = result[1]
        yield ToolCallChanged(tool_call_id=call.id, content=call.list_content() or None, raw_output=result[2])

    def _print_question(self, event: ev.QuestionAsked | ev.QuestionAnswered) -> Iterator[SessionUpdate]:
        """Show an answer at the call that asked the question."""
        if isinstance(event, ev.QuestionAsked):
            self._questions[event.id] = event
        elif (question := self._questions.pop(event.id, None)) is not None and question.call in self.calls:
            call = self.calls[question.call]
            call.text = describe_answers(question, event)
            yield ToolCallChanged(tool_call_id=call.id, content=call.list_content())

    def _print_call(self, event: ev.AnyEvent) -> Iterator[SessionUpdate]:
        match event:
            case ev.ToolRequested():
                call = self.calls[event.call] = build_call(event, self._root)
                self._ends_with_text = False
                yield ToolCallStarted(
                    tool_call_id=call.id,
                    title=call.title,
                    name=call.name,
                    kind=call.kind,
                    status="in_progress",
                    locations=call.locations,
                    raw_input=call.raw_input,
                )
            case ev.ToolOutput(call=name, text=text) if name in self.calls:
                running = self.calls[name]
                running.tail = append_piece(running.tail, text)[-MAX_TAIL:]
                yield ToolCallChanged(tool_call_id=name, content=running.list_content())
            case ev.ToolFinished(call=name, status=status) if name in self.calls:
                summary = event.summary if status != "completed" else ""
                finished_call = self.calls[name]
                finished_call.text = finished_call.text or summary
                content = finished_call.list_content() or None
                yield ToolCallChanged(tool_call_id=name, status=_STATUS.get(status, "failed"), content=content)
            case _:
                pass


def build_plan(todos: tuple[d.Todo, ...]) -> PlanShown:
    """Build the plan of a todo list, without cancelled todos."""
    todo_statuses = [(todo, _PLAN_STATUS[todo.status]) for todo in todos if todo.status in _PLAN_STATUS]
    entries = (PlanEntry(content=todo.content, priority="medium", status=status) for todo, status in todo_statuses)
    return PlanShown(entries=tuple(entries))


def format_time(at_ms: int) -> str:
    """Format a time in ms since the epoch as ISO 8601."""
    timestamp = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return timestamp.isoformat(timespec="seconds").replace("+00:00", "Z")


def _think(text: str) -> SessionUpdate:
    return AgentThoughtChunk(content=TextContent(text=f"{text}\n"))


def fence(head: str, content: str) -> str:
    """Fence content with more backticks than any run in it; `head` follows the opening fence."""
    mark = choose_fence(content)
    return f"{mark}{head}\n{content.rstrip()}\n{mark}"
