"""The response object: one turn's documents with usage and metadata, in the names of the response specification.

`docs/response.schema.json` is generated from these records (`python -m core.transports.response`). Reasoning is not
part of an answer; the other documents are numbered without gaps.
"""

from __future__ import annotations

import datetime
import inspect
import json
import sys
from typing import TYPE_CHECKING, Any, Literal, Union, get_args

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.protocol import documents as d
from core.protocol.commands import Reject
from core.protocol.events import AsideAnswered, ModeName
from core.protocol.evidence import CheckEvidence
from core.protocol.messages import Usage
from core.protocol.renames import list_changes
from core.protocol.review import Change, Operation, Severity
from core.records import convert
from core.state.failure_excerpts import list_failure_lines
from core.state.proof import Word
from core.state.proof_text import ProofRow, list_proof_rows
from core.state.receipt import build_receipt
from core.state.session import SessionState, SubagentState, TurnState

if TYPE_CHECKING:
    ResponseDocument = d.Document
else:
    ResponseDocument = Union[(*(kind for kind in get_args(d.AnyDocument) if kind is not d.ReasoningDocument),)]
Status = Literal["completed", "streaming", "error"]
StopReason = Literal["done", "interrupted", "limit", "failed", "running"]


class ResponseUsage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens of all model calls of the turn; `cost` in US dollars, null when the price is not known, `estimated` by
    the price of a similar model."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    estimated: bool = False


class HunkReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The word of the project's check on a pending hunk, by the id of the hunk; `line`: its first one in the pending
    file. `text` and `detail`: the verdict in words; `stale`: a file that it depended on was edited since; `proven`: it
    may be accepted together with others that are; `claim`: what the agent wrote with the call that made it."""

    hunk: str
    line: int
    verdict: Word
    text: str
    detail: str = ""
    stale: bool = False
    proven: bool = False
    claim: str = ""


class PendingChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that waits for a verdict, with the lines it gains and loses. A rename is one: `renamed_from` is its old
    path, "" = it is none. `evidence`: of its hunks, as far as the check has looked into them."""

    path: str
    operation: Operation
    added: int
    removed: int
    renamed_from: str = ""
    protected: bool = False
    conflict: str = ""
    evidence: tuple[HunkReport, ...] = ()


class PendingBulk(Struct, frozen=True, kw_only=True, rename="camel"):
    """A state of git, or a file too large to be shown by its lines, that waits for one verdict as a whole."""

    root: str
    kind: Literal["generated", "git", "large"]
    files: int
    bytes: int
    deleted: int = 0
    conflict: str = ""


class CandidateCheck(Struct, frozen=True, kw_only=True, rename="camel"):
    """The command that all candidates were checked by, and its exit code for this one."""

    command: str
    exit_code: int


class ResponseCandidate(Struct, frozen=True, kw_only=True, rename="camel"):
    """One way that the prompt was tried (`--best`). `number`: as `/best` counts; `message`: why it did not end well;
    `text`: its last words; `check` is null when none of them ran a command to be checked by."""

    number: int
    model: str
    stop_reason: StopReason
    message: str = ""
    text: str = ""
    files: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    check: CandidateCheck | None = None
    cost: float | None = None


class ResponseFinding(Struct, frozen=True, kw_only=True, rename="camel"):
    """A finding of a code review, about lines of a file (1-indexed, inclusive; `path` "" = about no place). `doubt`:
    what is off about the place; `suggestion`: lines to stand there instead, null = there are none."""

    severity: Severity
    title: str
    text: str = ""
    path: str = ""
    start_line: int = 0
    end_line: int = 0
    suggestion: str | None = None
    doubt: str = ""


class ResponseCheck(Struct, frozen=True, kw_only=True, rename="camel"):
    """A command that checked what the turn did, as it ended last; `told`: the tests that it counted, "" = none;
    `excerpt`: of one that failed, the lines of its output that name what failed, else its last ones."""

    command: str
    exit_code: int
    told: str = ""
    excerpt: tuple[str, ...] = ()


class ResponseMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """`turn_count`: model calls. `stop_reason`: why the turn ended; `stop_message` says more where there is more.

    `pending_changes` and `pending_bulks` wait for a review (`agent-tui -c`); `accepted_changes` were written to the
    workspace at the end. `checks`: tests, builds and linters that ran; `findings`: those of a code review, null = it
    was none. `candidates`: the ways in which it was tried, of which nothing is taken yet. `waits_for`: ids of approvals
    and questions that are open. `structured_output`: the answer as a JSON value that is valid under the schema that was
    asked for. `proof`: what is known of the check that the evidence comes from, null = it was not asked.
    """

    duration_ms: int = field(name="duration_ms")
    tool_call_count: int
    turn_count: int
    stop_reason: StopReason
    stop_message: str = ""
    session_id: str = ""
    pending_changes: tuple[PendingChange, ...] = ()
    pending_bulks: tuple[PendingBulk, ...] = ()
    accepted_changes: tuple[str, ...] = ()
    checks: tuple[ResponseCheck, ...] = ()
    findings: tuple[ResponseFinding, ...] | None = None
    candidates: tuple[ResponseCandidate, ...] = ()
    structured_output: Any = None
    waits_for: tuple[str, ...] = ()
    proof: CheckEvidence | None = None


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


def build_response(turn: TurnState, state: SessionState, *, accepted_changes: tuple[str, ...] = ()) -> Response:
    """Return the response object of a turn, which may still be running."""
    reason: Any = turn.reason or "running"
    status: Status = "streaming" if reason == "running" else "completed"
    return Response(
        id=f"chat_{turn.id.partition('_')[2]}",
        conversation_id=f"conv_{state.session_id.partition('_')[2]}",
        model=turn.model,
        mode=turn.mode,
        created=_format_time(turn.started),
        status="error" if reason in {"failed", "interrupted"} else status,
        documents=_number_documents(turn),
        usage=_to_usage(turn.usage),
        metadata=ResponseMetadata(
            duration_ms=turn.duration_ms,
            tool_call_count=turn.tool_count,
            turn_count=turn.steps,
            stop_reason=reason,
            stop_message=turn.message,
            session_id=state.session_id,
            pending_changes=list_pending_changes(state),
            pending_bulks=list_pending_bulks(state),
            accepted_changes=accepted_changes,
            checks=_list_checks(turn, state),
            findings=_list_findings(turn, state),
            candidates=_list_candidates(turn, state),
            waits_for=(*state.approvals, *state.questions),
            proof=state.review.proof.check,
        ),
    )


def _list_checks(turn: TurnState, state: SessionState) -> tuple[ResponseCheck, ...]:
    runs = {
        document.metadata.tool_call_id: document.metadata
        for document in turn.list_finished_documents()
        if isinstance(document, d.TerminalCommandDocument)
    }
    return tuple(
        ResponseCheck(
            command=name,
            exit_code=run.exit_code,
            told=run.told,
            excerpt=list_failure_lines(runs[run.call].output) if run.exit_code and run.call in runs else (),
        )
        for name, run in build_receipt(state, turn).checks
    )


def _list_findings(turn: TurnState, state: SessionState) -> tuple[ResponseFinding, ...] | None:
    review = state.review.code_review
    if review is None or review.turn != turn.id:
        return None
    return tuple(
        ResponseFinding(
            severity=finding.severity,
            title=finding.title,
            text=finding.text,
            path=finding.path,
            start_line=finding.start,
            end_line=finding.end,
            suggestion=finding.suggestion,
            doubt=finding.doubt,
        )
        for finding in review.findings
    )


def build_aside_response(event: AsideAnswered, state: SessionState, *, timestamp: int) -> Response:
    """Return the response object of a side question, which is no turn."""
    documents = list[d.AnyDocument]()
    if event.text:
        documents.append(d.TextDocument(id="doc_001", sequence=1, content=event.text))
    if event.problem:
        error = d.ErrorMetadata(error_code="ASIDE_FAILED")
        number = len(documents) + 1
        documents.append(d.ErrorDocument(id=f"doc_{number:03}", sequence=number, content=event.problem, metadata=error))
    return Response(
        id=event.id,
        conversation_id=f"conv_{state.session_id.partition('_')[2]}",
        model=event.model or state.model,
        mode=state.mode,
        created=_format_time(timestamp),
        status="error" if event.problem else "completed",
        documents=tuple(documents),
        usage=_to_usage(event.usage),
        metadata=ResponseMetadata(
            duration_ms=0,
            tool_call_count=0,
            turn_count=1,
            stop_reason="failed" if event.problem else "done",
            stop_message=event.problem,
            session_id=state.session_id,
            pending_changes=list_pending_changes(state),
            pending_bulks=list_pending_bulks(state),
            waits_for=(*state.approvals, *state.questions),
        ),
    )


