"""The seven events of a streamed answer, projected from the events of a turn.

A document has the same id in the stream and in the response. Calls run in parallel, so that events of several
documents may be mixed: each event names its document by id and by `sequence`. A second `document_start` with an id
starts that document over: when a model call failed and is repeated, and when a document turns out to be of another
type, as an edit that failed is a `tool_call`. A document that has not ended when the answer is done is void.

`docs/stream.schema.json` is generated from these records (`python -m core.transports.http.chat.stream_events`).
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from core.protocol import documents as d
from core.protocol import events as ev
from core.records import decode_json
from core.state.session import SessionState, TurnState
from core.transports.response import (
    Response,
    ResponseDocument,
    ResponseMetadata,
    ResponseUsage,
    Status,
    build_response,
    close_records,
)

_TEXT_KINDS: Final = frozenset({"text", "code_block", "code_reference"})
WAITS: Final = "You have a question: your next message in the conversation answers it."
_CALL_KINDS: Final = frozenset({"tool_call", "file_edit", "terminal_command", "plan", "todo_update", "clarification"})
_WHOLE_KINDS: Final = frozenset({"plan", "clarification", "error"})  # their text is known at their end only


class StreamEvent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the data of an event; `name` stands in its `event:` line."""

    name: ClassVar[str] = ""


class DocumentStart(StreamEvent, frozen=True, kw_only=True):
    """A document begins."""

    name: ClassVar[str] = "document_start"
    id: str
    type: str
    sequence: int


class ContentDelta(StreamEvent, frozen=True, kw_only=True):
    """A piece of the text of a document. Pieces may be missing for a slow reader; `document_end` has all of it."""

    name: ClassVar[str] = "content_delta"
    document_id: str
    sequence: int = 0
    delta: str


class ToolCallStart(StreamEvent, frozen=True, kw_only=True):
    """A tool is called."""

    name: ClassVar[str] = "tool_call_start"
    document_id: str
    sequence: int = 0
    tool_name: str
    tool_call_id: str


