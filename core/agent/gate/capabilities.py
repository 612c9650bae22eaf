"""The capability that a tool is handed: an object that can do what the tool's Access allows, and nothing beyond it.

What may only read holds functions that read, not the shadow they come from. Every capability dies with its call: a
tool that comes back after it was cancelled or ran out of time can no longer have an effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import ParamSpec, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.call_documents import build_edit_detail
from core.agent.debug.debug_capability import DebugCapability
from core.agent.debug.debug_policy import check_no_marks
from core.agent.gate.approvals import ALLOWING_DECISIONS, Approver
from core.agent.gate.lint_runner import run_linter
from core.agent.gate.permissions import PathGuard
from core.agent.planning.plan_sync import PlanSync
from core.agent.planning.todo_editor import PlanFileEditor, TodoEditor
from core.agent.planning.todo_verification import build_prover
from core.errors import ToolFailed, ToolInputInvalid
from core.ids import new_id
from core.modes import Access, Mode
from core.permissions.approval import Approval
from core.protocol.documents import Question, QuestionAnswer, Todo
from core.protocol.events import ApprovalRequested, ModeChanged, ModeName, QuestionAsked, ToolOutput
from core.protocol.review import Origin
from core.sandbox.results import CommandResult, JobReport
from core.shadow import ShadowView
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.execution import EFFECTS_DROPPED
from core.shell.jobs import JobTable
from core.shell.python_repl import PythonRepl
from core.shell.spill import read_spilled
from core.tools.base import EditRequest, FileEditDetail, LintRun
from core.tools.linters import LintJob
from core.workspace import DirectoryEntry, PathStat

Params = ParamSpec("Params")
Returned = TypeVar("Returned")
ApplyEdit = Callable[[EditRequest], Awaitable[str]]
MAX_COMMAND_SECONDS = 600.0
MAX_STOPPED_OUTPUT = 4_000  # characters of output that the model is told of a command that was stopped


class CallLease:
    """The lifetime of one call: its capabilities refuse to act once it has ended."""

    def __init__(self) -> None:
        self._is_over = False

    def end(self) -> None:
        self._is_over = True

    def check(self) -> None:
        if self._is_over:
            raise ToolFailed("This call is over; nothing was done.")


def _detach(function: Callable[Params, Returned]) -> Callable[Params, Returned]:
    """Return the function without the object that it is a method of."""

    def call(*arguments: Params.args, **named: Params.kwargs) -> Returned:
        return function(*arguments, **named)

    return call


class FileAccess(Struct, frozen=True):
    """The files of one call, as its capability takes functions from it. `digests`: what the model has read, by path."""

    host: CommandHost
    guard: PathGuard
    digests: dict[str, str]
    lint: Callable[..., Awaitable[LintRun]]


class FileReader:
    """READ: files as the agent sees them. It notes in `digests`, by path, what the model has read."""

    __slots__ = ("_check", "_digests", "_lint", "_list", "_pending", "_read", "_relative", "_root", "_spilled", "_stat")

    def __init__(self, files: FileAccess) -> None:
        view = ShadowView(files.host.shadow)
        self._check = _detach(files.guard.check)
        self._root = view.root
        self._relative = _detach(view.relative)
        self._stat = _detach(view.stat)
        self._read = _detach(view.read_bytes)
        self._list = _detach(view.list_dir)
        self._pending = _detach(view.pending_paths)
        self._spilled = _detach(partial(read_spilled, files.host.directory))
        self._lint = _detach(files.lint)
        self._digests = files.digests

    @property
    def root(self) -> str:
        return self._root

    def relative(self, path: str) -> str:
        return self._relative(path)

    def stat(self, path: str) -> PathStat | None:
        self._check(Access.READ, self._relative(path))
        return self._stat(path)

    def read_bytes(self, path: str, limit: int) -> bytes:
        self._check(Access.READ, self._relative(path))
        return self._read(path, limit)

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        return self._list(path)

    def pending_paths(self) -> Mapping[str, str]:
        return self._pending()

    def read_spilled(self, path: str) -> bytes | None:
        return self._spilled(path)

    def mark_read(self, path: str) -> None:
        self._digests[self._relative(path)] = self._digest(path)

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        return await self._lint(job, is_pending=pending)

    def _digest(self, path: str) -> str:
        return hashlib.sha256(self._read(path, 1 << 26)).hexdigest()


class FileEditor(FileReader):
    """PROPOSE: reading, and writes that land in the shadow."""

    __slots__ = ("_apply_edit", "_delete", "_lease", "_write")

    def __init__(self, files: FileAccess, origin: Origin, lease: CallLease, apply_edit: ApplyEdit) -> None:
        super().__init__(files)
        view = ShadowView(files.host.shadow, origin)
        self._write = view.write
        self._delete = view.delete
        self._apply_edit = apply_edit
        self._lease = lease

    def write(self, path: str, data: bytes) -> FileEditDetail:
        self._lease.check()
        self._check(Access.PROPOSE, self._relative(path))
        check_no_marks(data)
        edited = self._write(path, data)
        self._digests[self._relative(path)] = hashlib.sha256(data).hexdigest()
        return build_edit_detail(self._relative(path), edited)

    def delete(self, path: str) -> FileEditDetail:
        self._lease.check()
        self._check(Access.PROPOSE, self._relative(path))
        edited = self._delete(path)
        self._digests.pop(self._relative(path), None)
        return build_edit_detail(self._relative(path), edited)

    def has_read_current(self, path: str) -> bool:
        return self._digests.get(self._relative(path)) == self._digest(path)

    async def apply_with_model(self, order: EditRequest) -> str:
        self._lease.check()
        return await self._apply_edit(order)


class UserPrompter:
    """ASK: questions to the user. It keeps questions and answers for the document of the call."""

    def __init__(self, approver: Approver, host: CommandHost, call: str, lease: CallLease) -> None:
        self._approver = approver
        self._host = host
        self._call = call
        self._lease = lease
        self.title = ""
        self.questions: tuple[Question, ...] = ()
        self.answers: tuple[QuestionAnswer, ...] = ()

    @property
    def is_reachable(self) -> bool:
        return self._approver.user.is_interactive

    async def ask(self, questions: tuple[Question, ...], title: str = "") -> tuple[QuestionAnswer, ...]:
        self._lease.check()
        self.questions, self.title = questions, title
        asked = QuestionAsked(id=new_id("ask"), call=self._call, questions=questions, title=title, lasting=True)
        self.answers = (await self._approver.user.ask(asked)).answers
        return self.answers

    async def request_mode(self, mode: str, explanation: str) -> bool:
        self._lease.check()
        wanted = parse_mode(mode)
        if self._host.state.mode == wanted:
            return True
        request = ApprovalRequested(
            id=new_id("apr"), call=self._call, kind="mode", subject=wanted, explanation=explanation
        )
        resolved = await self._approver.user.approve(request)
        if resolved.decision not in ALLOWING_DECISIONS:
            return False
        if self._host.state.mode != wanted:
            self._host.emit(ModeChanged(mode=wanted, by="agent"))
        return True


class CommandRunner:
    """EXEC: exactly the command that was approved, once, where it was approved to run."""

    def __init__(
        self, python: PythonRepl, approver: Approver, origin: Origin, approved: Approval, lease: CallLease
    ) -> None:
        self._python = python
        self._terminal = python.terminal
        self._permissions = approver.permissions
        self._origin = origin
        self._approved: Approval | None = approved
        self._lease = lease
        self._latest = ""

    async def run_command(self, command: str, *, time_limit: float) -> CommandResult:
        request = self._build_request(command, min(time_limit, MAX_COMMAND_SECONDS))
        return await self._terminal.run(request, self._emit_output)

    async def run_python(self, code: str, approved: str, *, time_limit: float) -> CommandResult:
        self._consume_approval(approved)
        origin = replace(self._origin, command=approved)
        limit = min(time_limit, MAX_COMMAND_SECONDS)
        return await self._python.run(code, origin=origin, time_limit=limit, on_output=self._emit_output)

    async def start_job(self, command: str, *, wait: float) -> CommandResult:
        self._terminal.jobs.check_capacity()
        return await self._terminal.start_job(self._build_request(command, None), self._emit_output, wait=wait)

    async def send(self, job: str, text: str, *, wait: float) -> JobReport:
        self._consume_approval(f"{job} <- {text}")
        jobs = self._terminal.jobs
        jobs.send(job, text)
        return await jobs.read(job, wait)

    def _build_request(self, command: str, seconds: float | None) -> CommandRequest:
        self._consume_approval(command)
        origin = replace(self._origin, command=command)
        return CommandRequest(
            command=command, origin=origin, keeps_effects=self._terminal.keeps_effects(), time_limit=seconds
        )

    def _consume_approval(self, subject: str) -> None:
        self._lease.check()
        approved, self._approved = self._approved, None
        if approved is None or subject != approved.subject:
            raise ToolFailed("This is not the command that was approved; it was not run.")
        if self._permissions.build_approval(subject).compute_digest() != approved.compute_digest():
            raise ToolFailed(
                "The mode, the directory or the environment is not the one that was approved; it was not run.",
                hint="Call again.",
            )

    def _emit_output(self, text: str) -> None:
        self._latest = (self._latest + text)[-MAX_STOPPED_OUTPUT:]
        self._terminal.host.emit(ToolOutput(call=self._origin.call, text=text))

    def describe_interrupt(self, default: str) -> str:
        """Return the result text of a command that the user stopped; `default` if it had not begun."""
        if self._approved is not None or not self._permissions.is_contained:
            return default
        output = f"\nIts output until then:\n{self._latest}" if self._latest.strip() else ""
        return f"{EFFECTS_DROPPED}{output}"


class JobController:
    """JOB: reading and ending commands that run already."""

    def __init__(self, jobs: JobTable, lease: CallLease) -> None:
        self._jobs = jobs
        self._lease = lease

    def list(self) -> tuple[JobReport, ...]:
        return self._jobs.list()

    async def read(self, job: str, wait: float) -> JobReport:
        self._lease.check()
        return await self._jobs.read(job, wait)

    async def stop(self, job: str, *, interrupt: bool) -> JobReport:
        self._lease.check()
        return await self._jobs.stop(job, interrupt=interrupt)


def parse_mode(name: str) -> ModeName:
    """Return a mode's name as the wire has it. Raises `ToolInputInvalid` for anything else."""
    if name not in list(Mode):
        raise ToolInputInvalid(f"{name!r} is not a mode.", hint=f"The modes are {', '.join(Mode)}.")
    return name


