"""The base of tools: a record whose fields are its arguments, with one Access and the capability for it.

A tool never sees the engine, the log or the workspace object. `run` gets only the capability of its Access, so a READ
tool has no means to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct

from core.attachments.preparation import PreparedAttachment
from core.modes import Access
from core.plans.todo_graph import TodoChange
from core.protocol.documents import FileEditDiff, FileOperation, Plan, Question, QuestionAnswer, Todo, TodoStatusUpdate
from core.protocol.events import DiagnosticsReported
from core.protocol.language import Place
from core.protocol.messages import FoundTool
from core.protocol.queries import SearchAnswer, SearchQuery
from core.protocol.review import Hunk
from core.sandbox.results import CommandResult, JobReport
from core.tools.linters import LintJob
from core.workspace import DirectoryEntry, PathStat

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind, NamePosition
    from core.web.search import WebQuery


class FileEditDetail(Struct, frozen=True, kw_only=True):
    """A file that a PROPOSE tool edited, for its `file_edit` document; `hunks` are those of the edit, if it is of text.
    `renamed_from`: its old path, for the operation "rename"."""

    path: str
    operation: FileOperation
    content: str
    renamed_from: str = ""
    diff: FileEditDiff | None = None
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0


class FileEditDetails(Struct, frozen=True):
    """The files that one call edited, in the order of the call: at least two."""

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
    notes: tuple[str, ...] = ()


Detail = FileEditDetail | FileEditDetails | TerminalDetail | Plan | tuple[TodoStatusUpdate, ...] | None


class ProgramData(Struct, frozen=True):
    """The result of a call for a program: plain data. `note`: what is missing in it, "" = nothing."""

    value: Any
    note: str = ""


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """The result of a call. `content` is for the model; `summary` is one short line for the user ("214 lines");
    `detail` fills the document.

    `failed`: the call ran but did not succeed (a command that exits non-zero is not a failure of the tool). `spilled`
    names the file that holds the whole of a clipped output; `attachments` go to the model too, and so do the `tools`
    that were found. `build_data`: builds the result for a program, None = it gets `content`.
    """

    content: str
    summary: str = ""
    detail: Detail = None
    failed: bool = False
    spilled: str = ""
    attachments: tuple[PreparedAttachment, ...] = ()
    tools: tuple[FoundTool, ...] = ()
    build_data: Callable[[], ProgramData] | None = None


Capability_contra = TypeVar("Capability_contra", contravariant=True)


class Tool(Struct, Generic[Capability_contra], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tools; its text is `core/prompts/tools/<name>.md`. Raises `ToolInputInvalid`, `ToolFailed`."""

    name: ClassVar[str]
    access: ClassVar[Access]
    # Aliases that models use for an argument, by alias.
    argument_names: ClassVar[Mapping[str, str]] = {}
    # Arguments of similar tools of other agents that say nothing about what is done.
    ignored_arguments: ClassVar[frozenset[str]] = frozenset()
    # Arguments of such tools with the value that describes what this one does anyway.
    assumed_arguments: ClassVar[Mapping[str, object]] = {}
    # Unknown arguments do not fail a call, but its result names them: the tool only reads or asks.
    ignores_unknown: ClassVar[bool] = False
    # The argument that a model may write as free text, "" = none.
    freeform: ClassVar[str] = ""
    # Its results are tools, which an API may load.
    finds_tools: ClassVar[bool] = False
    # The grammar of that text in Lark, "" = any text.
    grammar: ClassVar[str] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the forms of other agents' tools converted to the form of this one.

        Unknown forms are left for the validation to reject. Raises `ToolInputInvalid`.
        """
        return arguments

    async def run(self, capability: Capability_contra) -> ToolOutcome:
        raise NotImplementedError

    def subject(self) -> str:
        """Return one line about this call for the user: a path, a pattern, a command."""
        raise NotImplementedError

    def paths(self) -> tuple[str, ...]:
        """Return the files that this call names, as the model wrote them, for rules and approvals."""
        return ()


class LintRun(Struct, frozen=True, kw_only=True):
    """A run of a linter. `exit_code` None: it was stopped, and `ended` is the reason."""

    exit_code: int | None
    output: str
    ended: str = "exited"


class FetchedRules(Struct, frozen=True, kw_only=True):
    """The requested rules: their `texts` for the model, the `paths` of the existing ones, the names that are `unknown`,
    and those that are `known`."""

    texts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class SkillRequest(Struct, frozen=True):
    """A request for a skill's text, with arguments for it, or for a `file` of its folder."""

    name: str
    arguments: str = ""
    file: str = ""