class WaitingApproval(Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that waits for the user's yes: `POST /api/v1/sessions/{session}/approvals/{id}` answers it. `subject` is
    exactly what will run."""

    id: str
    kind: str
    subject: str
    reason: str
    options: tuple[ev.ApprovalDecision, ...]


class ToolCallArguments(StreamEvent, frozen=True, kw_only=True):
    """The arguments of a call. They come once more, with `approval`, when the call has to wait for a yes."""

    name: ClassVar[str] = "tool_call_arguments"
    document_id: str
    sequence: int = 0
    arguments: dict[str, Any]
    approval: WaitingApproval | UnsetType = UNSET


class ToolResultEvent(StreamEvent, frozen=True, kw_only=True):
    """The result of a call."""

    name: ClassVar[str] = "tool_result"
    document_id: str
    sequence: int = 0
    result: d.ToolResult


class DocumentEnd(StreamEvent, frozen=True, kw_only=True):
    """A document is whole. `final_content`: its text, of what was written; `document`: all of it, of all but text."""

    name: ClassVar[str] = "document_end"
    document_id: str
    sequence: int = 0
    final_content: str | UnsetType = UNSET
    document: ResponseDocument | UnsetType = UNSET


class Done(StreamEvent, frozen=True, kw_only=True):
    """The answer has ended; the other fields are those of the response."""

    name: ClassVar[str] = "done"
    usage: ResponseUsage
    id: Annotated[str, Meta(description="Of the response.")] = ""
    conversation_id: str = ""
    model: str = ""
    mode: str = ""
    created: str = ""
    status: Status | UnsetType = UNSET
    metadata: ResponseMetadata | UnsetType = UNSET


STREAM_EVENTS: Final[tuple[type[StreamEvent], ...]] = (
    DocumentStart,
    ContentDelta,
    ToolCallStart,
    ToolCallArguments,
    ToolResultEvent,
    DocumentEnd,
    Done,
)


class ChatProjection:
    """Projects the events of a session onto stream events, turn by turn. Reasoning is not part of an answer."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._kinds: dict[str, str] = {}
        self._calls: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._turn = ""

    def project(self, envelope: ev.Envelope) -> list[StreamEvent]:
        """Return the stream events of an event. `build_done` makes the one for the end of a turn."""
        event = envelope.event
        if isinstance(event, ev.TurnStarted):
            self._start_turn(envelope.turn)
        if envelope.turn != self._turn and not isinstance(event, ev.ApprovalRequested):
            return []
        events: list[StreamEvent] = []
        match event:
            case ev.DocumentStarted() if event.kind != "reasoning":
                events = [self._start_document(event)]
            case ev.DocumentDelta() if self._kinds.get(event.id) in _TEXT_KINDS:
                events = [ContentDelta(**self._refer(event.id), delta=event.text)]
            case ev.ToolRequested() if self._kinds.get(event.document) in _CALL_KINDS:
                events = self._start_call(event.document, event.tool, event.call, _parse_arguments(event.arguments))
            case ev.ApprovalRequested():
                events = self._request_approval(event)
            case ev.DocumentFinished() if event.document.id in self._numbers:
                events = self._finish_document(event.document)
            case ev.StepRetried():
                self._drop_documents(event.void_documents)
            case _:
                pass
        return events

    def _start_turn(self, turn: str) -> None:
        self._numbers.clear()
        self._kinds.clear()
        self._calls.clear()
        self._turn = turn

    def _name(self, document: str) -> str:
        return f"doc_{self._numbers[document]:03}"

    def _refer(self, document: str) -> dict[str, Any]:
        """Return the fields of an event that name its document."""
        return {"document_id": self._name(document), "sequence": self._numbers[document]}

    def _start_document(self, event: ev.DocumentStarted) -> StreamEvent:
        used_numbers = set(self._numbers.values())
        number = next(candidate for candidate in range(1, len(used_numbers) + 2) if candidate not in used_numbers)
        self._numbers[event.id], self._kinds[event.id] = number, event.kind
        return DocumentStart(id=self._name(event.id), type=event.kind, sequence=number)

    def _drop_documents(self, documents: tuple[str, ...]) -> None:
        for document in documents:
            self._numbers.pop(document, None)
            self._kinds.pop(document, None)

    def _start_call(self, document: str, tool: str, call: str, arguments: dict[str, Any]) -> list[StreamEvent]:
        self._calls[document] = (tool, call, arguments)
        place = self._refer(document)
        return [
            ToolCallStart(**place, tool_name=tool, tool_call_id=call),
            ToolCallArguments(**place, arguments=arguments),
        ]

    def _request_approval(self, event: ev.ApprovalRequested) -> list[StreamEvent]:
        waiting = WaitingApproval(
            id=event.id, kind=event.kind, subject=event.subject, reason=event.reason, options=event.options
        )
        return [
            ToolCallArguments(**self._refer(document), arguments=arguments, approval=waiting)
            for document, (_, call, arguments) in self._calls.items()
            if call == event.call and document in self._numbers
        ]

    def _finish_document(self, document: Any) -> list[StreamEvent]:
        place, kind = self._refer(document.id), str(document.__struct_config__.tag)
        full_document = structs.replace(document, id=place["document_id"], sequence=place["sequence"])
        if kind == "text":
            return [DocumentEnd(**place, final_content=document.content or "")]
        events: list[StreamEvent] = []
        if kind != self._kinds[document.id]:
            events.append(self._restart_document(document.id, kind))
        if document.id not in self._calls and (call := _describe_call(document)) is not None:
            events += self._start_call(document.id, *call)  # it was not told yet, or is a part of another's call
        if kind in _WHOLE_KINDS and document.content:
            events.append(ContentDelta(**place, delta=document.content))
        if document.id in self._calls:
            events.append(ToolResultEvent(**place, result=_build_result(document)))
        final = document.content if kind in _TEXT_KINDS | _WHOLE_KINDS else None
        return [
            *events,
            DocumentEnd(**place, final_content=UNSET if final is None else final, document=full_document),
        ]

    def _restart_document(self, document: str, kind: str) -> StreamEvent:
        """Start a document over as one of another type. What was told of its call is told again."""
        self._kinds[document] = kind
        self._calls.pop(document, None)
        return DocumentStart(id=self._name(document), type=kind, sequence=self._numbers[document])


def _parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; under `raw` if they are no JSON object."""
    try:
        arguments = decode_json(text)
    except msgspec.DecodeError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"raw": text}


def _build_result(document: d.Document) -> d.ToolResult:
    """Return the result of the call that a document is about."""
    match document:
        case d.ToolCallDocument():
            return document.metadata.result or d.ToolResult(status="error")
        case d.FileEditDocument():
            return d.ToolResult(status=document.metadata.status, data=document.content)
        case d.TerminalCommandDocument():
            ended_well = document.metadata.exit_code == 0
            return d.ToolResult(status="success" if ended_well else "error", data=document.metadata.output)
        case _:
            return d.ToolResult(status="success")


def _describe_call(document: Any) -> tuple[str, str, dict[str, Any]] | None:
    """Return the tool, call id and arguments of a document about a call; None: it does not name them."""
    metadata = document.metadata
    match document:
        case d.ToolCallDocument():
            return metadata.tool_name, metadata.tool_call_id, metadata.arguments
        case d.TerminalCommandDocument():
            return "run_terminal_cmd", metadata.tool_call_id, {"command": metadata.command}
        case d.FileEditDocument():
            return metadata.tool_name, metadata.tool_call_id, {"file_path": metadata.file_path}
        case _:
            return None


def build_answer(turn: TurnState, state: SessionState) -> Response:
    """Return the response object of a turn. A turn that ended with a question to the user counts as done."""
    response = build_response(turn, state)
    has_asked = any(
        isinstance(document, d.ClarificationDocument) and not document.metadata.answers
        for document in response.documents
    )
    if turn.reason == "interrupted" and has_asked and any(question.lasting for question in state.questions.values()):
        metadata = structs.replace(response.metadata, stop_reason="done", stop_message=WAITS)
        return structs.replace(response, status="completed", metadata=metadata)
    return response


def build_done(response: Response) -> Done:
    """Return the last event of an answer."""
    names = [name for name in Done.__struct_fields__ if name != "documents"]
    return Done(**{name: getattr(response, name) for name in names})


def build_stream_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a streamed event: its name and its data."""
    kinds, definitions = msgspec.json.schema_components(STREAM_EVENTS, ref_template="#/$defs/{name}")
    close_records(definitions, is_required=False)
    options = [
        {
            "type": "object",
            "properties": {"event": {"const": event_type.name}, "data": kind},
            "required": ["event", "data"],
            "additionalProperties": False,
        }
        for event_type, kind in zip(STREAM_EVENTS, kinds, strict=True)
    ]
    schema = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": schema, "title": "agent-tui stream event", "oneOf": options, "$defs": definitions}


def format_stream_schema() -> str:
    """Return the content of `docs/stream.schema.json`."""
    return json.dumps(build_stream_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(format_stream_schema())
