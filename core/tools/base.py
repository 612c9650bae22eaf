"""The base of tools: a record whose fields are its arguments, one Access, and the capability that goes with it.

A tool never sees the engine, the log or the workspace object: `run` is given the one capability of its Access, so a
READ tool has nothing in its hands that could write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct

from core.attachments.preparation import PreparedAttachment
from core.modes import Access
from core.plans.todo_changes import TodoChange
from core.protocol.documents import FileEditDiff, FileOperation, Plan, Question, QuestionAnswer, Todo, TodoStatusUpdate
from core.protocol.events import DiagnosticsReported
from core.protocol.language import Place
from core.protocol.queries import SearchAnswer, SearchQuery
from core.protocol.review import Hunk
from core.sandbox.results import CommandResult, JobReport
from core.tools.linters import LintJob
from core.workspace import DirectoryEntry, PathStat

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind, NamePosition
    from core.web.search import WebQuery


class FileEditDetail(Struct, frozen=True, kw_only=True):
    """One file that a PROPOSE tool edited, for its `file_edit` document; `hunks` are those of the edit, where it is of
    text. `renamed_from`: its old path, for the operation "rename"."""

    path: str
    operation: FileOperation
    content: str
    renamed_from: str = ""
    diff: FileEditDiff | None = None
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0


class FileEditDetails(Struct, frozen=True):
    """The files that one call edited, in the order in which it names them: two at least."""

    edits: tuple[FileEditDetail, ...]


class TerminalDetail(Struct, frozen=True, kw_only=True):
    command: str
    directory: str
    exit_code: int | None
    output: str
    timed_out: bool = False
    effects: str = ""
    tests: str = ""
    permissions: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()


Detail = FileEditDetail | FileEditDetails | TerminalDetail | Plan | tuple[TodoStatusUpdate, ...] | None


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """`content` goes to the model; `summary` is one short line for the user ("214 lines"); `detail` feeds the document.

    `failed`: the call ran but did not reach its aim (a command that exits non-zero is not a failure of the tool).
    `spilled` names the file in which the whole of a clipped output is kept; `attachments` go to the model with it.
    """

    content: str
    summary: str = ""
    detail: Detail = None
    failed: bool = False
    spilled: str = ""
    attachments: tuple[PreparedAttachment, ...] = ()


Capability_contra = TypeVar("Capability_contra", contravariant=True)


class Tool(Struct, Generic[Capability_contra], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tools; its text is `core/prompts/tools/<name>.md`. Raises `ToolInputInvalid`, `ToolFailed`."""

    name: ClassVar[str]
    access: ClassVar[Access]
    # Other names that models use for an argument, by the name it has here.
    argument_names: ClassVar[Mapping[str, str]] = {}
    # Arguments that models know from other agents' tools of this kind, and that change nothing here.
    ignored_arguments: ClassVar[frozenset[str]] = frozenset()
    # The one argument that a model may write as free text, "" = none.
    freeform: ClassVar[str] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with those that other agents' tools take in another form in the form of this one.

        What is not understood stays as given, for the check to refuse it. Raises `ToolInputInvalid`.
        """
        return arguments

    async def run(self, capability: Capability_contra) -> ToolOutcome:
        raise NotImplementedError

    def subject(self) -> str:
        """One line that tells the user what this call is about: a path, a pattern, a command."""
        raise NotImplementedError

    def paths(self) -> tuple[str, ...]:
        """The files that this call names, as the model wrote them: those that a rule or the user is asked about."""
        return ()


class LintRun(Struct, frozen=True, kw_only=True):
    """A linter that was run. `exit_code` None: it was stopped, and `ended` says why."""

    exit_code: int | None
    output: str
    ended: str = "exited"


class FetchedRules(Struct, frozen=True, kw_only=True):
    """The rules that were asked for: their `texts` as the model is sent them, the `paths` of those that were found, the
    names that are `unknown`, and those that are `known`."""

    texts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class SkillRequest(Struct, frozen=True):
    """The wish for a skill's text, with words for it, or for a `file` of its folder."""

    name: str
    arguments: str = ""
    file: str = ""


class SkillText(Struct, frozen=True, kw_only=True):
    """The text of a skill or of a file of it, as the model is sent it, and the path of that."""

    text: str
    path: str