class SkillText(Struct, frozen=True, kw_only=True):
    """The text of a skill or of one of its files for the model, and its path."""

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
        """Return the normalised workspace-relative form of a path ("." for the workspace)."""

    def stat(self, path: str) -> PathStat | None:
        """Return the status of a path; None: it does not exist."""

    def read_bytes(self, path: str, limit: int) -> bytes:
        """Return at most `limit` bytes of a regular file."""

    def list_dir(self, path: str, /) -> tuple[DirectoryEntry, ...]:
        """Return the entries of a directory: directories first, then the rest, sorted by name."""

    def pending_paths(self) -> Mapping[str, str]:
        """Return the pending change by path: "create", "edit", "delete", …"""

    def list_command_files(self, path: str, /) -> tuple[str, ...]:
        """Return the files at and below a workspace-relative path that commands have left and that are not pending:
        those of running commands, and ignored ones if the path is ignored itself. At most 2,000."""

    def read_spilled(self, path: str, /) -> bytes | None:
        """Return the content of a clipped output that was saved for the model, by its path."""

    def mark_read(self, path: str) -> None:
        """Note that the model has seen the present content of a file."""

    async def diagnose(self, paths: tuple[str, ...], /) -> tuple[DiagnosticsReported, ...]:
        """Return the new diagnostics of language servers in the pending texts of these files; none without servers."""

    async def find_places(self, kind: LocationKind, position: NamePosition, /) -> tuple[Place, ...]:
        """Return the places where a name is defined or used. Raises `ToolFailed` if no language server knows."""

    async def describe_name(self, position: NamePosition, /) -> str:
        """Return signature and documentation of a name, "" = none. Raises `ToolFailed`."""

    async def search(self, query: SearchQuery, /) -> SearchAnswer:
        """Search the project; the answer leaves out everything that may not be read."""

    async def fetch_rules(self, names: tuple[str, ...], /) -> FetchedRules:
        """Return rules by path or name, with their imports."""

    async def open_skill(self, request: SkillRequest, /) -> SkillText:
        """Open a skill and record that. Raises `ToolInputInvalid`, `ToolFailed`."""

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        """Run a linter in a disposable layer over the `pending` files, or over those on disk. Raises `ToolFailed`."""


class ReadTool(Tool[Reader], frozen=True, kw_only=True):
    """Base of the tools that read."""

    access: ClassVar[Access] = Access.READ
    ignores_unknown: ClassVar[bool] = True


class EditRequest(Struct, frozen=True):
    """An edit that the rules could not decide: the file's text, the instructions, and the reason."""

    path: str
    text: str
    instructions: str
    draft: str
    problem: str


class Editor(Reader, Protocol):
    """PROPOSE: reads, and writes to the shadow only."""

    def write(self, path: str, data: bytes) -> FileEditDetail:
        """Create or replace a file. Protected and unreachable paths raise `PathRefused`."""

    def delete(self, path: str) -> FileEditDetail: ...

    def move(self, path: str, target: str, data: bytes) -> FileEditDetail:
        """Rename a file and replace its content. Raises `PathRefused` as `write` does, with nothing changed."""

    def has_read_current(self, path: str) -> bool:
        """Return True if the model has read (or written) this file in its present state."""

    def undo(self, path: str) -> FileEditDetail:
        """Take the model's last edit of a file back. Raises `ToolFailed` if there is none, or if the file has changed
        since."""

    async def plan_rename(self, position: NamePosition, new_name: str, /) -> Mapping[str, str]:
        """Return the new texts by path. Raises `ToolFailed`; nothing is written."""

    async def apply_with_model(self, order: EditRequest) -> str:
        """Return the text that a model makes of the request, checked to change nothing else. Raises `EditError`."""


class GoalReply(Struct, frozen=True, kw_only=True):
    """The answer to a proposed goal. `condition` "" = no goal was set; `words`: what the user said instead; `refusal`:
    why nobody was asked, "" = the user was."""

    condition: str = ""
    check: str = ""
    words: str = ""
    refusal: str = ""


class Asker(Protocol):
    """ASK: questions to the user; `request_mode` asks for consent to a mode switch."""

    @property
    def is_reachable(self) -> bool:
        """True if a user can be asked."""

    async def ask(self, questions: tuple[Question, ...], title: str = "") -> tuple[QuestionAnswer, ...]:
        """Ask the user. The result is empty if they dismissed the questions or nobody can be asked. `title`: the
        heading."""

    async def request_mode(self, mode: str, explanation: str) -> bool: ...

    async def propose_goal(self, condition: str, check: str) -> GoalReply:
        """Ask the user to set a goal, which a yes does."""

    async def propose_note(self, text: str, reason: str) -> None:
        """Ask the user to save a note about the project, without waiting. Raises `CommandRejected`."""


