"""Documents: the parts of an answer, as the chat pane shows them and the API returns them.

JSON names follow the response specification (camelCase, `duration_ms`), Python names are snake_case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Union

from msgspec import Struct, field

from core.ids import Id, OptionalId
from core.protocol.messages import Effort

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]
FileOperation = Literal["create", "edit", "delete", "rename"]


class DocumentMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all metadata: fixes the JSON naming."""


class TextMetadata(DocumentMetadata, frozen=True, kw_only=True):
    """`about`: the document of the call that the text is about, "" = of none; a client can lead there."""

    format: Literal["markdown", "plain"] = "markdown"
    about: OptionalId = ""


class ReasoningMetadata(DocumentMetadata, frozen=True, kw_only=True):
    duration_ms: int = field(default=0, name="duration_ms")


class CodeReferenceMetadata(DocumentMetadata, frozen=True, kw_only=True):
    """Lines of a file, those where the quoted text is. `doubt`: what is off about them, "" = the text is there, or the
    file can't be read."""

    file_path: str
    start_line: int
    end_line: int
    language: str = ""
    doubt: str = ""


class CodeBlockMetadata(DocumentMetadata, frozen=True, kw_only=True):
    language: str = ""
    purpose: Literal["new_code", "example", "suggestion"] = "example"


class FileEditDiff(DocumentMetadata, frozen=True, kw_only=True):
    """The replaced region of a file: lines are 1-indexed and inclusive, in the file before the edit."""

    old_string: str
    new_string: str
    start_line: int
    end_line: int


class FileEditMetadata(DocumentMetadata, frozen=True, kw_only=True):
    """One file of an edit. `renamed_from`: its old path if the operation is a rename, "" = it is none; what else was
    changed in it meanwhile is its `diff`."""

    file_path: str
    operation: FileOperation
    renamed_from: str = ""
    language: str = ""
    diff: FileEditDiff | None = None
    tool_name: str = ""
    tool_call_id: str = ""
    status: Literal["success", "error"] = "success"
    added: int = 0
    removed: int = 0


class ToolResult(DocumentMetadata, frozen=True, kw_only=True):
    status: Literal["success", "error"]
    data: Any = None


class ResultAttachment(DocumentMetadata, frozen=True, kw_only=True):
    """A picture or PDF that came with a result. `path`: its bytes, below the directory of the session. Units: see
    `Attachment`."""

    path: str
    media_type: str
    name: str = ""
    size: int = 0
    width: int = 0
    height: int = 0
    pages: int = 0


class ToolCallMetadata(DocumentMetadata, frozen=True, kw_only=True):
    tool_name: str
    tool_call_id: str
    arguments: dict[str, Any]
    result: ToolResult | None = None
    attachments: tuple[ResultAttachment, ...] = ()
    duration_ms: int = field(default=0, name="duration_ms")
    summary: str = ""


class TerminalCommandMetadata(DocumentMetadata, frozen=True, kw_only=True):
    """`exit_code` is None when the command did not run (refused), was stopped before it ended, or goes on.

    `effects` says in one line what it changed. `permissions`: what it was granted beside running, asked for
    (`requested_permissions`) or not: "network", "git_write", a service, "all". `working_directory` is absolute.
    `tests`: what tests it counted, if it is a check that ran here (`12 passed`). `is_reported`: an agent of others
    told of it; how it ended and what it printed is that agent's word.
    """

    command: str
    working_directory: str = ""
    exit_code: int | None = None
    output: str = ""
    duration_ms: int = field(default=0, name="duration_ms")
    permissions: tuple[str, ...] = ()
    requested_permissions: tuple[str, ...] = ()
    tool_call_id: str = ""
    effects: str = ""
    tests: str = ""
    is_reported: bool = False