def build_refusal(reply: Reject, *, model: str = "", mode: ModeName = "agent", timestamp: int) -> Response:
    """Return the response object of a prompt that was rejected."""
    error_metadata = d.ErrorMetadata(error_code=reply.code.upper(), details=reply.hint)
    problem = d.ErrorDocument(id="doc_001", sequence=1, content=reply.message, metadata=error_metadata)
    return Response(
        id="",
        conversation_id="",
        model=model,
        mode=mode,
        created=_format_time(timestamp),
        status="error",
        documents=(problem,),
        usage=_to_usage(Usage()),
        metadata=ResponseMetadata(
            duration_ms=0, tool_call_count=0, turn_count=0, stop_reason="failed", stop_message=reply.message
        ),
    )


def list_pending_changes(state: SessionState) -> tuple[PendingChange, ...]:
    """Return the changes that wait for a verdict, a rename as one. A rule that denies writing a file counts as a
    conflict."""
    waiting = [
        replace(change, conflict=change.obstacle) if change.is_denied else change
        for change in list_changes(state.changes)
    ]
    pending = convert(waiting, tuple[PendingChange, ...], from_attributes=True)
    return tuple(
        replace(row, evidence=list_reports(state, change)) for row, change in zip(pending, waiting, strict=True)
    )


def list_reports(state: SessionState, change: Change) -> tuple[HunkReport, ...]:
    """Return what is known of the hunks of a pending change."""
    return tuple(build_report(state, row) for row in list_proof_rows(state.review.proof, [change]))


def build_report(state: SessionState, row: ProofRow) -> HunkReport:
    """Build the report of one hunk."""
    return HunkReport(
        hunk=row.hunk.id,
        line=row.hunk.new_start,
        verdict=row.judgement.word,
        text=row.judgement.text,
        detail=row.judgement.detail,
        stale=row.judgement.is_stale,
        proven=row.judgement.is_proven,
        claim=state.review.proof.hunks[row.change.path, row.hunk.id].claim,
    )


def list_pending_bulks(state: SessionState) -> tuple[PendingBulk, ...]:
    """Return the bulks that wait for one verdict as a whole; ignored files are not among them."""
    waiting = [bulk for bulk in state.review.bulks if bulk.needs_verdict]
    return convert(waiting, tuple[PendingBulk, ...], from_attributes=True)


def _list_candidates(turn: TurnState, state: SessionState) -> tuple[ResponseCandidate, ...]:
    """Return the candidates of a turn in the order of `/best`."""
    candidates = [subagent for subagent in state.subagents.values() if subagent.candidate_of == turn.id]
    return tuple(_build_candidate(subagent, number) for number, subagent in enumerate(candidates, 1))


def _build_candidate(subagent: SubagentState, number: int) -> ResponseCandidate:
    files = subagent.rating.files if subagent.rating is not None else ()
    check = subagent.rating.check if subagent.rating is not None else None
    return ResponseCandidate(
        number=number,
        model=subagent.model,
        stop_reason=subagent.reason,
        message=subagent.message,
        text=subagent.said,
        files=tuple(file.path for file in files),
        added=sum(file.added for file in files),
        removed=sum(file.removed for file in files),
        check=CandidateCheck(command=check.command, exit_code=check.exit_code) if check is not None else None,
        cost=subagent.usage.cost,
    )


def _number_documents(turn: TurnState) -> tuple[ResponseDocument, ...]:
    documents = [
        document for document in turn.list_finished_documents() if not isinstance(document, d.ReasoningDocument)
    ]
    return tuple(
        msgspec.structs.replace(document, id=f"doc_{number:03}", sequence=number)
        for number, document in enumerate(documents, 1)
    )


def _to_usage(usage: Usage) -> ResponseUsage:
    counts = {name: getattr(usage, name) for name in ResponseUsage.__struct_fields__ if name != "total_tokens"}
    return ResponseUsage(**counts, total_tokens=usage.prompt_tokens + usage.completion_tokens)


def _format_time(at_ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of `Response`."""
    schema = {"title": "agent-tui response", **msgspec.json.schema(Response)}
    close_records(schema)
    return schema


def close_records(node: object, *, is_required: bool = True, is_closed: bool = True) -> None:
    """Close every record of a schema: with `is_closed` no other field is allowed, with `is_required` all fields are
    present.

    Descriptions come from docstrings, whose indentation differs between versions of Python.
    """
    if isinstance(node, dict):
        if isinstance(text := node.get("description"), str):
            node["description"] = inspect.cleandoc(text)
        fields = node.get("properties")
        if node.get("type") == "object" and isinstance(fields, dict):
            if is_closed:
                node["additionalProperties"] = False
            if is_required:
                node["required"] = sorted(fields)
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            close_records(child, is_required=is_required, is_closed=is_closed)


def format_schema() -> str:
    """Return the content of `docs/response.schema.json`."""
    return json.dumps(build_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(format_schema())