class SubagentTask(Struct, frozen=True, kw_only=True):
    """A task for a subagent of the kind `agent`. `model` "" = that of its kind; `resume`: an earlier subagent to
    continue."""

    description: str
    prompt: str
    agent: str
    model: str = ""
    resume: str = ""
    readonly: bool = False


class SubagentReport(Struct, frozen=True, kw_only=True):
    """The end of a task for the model that gave it. `attachments`: pictures that belong to it."""

    text: str
    summary: str = ""
    has_failed: bool = False
    attachments: tuple[PreparedAttachment, ...] = ()


class Advice(Struct, frozen=True, kw_only=True):
    """The advice of another model, its id, and what it cost in words ("" = unknown)."""

    text: str
    model: str
    cost: str = ""


class Spawner(Protocol):
    """SPAWN: subagents, and other models for one question."""

    async def consult(self, question: str) -> Advice:
        """Ask the advisor. Raises `ToolFailed`."""

    async def run(self, task: SubagentTask) -> SubagentReport:
        """Run a task to its end. Raises `ToolInputInvalid`, `ToolFailed`."""


class TodosUpdated(Struct, frozen=True, kw_only=True):
    """A task list after an update. `notes`: differences from the request; `failed`: a todo's command did not pass."""

    todos: tuple[Todo, ...]
    notes: tuple[str, ...] = ()
    failed: bool = False


class PlanChange(Struct, frozen=True, kw_only=True):
    """The changes to make in a plan; None and empty leave a part as it is. `path` "" = the active plan."""

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
        """Replace the list. Raises `ToolInputInvalid` for a cycle, an unknown or duplicate id, or a todo that still
        waits for others."""


class Planner(TodoBoard, Protocol):
    """PLAN: the plan files of the workspace."""

    def create_plan(self, plan: Plan) -> Plan:
        """Write a new plan file; `plan.path` is ignored and set in the result."""

    async def update_plan(self, change: PlanChange) -> tuple[Plan, TodosUpdated]:
        """Change a plan file; concurrent changes of the user are preserved."""


class Runner(Protocol):
    """EXEC: run exactly what the gate has approved, once. The screen gets the output while it comes."""

    async def run_command(self, command: str, *, time_limit: float) -> CommandResult: ...

    async def run_python(self, code: str, subject: str, *, time_limit: float) -> CommandResult:
        """Run a block in the session's Python. `subject` is the call's subject, as the gate approved it."""

    async def run_program(self, code: str, subject: str, *, time_limit: float) -> CommandResult:
        """Run a program whose calls of tools go through the gate; `effects` describes them."""

    async def start_job(self, command: str, *, wait: float) -> CommandResult:
        """Start a command in the background and watch it for `wait` seconds; it continues if the result has a `job`."""

    async def send(self, job: str, text: str, *, wait: float) -> JobReport:
        """Write text to the standard input of a job, and watch it for `wait` seconds."""


class JobWatcher(Protocol):
    """JOB: commands that already run in the background."""

    def list(self) -> tuple[JobReport, ...]:
        """Return all jobs in the order of their start."""

    async def read(self, job: str, wait: float) -> JobReport:
        """Return the output since the last read, after the job's end or `wait` seconds."""

    async def stop(self, job: str, *, interrupt: bool) -> JobReport:
        """End a job, or interrupt it as Ctrl+C does."""


class PageRequest(Struct, frozen=True, kw_only=True):
    """A request for a page, or for a part of it: an answer, a range, matching passages, or its source."""

    url: str
    prompt: str = ""
    offset: int = 0
    find: str = ""
    is_raw: bool = False


class ShownPage(Struct, frozen=True, kw_only=True):
    """A part of a page: `text` as the model is sent it, marked as foreign."""

    text: str
    summary: str
    picture: PreparedAttachment | None = None


class WebVisitor(Protocol):
    """NET: pages of the public web, from hosts that were granted or that the user approves."""

    async def visit(self, request: PageRequest) -> ShownPage:
        """Fetch a page. Raises `WebFailed`."""

    async def search(self, query: WebQuery, /) -> ShownPage:
        """Search the web with the configured engine. Raises `WebFailed`."""


ToolType = type[Tool[Any]]


class RegisteredTool(Struct, frozen=True):
    """A tool of a toolset. `location`: `module:Class`; `aliases`: other names that models use for it.

    `is_listed` False: it is not in the list that a model is sent. `is_essential`: it is also in the short list.
    """

    name: str
    location: str
    aliases: tuple[str, ...] = ()
    is_listed: bool = True
    is_essential: bool = False
