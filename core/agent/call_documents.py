"""What a tool call becomes in the chat: which kind of document shows it, and what it holds at its end."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from core.agent.documents import Opened
from core.languages import language_of
from core.modes import Access
from core.protocol.documents import (
    AnyDocument,
    Clarification,
    ClarificationMetadata,
    Diff,
    FileEdit,
    FileEditMetadata,
    FileOperation,
    PlanDocument,
    PlanMetadata,
    Question,
    QuestionAnswer,
    TerminalCommand,
    TerminalCommandMetadata,
    TodoUpdate,
    TodoUpdateMetadata,
    ToolCallDocument,
    ToolCallMetadata,
    ToolResult,
)
from core.protocol.plans import Plan
from core.tools.base import Detail, FileEditDetail, TerminalDetail, ToolType

MAX_SHOWN = 16_000  # characters of a result in the document; the model is sent its own, longer text

_KINDS = {
    Access.PROPOSE: "file_edit",
    Access.EXEC: "terminal_command",
    Access.PLAN: "plan",
    Access.TODO: "todo_update",
}
_OPERATIONS: dict[str, FileOperation] = {"write": "create", "delete_file": "delete"}


class Ended(Struct, frozen=True, kw_only=True):
    """A call that is over. `arguments` are the model's, parsed as far as they can be; `text` is the answer to it."""

    opened: Opened
    tool: str
    call: str
    arguments: dict[str, Any]
    succeeded: bool
    text: str
    summary: str
    duration_ms: int
    detail: Detail = None
    title: str = ""
    questions: tuple[Question, ...] = ()
    answers: tuple[QuestionAnswer, ...] = ()


def kind_of(tool: ToolType | None) -> str:
    """The kind of document that shows a call of this tool (None: there is no such tool)."""
    if tool is None:
        return "tool_call"
    if tool.name == "ask_question":
        return "clarification"
    if tool.name == "write_terminal":
        return "tool_call"
    return _KINDS.get(tool.access, "tool_call")


def decoded(arguments: str) -> dict[str, Any]:
    """The arguments as an object for the document; what is none is shown as text under `raw`."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"raw": shortened(arguments)}


def shortened(text: str) -> str:
    if len(text) <= MAX_SHOWN:
        return text
    head, tail = MAX_SHOWN * 2 // 3, MAX_SHOWN // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters …]\n{text[-tail:]}"


def document_of(ended: Ended) -> AnyDocument:
    """The finished document. A failed call keeps its kind where that kind can say so, else it is a `tool_call`."""
    id_, sequence = ended.opened.id, ended.opened.sequence
    match ended.detail:
        case FileEditDetail() as edit:
            return FileEdit(id=id_, sequence=sequence, content=edit.content, metadata=_edit_metadata(ended, edit))
        case TerminalDetail() as terminal:
            return TerminalCommand(id=id_, sequence=sequence, metadata=_terminal_metadata(ended, terminal))
        case Plan() as plan:
            metadata = PlanMetadata(title=plan.name, overview=plan.overview, todos=plan.todos, path=plan.path)
            return PlanDocument(id=id_, sequence=sequence, content=plan.body, metadata=metadata)
        case tuple() as marks:
            return TodoUpdate(id=id_, sequence=sequence, metadata=TodoUpdateMetadata(todos=marks))
        case None:
            return _plain(ended)


def _plain(ended: Ended) -> AnyDocument:
    id_, sequence = ended.opened.id, ended.opened.sequence
    if ended.questions:
        asked = ClarificationMetadata(questions=ended.questions, answers=ended.answers)
        return Clarification(id=id_, sequence=sequence, content=ended.title or None, metadata=asked)
    if ended.opened.kind == "file_edit" and not ended.succeeded:
        return FileEdit(id=id_, sequence=sequence, content=ended.text, metadata=_failed_edit(ended))
    if ended.opened.kind == "terminal_command" and not ended.succeeded:
        command = str(ended.arguments.get("command", ""))
        terminal = TerminalDetail(command=command, directory=".", exit_code=None, output=ended.text)
        return TerminalCommand(id=id_, sequence=sequence, metadata=_terminal_metadata(ended, terminal))
    result = ToolResult(status="success" if ended.succeeded else "error", data=shortened(ended.text))
    return ToolCallDocument(
        id=id_,
        sequence=sequence,
        metadata=ToolCallMetadata(
            tool_name=ended.tool,
            tool_call_id=ended.call,
            arguments=ended.arguments,
            result=result,
            duration_ms=ended.duration_ms,
            summary=ended.summary,
        ),
    )


def _edit_metadata(ended: Ended, edit: FileEditDetail) -> FileEditMetadata:
    return FileEditMetadata(
        file_path=edit.path,
        operation=edit.operation,
        language=language_of(edit.path),
        diff=_bounded(edit.diff),
        tool_name=ended.tool,
        tool_call_id=ended.call,
        status="success" if ended.succeeded else "error",
        added=edit.added,
        removed=edit.removed,
    )


def _bounded(diff: Diff | None) -> Diff | None:
    if diff is None or len(diff.old_string) + len(diff.new_string) <= MAX_SHOWN * 4:
        return diff
    return Diff(
        old_string=shortened(diff.old_string),
        new_string=shortened(diff.new_string),
        start_line=diff.start_line,
        end_line=diff.end_line,
    )


def _failed_edit(ended: Ended) -> FileEditMetadata:
    named = (ended.arguments.get(key) for key in ("file_path", "target_file", "path"))
    path = next((str(value) for value in named if value), "")
    return FileEditMetadata(
        file_path=path,
        operation=_OPERATIONS.get(ended.tool, "edit"),
        language=language_of(path),
        tool_name=ended.tool,
        tool_call_id=ended.call,
        status="error",
    )


def _terminal_metadata(ended: Ended, terminal: TerminalDetail) -> TerminalCommandMetadata:
    return TerminalCommandMetadata(
        command=terminal.command,
        working_directory=terminal.directory,
        exit_code=terminal.exit_code,
        output=shortened(terminal.output),
        duration_ms=ended.duration_ms,
        effects=terminal.effects,
        tool_call_id=ended.call,
    )