class Reader(Protocol):
    """READ: files as the agent sees them, shadow over workspace. Nothing here can write.

    Paths are workspace-relative POSIX or absolute within the workspace; anything else raises `PathRefused`.
    """

    @property
    def root(self) -> str:
        """The workspace's absolute path."""

    def relative(self, path: str, /) -> str:
        """The normalised workspace-relative form of a path ("." for the workspace)."""

    def stat(self, path: str) -> PathStat | None:
        """None: nothing is there."""

    def read_bytes(self, path: str, limit: int) -> bytes:
        """At most `limit` bytes of a regular file."""

    def list_dir(self, path: str, /) -> tuple[DirectoryEntry, ...]:
        """Directories first, then the rest, each by name."""

    def pending_paths(self) -> Mapping[str, str]:
        """Pending change by path: "create", "edit", "delete", …"""

    def read_spilled(self, path: str, /) -> bytes | None:
        """The content of a clipped output that was put aside for the model, by the path it was given."""

    def mark_read(self, path: str) -> None:
        """Note that the model has seen this file's present content."""

    async def diagnose(self, paths: tuple[str, ...], /) -> tuple[DiagnosticsReported, ...]:
        """The new diagnostics of language servers in the pending texts of these files; none without servers."""

    async def find_places(self, kind: LocationKind, position: NamePosition, /) -> tuple[Place, ...]:
        """The places where a name is defined or used. Raises `ToolFailed`: no language server knows."""

    async def describe_name(self, position: NamePosition, /) -> str:
        """Signature and documentation of a name, "" = none. Raises `ToolFailed`."""

    async def search(self, query: SearchQuery, /) -> SearchAnswer:
        """Search the project; nothing that may not be read is in the answer."""

    async def fetch_rules(self, names: tuple[str, ...], /) -> FetchedRules:
        """Find rules by path or name, with what they import."""

    async def open_skill(self, request: SkillRequest, /) -> SkillText:
        """Open a skill, which is recorded. Raises `ToolInputInvalid`, `ToolFailed`."""

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        """Run a linter where nothing of it stays: over what is `pending`, or on disk. Raises `ToolFailed`."""


class ReadTool(Tool[Reader], frozen=True, kw_only=True):
    """Base of the tools that read."""

    access: ClassVar[Access] = Access.READ


class EditRequest(Struct, frozen=True):
    """An edit that could not be decided by rules: the file's text, what was wanted, and why it was not decided."""

    path: str
    text: str
    instructions: str
    draft: str
    problem: str


class Editor(Reader, Protocol):
    """PROPOSE: reads, and writes that land in the shadow only."""

    def write(self, path: str, data: bytes) -> FileEditDetail:
        """Create or replace a file. Protected and unreachable paths raise `PathRefused`."""

    def delete(self, path: str) -> FileEditDetail: ...

    def move(self, path: str, target: str, data: bytes) -> FileEditDetail:
        """Rename a file, and give it these bytes. Raises `PathRefused` as `write` does, with nothing changed."""

    def has_read_current(self, path: str) -> bool:
        """Return True if the model has read (or written) this file in its present state."""

    async def plan_rename(self, position: NamePosition, new_name: str, /) -> Mapping[str, str]:
        """The new texts by path. Raises `ToolFailed`; nothing is written."""

    async def apply_with_model(self, order: EditRequest) -> str:
        """The text that a model makes of the order, checked to change nothing else. Raises `EditError`."""


class Asker(Protocol):
    """ASK: questions to the user; `request_mode` asks for consent to a mode switch."""

    @property
    def is_reachable(self) -> bool:
        """True if there is somebody to ask."""

    async def ask(self, questions: tuple[Question, ...], title: str = "") -> tuple[QuestionAnswer, ...]:
        """Empty when the user dismissed the question or nobody can be asked. `title`: what stands over them."""

    async def request_mode(self, mode: str, explanation: str) -> bool: ...

    async def propose_note(self, text: str, reason: str) -> None:
        """Ask the user to keep a note about the project, without waiting. Raises `CommandRejected`."""


class SubagentTask(Struct, frozen=True, kw_only=True):
    """A task for a subagent of the kind `agent`. `model` "" = that of its kind; `resume`: an earlier one that shall go
    on."""

    description: str
    prompt: str
    agent: str
    model: str = ""
    resume: str = ""
    readonly: bool = False


