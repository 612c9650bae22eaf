"""The response object: one turn's documents with usage and metadata, in the names of the response specification.

`docs/response.schema.json` is generated from these records (`python -m core.response`). Reasoning is no document of an
answer and is left out; the documents are numbered anew, without gaps.
"""

from __future__ import annotations

import datetime
import inspect
import json
import sys
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from core.protocol import documents as d
from core.protocol.events import ModeName
from core.protocol.messages import Usage
from core.protocol.moves import listed
from core.protocol.review import Bulk, Change, Operation
from core.sessions.fold import SessionState
from core.sessions.turns import TurnState

ResponseDocument = (
    d.Text
    | d.CodeReference
    | d.CodeBlock
    | d.FileEdit
    | d.ToolCallDocument
    | d.TerminalCommand
    | d.PlanDocument
    | d.Clarification
    | d.ErrorDocument
    | d.TodoUpdate
)
Status = Literal["completed", "streaming", "error"]


class ResponseUsage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens of all model calls of the turn; `cost` in US dollars, null when the price is not known."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None


class PendingChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that waits for a verdict, with the lines it gains and loses. A rename is one: `renamed_from` is its old
    path, "" = it is none."""

    path: str
    operation: Operation
    added: int
    removed: int
    renamed_from: str = ""
    protected: bool = False
    conflict: str = ""


class PendingBulk(Struct, frozen=True, kw_only=True, rename="camel"):
    """What waits for one verdict as a whole: a state of git, or a file too large to be shown by its lines."""

    root: str
    kind: Literal["generated", "git", "large"]
    files: int
    bytes: int
    deleted: int = 0
    conflict: str = ""


class ResponseMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """`turn_count`: model calls. `stop_reason`: why the turn ended; `stop_message` says more where there is more.

    `pending_changes` and `pending_bulks` wait for a review (`agent-tui -c`); `accepted_changes` were written to the
    workspace at the end.
    """

    duration_ms: int = field(name="duration_ms")
    tool_call_count: int
    turn_count: int
    stop_reason: Literal["done", "interrupted", "limit", "failed"]
    stop_message: str = ""
    session_id: str = ""
    pending_changes: tuple[PendingChange, ...] = ()
    pending_bulks: tuple[PendingBulk, ...] = ()
    accepted_changes: tuple[str, ...] = ()


class Response(Struct, frozen=True, kw_only=True, rename="camel"):
    """One answer. `created` is ISO 8601 in UTC."""

    id: str
    conversation_id: str
    model: str
    mode: ModeName
    created: str
    status: Status
    documents: tuple[ResponseDocument, ...]
    usage: ResponseUsage
    metadata: ResponseMetadata


def response_of(turn: TurnState, state: SessionState, *, accepted: tuple[str, ...] = ()) -> Response:
    """The response object of a turn that has ended."""
    reason: Any = turn.reason or "interrupted"
    return Response(
        id=f"chat_{turn.id.partition('_')[2]}",
        conversation_id=f"conv_{state.id.partition('_')[2]}",
        model=turn.model,
        mode=turn.mode,
        created=_iso(turn.started),
        status="completed" if reason in {"done", "limit"} else "error",
        documents=_documents(turn),
        usage=_usage(turn.usage),
        metadata=ResponseMetadata(
            duration_ms=turn.duration_ms,
            tool_call_count=turn.tool_count,
            turn_count=turn.steps,
            stop_reason=reason,
            stop_message=turn.message,
            session_id=state.id,
            pending_changes=tuple(pending(change) for change in listed(state.changes)),
            pending_bulks=waiting_bulks(state),
            accepted_changes=accepted,
        ),
    )


def refusal(code: str, message: str, *, hint: str, model: str = "", mode: ModeName = "agent", at: int) -> Response:
    """The response object of a prompt that could not even begin."""
    problem = d.ErrorDocument(
        id="doc_001", sequence=1, content=message, metadata=d.ErrorMetadata(error_code=code.upper(), details=hint)
    )
    return Response(
        id="",
        conversation_id="",
        model=model,
        mode=mode,
        created=_iso(at),
        status="error",
        documents=(problem,),
        usage=_usage(Usage()),
        metadata=ResponseMetadata(
            duration_ms=0, tool_call_count=0, turn_count=0, stop_reason="failed", stop_message=message
        ),
    )


def pending(change: Change) -> PendingChange:
    return PendingChange(
        path=change.path,
        operation=change.operation,
        added=change.added,
        removed=change.removed,
        renamed_from=change.renamed_from,
        protected=change.protected,
        conflict=change.conflict,
    )


def waiting_bulks(state: SessionState) -> tuple[PendingBulk, ...]:
    """What waits for a verdict as a whole; not what git ignores."""
    bulks: tuple[Bulk, ...] = getattr(state.review, "bulks", ())
    return tuple(
        PendingBulk(
            root=each.root,
            kind=each.kind,
            files=each.files,
            bytes=each.bytes,
            deleted=each.deleted,
            conflict=each.conflict,
        )
        for each in bulks
        if each.waits
    )


def _documents(turn: TurnState) -> tuple[ResponseDocument, ...]:
    shown = [each for each in turn.finished_documents() if not isinstance(each, d.Reasoning)]
    return tuple(
        msgspec.structs.replace(document, id=f"doc_{number:03}", sequence=number)
        for number, document in enumerate(shown, 1)
    )


def _usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost=usage.cost,
    )


def _iso(at_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `Response`."""
    found = {"title": "agent-tui response", **msgspec.json.schema(Response)}
    _strict(found)
    return found


def _strict(node: object) -> None:
    """Close every record: it has exactly its fields, and the program always writes all of them.

    Descriptions come from docstrings, whose indentation is not the same in every version of Python.
    """
    if isinstance(node, dict):
        if isinstance(text := node.get("description"), str):
            node["description"] = inspect.cleandoc(text)
        fields = node.get("properties")
        if node.get("type") == "object" and isinstance(fields, dict):
            node["additionalProperties"] = False
            node["required"] = sorted(fields)
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            _strict(each)


def schema_text() -> str:
    """The schema as it stands in `docs/response.schema.json`."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