class CapabilityFactory:
    """The maker of the capabilities of one turn's calls. `apply_edit`: what works out an edit that rules can't."""

    def __init__(
        self, approver: Approver, python: PythonRepl, plans: PlanSync, digests: dict[str, str], apply_edit: ApplyEdit
    ) -> None:
        self.approver = approver
        self._python = python
        self._terminal = python.terminal
        self.host = python.terminal.host
        self._plans = plans
        self._digests = digests
        self._apply_edit = apply_edit

    def build(
        self, access: Access, origin: Origin, approval: Approval, lease: CallLease, paths: Sequence[str] = ()
    ) -> object:
        """Build the capability of one Access for one call.

        `approval`: what an EXEC call may run; `paths`: files that the user said yes to.
        """
        match access:
            case Access.READ:
                return self.build_reader(paths)
            case Access.ASK:
                return UserPrompter(self.approver, self.host, origin.call, lease)
            case Access.TODO | Access.PLAN:
                return self.build_todo_editor(origin, lease, with_plans=access is Access.PLAN)
            case Access.PROPOSE:
                return FileEditor(self._open_files(paths), self._add_todo(origin), lease, self._apply_edit)
            case Access.EXEC | Access.JOB:
                runner = CommandRunner(self._python, self.approver, self._add_todo(origin), approval, lease)
                return runner if access is Access.EXEC else JobController(self._terminal.jobs, lease)
            case Access.PROBE:
                return DebugCapability(self._terminal, self.approver, self._digests, origin, lease.check)
            case Access.NET | Access.SPAWN | Access.EXTERNAL:
                raise ToolFailed("This program has no such access.")
            case _:
                assert_never(access)

    def build_reader(self, paths: Sequence[str] = ()) -> FileReader:
        """Build a READ capability. `paths`: files that the user said yes to."""
        return FileReader(self._open_files(paths))

    def build_todo_editor(self, origin: Origin, lease: CallLease, *, with_plans: bool = False) -> TodoEditor:
        """Build a TODO capability, or a PLAN one."""
        editor = PlanFileEditor if with_plans else TodoEditor
        return editor(self._plans, self.approver.user, origin.call, lease.check, self.build_prover(origin, lease))

    def build_prover(self, origin: Origin, lease: CallLease) -> Callable[[Todo], Awaitable[str]]:
        """Build a function that returns why a todo is not proved by its command, "" = it is."""

        def run(approval: Approval) -> CommandRunner:
            return CommandRunner(self._python, self.approver, origin, approval, lease)

        return build_prover(self.approver, self.host, origin, run)

    def _open_files(self, paths: Sequence[str]) -> FileAccess:
        permissions = self.approver.permissions
        lint = partial(run_linter, permissions, self._terminal)
        return FileAccess(self.host, permissions.build_path_guard(paths), self._digests, lint)

    def _add_todo(self, origin: Origin) -> Origin:
        """Return the origin with the todo that is in progress."""
        todos = self.host.state.todos
        return replace(origin, todo=next((todo.id for todo in todos if todo.status == "in_progress"), ""))