class SubagentReport(Struct, frozen=True, kw_only=True):
    """The end of a task, as the model is told it that gave the task. `attachments`: pictures that belong to it."""

    text: str
    summary: str = ""
    has_failed: bool = False
    attachments: tuple[PreparedAttachment, ...] = ()


class Spawner(Protocol):
    """SPAWN: subagents."""

    async def run(self, task: SubagentTask) -> SubagentReport:
        """Run a task to its end. Raises `ToolInputInvalid`, `ToolFailed`."""


class TodosUpdated(Struct, frozen=True, kw_only=True):
    """A task list after it was set. `notes`: what is not as it was wanted; `failed`: a todo's command did not pass."""

    todos: tuple[Todo, ...]
    notes: tuple[str, ...] = ()
    failed: bool = False


class PlanChange(Struct, frozen=True, kw_only=True):
    """The wanted changes of a plan; None and empty leave it as it is. `path` "" = the active plan."""

    path: str = ""
    name: str | None = None
    overview: str | None = None
    body: str | None = None
    todos: tuple[TodoChange, ...] = ()
    remove: tuple[str, ...] = ()


class TodoBoard(Protocol):
    """TODO: the session's task list."""

    def todos(self) -> tuple[Todo, ...]: ...

    @property
    def plan(self) -> str:
        """The file of the plan that the list belongs to, "" = none."""

    async def set_todos(self, todos: tuple[Todo, ...]) -> TodosUpdated:
        """Replace the list. Raises `ToolInputInvalid`: a cycle, an unknown or doubled id, a todo before its time."""


class Planner(TodoBoard, Protocol):
    """PLAN: the plan files of the workspace."""

    def create_plan(self, plan: Plan) -> Plan:
        """Write a new plan file; `plan.path` is ignored and set in the answer."""

    async def update_plan(self, change: PlanChange) -> tuple[Plan, TodosUpdated]:
        """Change a plan file; what its user changed in it meanwhile stays."""


class Runner(Protocol):
    """EXEC: run exactly what the gate has let through, once. The screen gets output as it comes."""

    async def run_command(self, command: str, *, time_limit: float) -> CommandResult: ...

    async def run_python(self, code: str, subject: str, *, time_limit: float) -> CommandResult:
        """Run a block in the session's Python. `subject` is the call's subject, as the gate let it through."""

    async def start_job(self, command: str, *, wait: float) -> CommandResult:
        """Start a command in the background and look at it for `wait` seconds; it goes on if the result has a `job`."""

    async def send(self, job: str, text: str, *, wait: float) -> JobReport:
        """Put text on the standard input of a job, and look at it for `wait` seconds."""


class JobWatcher(Protocol):
    """JOB: commands that run in the background already."""

    def list(self) -> tuple[JobReport, ...]:
        """All of them, in the order in which they were begun."""

    async def read(self, job: str, wait: float) -> JobReport:
        """Return what it wrote since it was last read, after its end or `wait` seconds."""

    async def stop(self, job: str, *, interrupt: bool) -> JobReport:
        """End it, or interrupt it as Ctrl+C does."""


class PageRequest(Struct, frozen=True, kw_only=True):
    """The page that is wanted, and what of it: an answer, a part, words, or its source."""

    url: str
    prompt: str = ""
    offset: int = 0
    find: str = ""
    is_raw: bool = False


class ShownPage(Struct, frozen=True, kw_only=True):
    """The part of a page that is shown: `text` as the model is sent it, marked as foreign."""

    text: str
    summary: str
    picture: PreparedAttachment | None = None


class WebVisitor(Protocol):
    """NET: pages of the public web, from hosts that were granted or that the user says yes to."""

    async def visit(self, request: PageRequest) -> ShownPage:
        """Fetch a page. Raises `WebFailed`."""

    async def search(self, query: WebQuery, /) -> ShownPage:
        """Search the web by the engine that is configured. Raises `WebFailed`."""


ToolType = type[Tool[Any]]


class RegisteredTool(Struct, frozen=True):
    """A tool of a toolset. `location`: `module:Class`; `aliases`: other names that models call it by.

    `is_listed` False: it is no part of the list that a model is sent. `is_essential`: it is in the short list, too.
    """

    name: str
    location: str
    aliases: tuple[str, ...] = ()
    is_listed: bool = True
    is_essential: bool = False
