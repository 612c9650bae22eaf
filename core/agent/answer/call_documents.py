"""Documents of tool calls: their kind, and their content when the call has finished.

A call that edited several files has one document per file; a failed call has a second document with the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.documents import OpenDocument, TurnDocuments
from core.languages import detect_language
from core.modes import Access
from core.permissions.approval import list_requested
from core.protocol.documents import (
    AnyDocument,
    ClarificationDocument,
    ClarificationMetadata,
    FileEditDiff,
    FileEditDocument,
    FileEditMetadata,
    FileOperation,
    Plan,
    PlanDocument,
    PlanMetadata,
    Question,
    QuestionAnswer,
    ResultAttachment,
    TerminalCommandDocument,
    TerminalCommandMetadata,
    TodoUpdateDocument,
    TodoUpdateMetadata,
    ToolCallDocument,
    ToolCallMetadata,
    ToolResult,
)
from core.protocol.messages import Attachment
from core.protocol.review import Hunk
from core.records import parse_json
from core.shadow.content.blob_store import get_blob_path
from core.shadow.diff.hunks import compare_texts
from core.shadow.diff.text_lines import split_lines
from core.shadow.review.proposals import ShadowEdit
from core.shell.long_output import shorten_middle
from core.tools.base import Detail, FileEditDetail, FileEditDetails, TerminalDetail, ToolType

MAX_CONTENT = 200_000  # characters of an edit's content
MAX_SHOWN = 16_000  # characters of a result in the document; the model gets a longer text
MAX_MESSAGE = 1_000  # characters of the first line of an error

_KINDS = {
    Access.PROPOSE: "file_edit",
    Access.EXEC: "terminal_command",
    Access.PLAN: "plan",
    Access.TODO: "todo_update",
}


class FinishedCall(Struct, frozen=True, kw_only=True):
    """A finished call. `arguments`: the model's, parsed as far as possible; `text`: the result for the model; `root`:
    the workspace, "" = not known; `paths`: the files that the call names; `error_code`: "" = it succeeded;
    `error_hint`: the end of `text` that says what to do."""

    document: OpenDocument
    tool: str
    call: str
    arguments: dict[str, Any]
    has_succeeded: bool
    text: str
    summary: str
    duration_ms: int
    detail: Detail = None
    attachments: tuple[Attachment, ...] = ()
    title: str = ""
    questions: tuple[Question, ...] = ()
    answers: tuple[QuestionAnswer, ...] = ()
    root: str = ""
    paths: tuple[str, ...] = ()
    error_code: str = ""
    error_hint: str = ""


def get_document_kind(tool: ToolType | None) -> str:
    """Return the kind of document for calls of a tool, None = an unknown tool."""
    if tool is None:
        return "tool_call"
    if tool.name == "ask_question":
        return "clarification"
    if tool.name == "write_terminal":
        return "tool_call"
    return _KINDS.get(tool.access, "tool_call")


def decode_arguments(arguments: str) -> dict[str, Any]:
    """Parse arguments into an object for the document; text that is no JSON object becomes the value of `raw`."""
    try:
        value = parse_json(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"raw": shorten_middle(arguments, MAX_SHOWN)}


def finish_call_documents(documents: TurnDocuments, finished_call: FinishedCall) -> None:
    """Finish the document of a call, and add one for every further edited file, or for its error."""
    documents.finish(build_document(finished_call))
    if isinstance(finished_call.detail, FileEditDetails):
        for edit in finished_call.detail.edits[1:]:
            document = documents.open("file_edit", title=edit.path, language=detect_language(edit.path))
            documents.finish(build_document(replace(finished_call, document=document, detail=edit)))
    if finished_call.error_code:
        _add_error(documents, finished_call)


def _add_error(documents: TurnDocuments, finished_call: FinishedCall) -> None:
    message, _, remainder = finished_call.text.removesuffix(finished_call.error_hint).strip().partition("\n")
    details = "\n".join(filter(None, (remainder.strip(), finished_call.error_hint))) or ", ".join(finished_call.paths)
    documents.add_error(
        finished_call.error_code,
        shorten_middle(message, MAX_MESSAGE),
        hint=shorten_middle(details, MAX_SHOWN),
        source=finished_call.tool,
        call=finished_call.call,
    )


def build_document(finished_call: FinishedCall) -> AnyDocument:
    """Build the finished document, that of the first file if the call edited several.

    A failed call becomes a `tool_call` with its error, so that a document of an edit, a plan or todos is always one of
    something that was done. A failed command keeps its kind: that of one that ran ended somehow, too."""
    id_, sequence = finished_call.document.id, finished_call.document.sequence
    match finished_call.detail:
        case FileEditDetail() as edit:
            return _build_edit_document(finished_call, edit)
        case FileEditDetails(edits=edits):
            return _build_edit_document(finished_call, edits[0])
        case TerminalDetail() as terminal:
            return _build_terminal_document(finished_call, terminal)
        case Plan() as plan:
            metadata = PlanMetadata(title=plan.name, overview=plan.overview, todos=plan.todos, path=plan.path)
            return PlanDocument(id=id_, sequence=sequence, content=plan.body, metadata=metadata)
        case tuple() as marks:
            return TodoUpdateDocument(id=id_, sequence=sequence, metadata=TodoUpdateMetadata(todos=marks))
        case None:
            return _build_plain_document(finished_call)


def _build_plain_document(finished_call: FinishedCall) -> AnyDocument:
    id_, sequence = finished_call.document.id, finished_call.document.sequence
    if finished_call.questions:
        metadata = ClarificationMetadata(questions=finished_call.questions, answers=finished_call.answers)
        return ClarificationDocument(id=id_, sequence=sequence, content=finished_call.title or None, metadata=metadata)
    if finished_call.document.kind == "terminal_command" and not finished_call.has_succeeded:
        command = str(finished_call.arguments.get("command") or finished_call.arguments.get("code") or "")
        required_permissions = finished_call.arguments.get("required_permissions")
        requested_permissions = list_requested(required_permissions if isinstance(required_permissions, list) else ())
        terminal = TerminalDetail(
            command=command, directory=".", exit_code=None, output=finished_call.text, requested=requested_permissions
        )
        return _build_terminal_document(finished_call, terminal)
    result = ToolResult(
        status="success" if finished_call.has_succeeded else "error", data=shorten_middle(finished_call.text, MAX_SHOWN)
    )
    return ToolCallDocument(
        id=id_,
        sequence=sequence,
        metadata=ToolCallMetadata(
            tool_name=finished_call.tool,
            tool_call_id=finished_call.call,
            arguments=finished_call.arguments,
            result=result,
            attachments=tuple(map(_build_result_attachment, finished_call.attachments)),
            duration_ms=finished_call.duration_ms,
            summary=finished_call.summary,
        ),
    )


def _build_result_attachment(attachment: Attachment) -> ResultAttachment:
    return ResultAttachment(
        path=f"blobs/{get_blob_path(attachment.digest)}",
        media_type=attachment.media_type,
        name=attachment.name,
        size=attachment.size,
        width=attachment.width,
        height=attachment.height,
        pages=attachment.pages,
    )


def _build_edit_document(finished_call: FinishedCall, edit: FileEditDetail) -> FileEditDocument:
    metadata = FileEditMetadata(
        file_path=edit.path,
        operation=edit.operation,
        renamed_from=edit.renamed_from,
        language=detect_language(edit.path),
        diff=_limit_diff(edit.diff),
        tool_name=finished_call.tool,
        tool_call_id=finished_call.call,
        status="success" if finished_call.has_succeeded else "error",
        added=edit.added,
        removed=edit.removed,
    )
    document = finished_call.document
    return FileEditDocument(id=document.id, sequence=document.sequence, content=edit.content, metadata=metadata)


def _build_diff(hunks: Sequence[Hunk], old_lines: Sequence[bytes], new_lines: Sequence[bytes]) -> FileEditDiff:
    """Return the replaced region. A pure insertion takes in the line before it, or else the one behind it, so that
    replacing the lines by their numbers loses nothing."""
    first, last = hunks[0], hunks[-1]
    start, end = first.old_start - 1, last.old_start - 1 + last.old_lines
    new_start, new_end = first.new_start - 1, last.new_start - 1 + last.new_lines
    if start >= end:
        before = 1 if start and new_start else 0
        behind = 0 if before or end >= len(old_lines) else 1
        start, new_start, end, new_end = start - before, new_start - before, end + behind, new_end + behind
    return FileEditDiff(
        old_string=b"".join(old_lines[start:end]).decode("utf-8", "replace"),
        new_string=b"".join(new_lines[new_start:new_end]).decode("utf-8", "replace"),
        start_line=start + 1,
        end_line=max(end, start + 1),
    )


def _limit_diff(diff: FileEditDiff | None) -> FileEditDiff | None:
    """Return the diff, None = it is too long: a shortened one would lose lines when it is applied."""
    return None if diff is None or len(diff.old_string) + len(diff.new_string) > MAX_SHOWN * 4 else diff


def _build_terminal_document(finished_call: FinishedCall, terminal: TerminalDetail) -> TerminalCommandDocument:
    metadata = TerminalCommandMetadata(
        command=terminal.command,
        working_directory=str(PurePosixPath(finished_call.root) / terminal.directory) if finished_call.root else "",
        exit_code=terminal.exit_code,
        output=shorten_middle(terminal.output, MAX_SHOWN),
        duration_ms=finished_call.duration_ms,
        effects=terminal.effects,
        tests=terminal.tests,
        permissions=terminal.permissions,
        requested_permissions=terminal.requested,
        tool_call_id=finished_call.call,
    )
    return TerminalCommandDocument(
        id=finished_call.document.id, sequence=finished_call.document.sequence, metadata=metadata
    )


def build_edit_detail(path: str, edit: ShadowEdit) -> FileEditDetail:
    """Build the detail of an edit from its hunks. Binary content is replaced by its size."""
    before, after = edit.before or b"", edit.after or b""
    operation: FileOperation = "create" if edit.before is None else "delete" if edit.after is None else "edit"
    return _build_detail(FileEditDetail(path=path, operation=operation, content="", hunks=edit.hunks), before, after)


def build_rename_detail(old: str, new: str, before: bytes, after: bytes) -> FileEditDetail:
    """Build the detail of a rename, with the changes in the content of the file."""
    hunks = compare_texts(before, after)
    detail = FileEditDetail(path=new, operation="rename", content="", renamed_from=old, hunks=hunks)
    return _build_detail(detail, before, after)


def _build_detail(edit: FileEditDetail, before: bytes, after: bytes) -> FileEditDetail:
    """Return the detail with content, diff and counts of lines."""
    if b"\0" in before[:8192] or b"\0" in after[:8192]:
        return replace(edit, content=f"[binary, {len(after):,} bytes]", hunks=())
    diff = None
    if edit.operation in {"edit", "rename"} and edit.hunks:  # one region from the first hunk to the last
        diff = _build_diff(edit.hunks, split_lines(before), split_lines(after))
    return replace(
        edit,
        content=(diff.new_string if diff else after.decode("utf-8", "replace"))[:MAX_CONTENT],
        diff=diff,
        added=sum(hunk.new_lines for hunk in edit.hunks),
        removed=sum(hunk.old_lines for hunk in edit.hunks),
    )