class Todo(Struct, frozen=True, kw_only=True):
    """`verify`: a command that has to pass in the shadow before the todo is completed ("" = none). `model`, `effort`:
    who is to do it, and how much it is to think ("" = as is usual)."""

    id: str
    content: str
    status: TodoStatus = "pending"
    dependencies: tuple[str, ...] = ()
    verify: str = ""
    model: str = ""
    effort: Effort | Literal[""] = ""


class TodoStatusUpdate(Struct, frozen=True, kw_only=True):
    id: str
    status: TodoStatus


class PlanMetadata(DocumentMetadata, frozen=True, kw_only=True):
    title: str
    overview: str
    todos: tuple[Todo, ...] = ()
    format: Literal["markdown"] = "markdown"
    path: str = ""


class Option(Struct, frozen=True, kw_only=True):
    """One answer to choose. `recommended`: the choice of the one who asks."""

    id: str
    label: str
    recommended: bool = False


class Question(Struct, frozen=True, kw_only=True):
    """`allow_multiple`: several options may be chosen. Free text is always possible. `header`: a word or two for its
    tab, "" = none was given."""

    id: str
    text: str
    options: tuple[Option, ...] = ()
    allow_multiple: bool = False
    header: str = ""


class ClarificationMetadata(DocumentMetadata, frozen=True, kw_only=True):
    questions: tuple[Question, ...]
    answers: tuple[QuestionAnswer, ...] = ()


class QuestionAnswer(Struct, frozen=True, kw_only=True):
    question: str
    options: tuple[str, ...] = ()
    text: str = ""


class ErrorMetadata(DocumentMetadata, frozen=True, kw_only=True):
    """`source`: the tool that failed, in the call `tool_call_id`, whose own document stands before this one. Both are
    "" for what was no call."""

    error_code: str
    source: str = ""
    details: str = ""
    tool_call_id: str = ""


class TodoUpdateMetadata(DocumentMetadata, frozen=True, kw_only=True):
    todos: tuple[TodoStatusUpdate, ...]


class Document(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all documents. `sequence` counts from 1 within a turn."""

    id: Id
    sequence: int
    content: str | None = None


class TextDocument(Document, frozen=True, kw_only=True, tag="text"):
    metadata: TextMetadata = TextMetadata()


class ReasoningDocument(Document, frozen=True, kw_only=True, tag="reasoning"):
    metadata: ReasoningMetadata = ReasoningMetadata()


class CodeReferenceDocument(Document, frozen=True, kw_only=True, tag="code_reference"):
    metadata: CodeReferenceMetadata


class CodeBlockDocument(Document, frozen=True, kw_only=True, tag="code_block"):
    metadata: CodeBlockMetadata = CodeBlockMetadata()


class FileEditDocument(Document, frozen=True, kw_only=True, tag="file_edit"):
    metadata: FileEditMetadata


class ToolCallDocument(Document, frozen=True, kw_only=True, tag="tool_call"):
    metadata: ToolCallMetadata


class TerminalCommandDocument(Document, frozen=True, kw_only=True, tag="terminal_command"):
    metadata: TerminalCommandMetadata


class PlanDocument(Document, frozen=True, kw_only=True, tag="plan"):
    metadata: PlanMetadata


class ClarificationDocument(Document, frozen=True, kw_only=True, tag="clarification"):
    metadata: ClarificationMetadata


class ErrorDocument(Document, frozen=True, kw_only=True, tag="error"):
    metadata: ErrorMetadata


class TodoUpdateDocument(Document, frozen=True, kw_only=True, tag="todo_update"):
    metadata: TodoUpdateMetadata


class Plan(Struct, frozen=True, kw_only=True):
    """`path` is workspace-relative; `body` is the Markdown after the front matter."""

    path: str
    name: str
    overview: str = ""
    body: str = ""
    todos: tuple[Todo, ...] = ()


if TYPE_CHECKING:
    AnyDocument = Document
else:  # Every document can be decoded.
    AnyDocument = Union[(*Document.__subclasses__(),)]
