"""The capability that a tool is handed: an object that can do what the tool's Access allows, and nothing beyond it.

What may only read holds functions that read, not the shadow they come from. Every capability dies with its call: a
tool that comes back after it was cancelled or ran out of time can no longer have an effect.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.call_documents import build_edit_detail
from core.agent.context.told_rules import fetch_rules
from core.agent.debug.debug_capability import DebugCapability
from core.agent.debug.debug_policy import check_no_marks
from core.agent.gate.approvals import ALLOWING_DECISIONS, Approver
from core.agent.gate.lint_runner import run_linter
from core.agent.gate.name_lookup import NO_LOOKUP, NameLookup, SearchProject, search_nothing
from core.agent.gate.permissions import CallPermissions
from core.agent.planning.plan_sync import PlanSync
from core.agent.planning.todo_editor import PlanFileEditor, TodoEditor
from core.agent.planning.todo_verification import build_prover
from core.agent.turn.user_channel import UserChannel
from core.config.rules.notes import ProjectNotes
from core.errors import PathRefused, ToolFailed, ToolInputInvalid
from core.ids import new_id
from core.modes import Access, Mode
from core.permissions.approval import Approval
from core.protocol.documents import Question, QuestionAnswer, Todo
from core.protocol.events import (
    ApprovalRequested,
    DiagnosticsReported,
    ModeChanged,
    ModeName,
    Notice,
    QuestionAsked,
    ToolOutput,
)
from core.protocol.language import Place
from core.protocol.queries import SearchAnswer, SearchQuery
from core.protocol.review import Origin
from core.sandbox.results import CommandResult, JobReport
from core.shadow.review.proposals import ShadowEdit
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.execution import EFFECTS_DROPPED
from core.shell.jobs import JobTable
from core.shell.python_repl import PythonRepl
from core.shell.spill import read_spilled
from core.tools.base import EditRequest, FetchedRules, FileEditDetail, LintRun
from core.tools.linters import LintJob
from core.workspace import DirectoryEntry, PathStat

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind, NamePosition

ApplyEdit = Callable[[EditRequest], Awaitable[str]]
MAX_COMMAND_SECONDS = 600.0
NOTE_HINT = "/memory keeps it for later sessions, or drops it."
MAX_STOPPED_OUTPUT = 4_000  # characters of output that the model is told of a command that was stopped


class CallLease(Struct):
    """The lifetime of one call: its capabilities refuse to act once it has ended."""

    is_over: bool = False

    def end(self) -> None:
        self.is_over = True

    def check(self) -> None:
        if self.is_over:
            raise ToolFailed("This call is over; nothing was done.")


class FileReader(Struct, eq=False, kw_only=True):
    """READ: files as the agent sees them, by functions that lead to no object. `digests`: what the model has read."""

    root: str
    digests: dict[str, str]
    relative: Callable[[str], str]
    list_entries: Callable[[str], tuple[DirectoryEntry, ...]]
    pending_paths: Callable[[], Mapping[str, str]]
    read_spilled: Callable[[str], bytes | None]
    check_path: Callable[[Access, str], None]
    look_up: Callable[[str], PathStat | None]
    read: Callable[[str, int], bytes]
    run_linter: Callable[[LintJob, bool], Awaitable[LintRun]]
    find_rules: Callable[[tuple[str, ...]], Awaitable[FetchedRules]]
    names: NameLookup = NO_LOOKUP
    search_project: SearchProject = search_nothing

    def stat(self, path: str) -> PathStat | None:
        own = self.relative(path)
        self.check_path(Access.READ, own)
        return self.look_up(own)

    def read_bytes(self, path: str, limit: int) -> bytes:
        own = self.relative(path)
        self.check_path(Access.READ, own)
        return self.read(own, limit)

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        return self.list_entries(self.relative(path))

    def mark_read(self, path: str) -> None:
        own = self.relative(path)
        self.digests[own] = self.compute_digest(path)
        self.names.note_read(own)

    async def diagnose(self, paths: tuple[str, ...]) -> tuple[DiagnosticsReported, ...]:
        return await self.names.diagnose(tuple(map(self.relative, paths)))

    async def find_places(self, kind: LocationKind, at: NamePosition) -> tuple[Place, ...]:
        return tuple(self._hide_kept(each) for each in await self.names.locate(kind, at))

    async def describe_name(self, at: NamePosition) -> str:
        return await self.names.describe(at)

    def _hide_kept(self, place: Place) -> Place:
        """Return the place without its text where that is kept from the agent."""
        try:
            if not place.path.startswith("/"):
                self.check_path(Access.READ, place.path)
        except PathRefused:
            return replace(place, text="")
        return place

    async def search(self, query: SearchQuery) -> SearchAnswer:
        return await self.search_project(query, self)

    async def fetch_rules(self, names: tuple[str, ...]) -> FetchedRules:
        return await self.find_rules(names)

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        return await self.run_linter(job, pending)

    def compute_digest(self, path: str) -> str:
        return hashlib.sha256(self.read_bytes(path, 1 << 26)).hexdigest()


class FileEditor(FileReader, eq=False, kw_only=True):
    """PROPOSE: reading, and writes that land in the shadow."""

    edit: Callable[[str, bytes | None], ShadowEdit]
    lease: CallLease
    apply_edit: ApplyEdit

    def write(self, path: str, data: bytes) -> FileEditDetail:
        self.lease.check()
        own = self.relative(path)
        self.check_path(Access.PROPOSE, own)
        check_no_marks(data)
        edited = self.edit(own, data)
        self.digests[own] = hashlib.sha256(data).hexdigest()
        return build_edit_detail(own, edited)

    def delete(self, path: str) -> FileEditDetail:
        self.lease.check()
        own = self.relative(path)
        self.check_path(Access.PROPOSE, own)
        edited = self.edit(own, None)
        self.digests.pop(own, None)
        return build_edit_detail(own, edited)

    def has_read_current(self, path: str) -> bool:
        return self.digests.get(self.relative(path)) == self.compute_digest(path)

    async def plan_rename(self, at: NamePosition, new_name: str) -> dict[str, str]:
        self.lease.check()
        return await self.names.plan_rename(at, new_name)

    async def apply_with_model(self, order: EditRequest) -> str:
        self.lease.check()
        return await self.apply_edit(order)


def _list_reading(permissions: CallPermissions, digests: dict[str, str], approved: Sequence[str]) -> dict[str, Any]:
    """List the fields of a `FileReader`: functions without the objects that they are methods of."""

    def detach(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: function(*arguments)  # noqa: PLW0108 (a bound method leads to its object)

    directory, shadow = permissions.terminal.host.directory, permissions.terminal.host.shadow
    guard = permissions.build_path_guard(approved)
    return {
        "root": str(shadow.workspace.root),
        "digests": digests,
        "relative": detach(shadow.workspace.to_relative),
        "list_entries": detach(shadow.list_open_dir),
        "pending_paths": lambda: {each.path: each.operation for each in shadow.list_changes()},
        "read_spilled": lambda path: read_spilled(directory, path),
        "check_path": detach(guard.check),
        "look_up": detach(shadow.stat),
        "read": detach(shadow.read_existing),
        "find_rules": lambda names: fetch_rules(permissions, names, tuple(digests)),
        "run_linter": lambda job, pending: run_linter(permissions, job, pending=pending),
    }


def build_reader(permissions: CallPermissions, digests: dict[str, str], approved: Sequence[str] = ()) -> FileReader:
    """Build a READ capability. `digests`: what the model has read; `approved`: files that the user said yes to."""
    return FileReader(**_list_reading(permissions, digests, approved))


class UserPrompter(Struct, eq=False):
    """ASK: questions to the user. It keeps questions and answers for the document of the call."""

    _user: UserChannel
    _host: CommandHost
    _call: str
    _lease: CallLease
    title: str = ""
    questions: tuple[Question, ...] = ()
    answers: tuple[QuestionAnswer, ...] = ()

    @property
    def is_reachable(self) -> bool:
        return self._user.is_interactive

    async def ask(self, questions: tuple[Question, ...], title: str = "") -> tuple[QuestionAnswer, ...]:
        self._lease.check()
        self.questions, self.title = questions, title
        asked = QuestionAsked(id=new_id("ask"), call=self._call, questions=questions, title=title, lasting=True)
        self.answers = (await self._user.ask(asked)).answers
        return self.answers

    async def propose_note(self, text: str, why: str) -> None:
        self._lease.check()
        if self._host.state.is_private:
            raise ToolFailed("this session is private: nothing of it is kept, and no notes are.")
        notes = ProjectNotes(self._host.workspace.root)
        note = await asyncio.to_thread(notes.add, text, why, is_kept=False)
        self._host.emit(Notice(level="info", message=f"A note waits for you: {note.text}", hint=NOTE_HINT))

    async def request_mode(self, mode: str, explanation: str) -> bool:
        self._lease.check()
        wanted = parse_mode(mode)
        if self._host.state.mode == wanted:
            return True
        request = ApprovalRequested(
            id=new_id("apr"), call=self._call, kind="mode", subject=wanted, explanation=explanation
        )
        resolved = await self._user.approve(request)
        if resolved.decision not in ALLOWING_DECISIONS:
            return False
        if self._host.state.mode != wanted:
            self._host.emit(ModeChanged(mode=wanted, by="agent"))
        return True


class CommandRunner(Struct, eq=False):
    """EXEC: exactly the command that was approved, once, where it was approved to run."""

    _python: PythonRepl
    _permissions: CallPermissions
    _origin: Origin
    _approved: Approval | None
    _lease: CallLease
    _latest: str = ""

    async def run_command(self, command: str, *, time_limit: float) -> CommandResult:
        request = self._build_request(command, min(time_limit, MAX_COMMAND_SECONDS))
        return await self._python.terminal.run(request, self._emit_output)

    async def run_python(self, code: str, approved: str, *, time_limit: float) -> CommandResult:
        self._consume_approval(approved)
        origin = replace(self._origin, command=approved)
        limit = min(time_limit, MAX_COMMAND_SECONDS)
        return await self._python.run(code, origin=origin, time_limit=limit, on_output=self._emit_output)

    async def start_job(self, command: str, *, wait: float) -> CommandResult:
        self._python.terminal.jobs.check_capacity()
        return await self._python.terminal.start_job(self._build_request(command, None), self._emit_output, wait=wait)

    async def send(self, job: str, text: str, *, wait: float) -> JobReport:
        self._consume_approval(f"{job} <- {text}")
        jobs = self._python.terminal.jobs
        jobs.send(job, text)
        return await jobs.read(job, wait)

    def _build_request(self, command: str, seconds: float | None) -> CommandRequest:
        self._consume_approval(command)
        origin = replace(self._origin, command=command)
        return CommandRequest(
            command=command, origin=origin, keeps_effects=self._python.terminal.keeps_effects(), time_limit=seconds
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
        self._python.terminal.host.emit(ToolOutput(call=self._origin.call, text=text))

    def describe_interrupt(self, default: str) -> str:
        """Return the result text of a command that the user stopped; `default` if it had not begun."""
        if self._approved is not None or not self._permissions.terminal.is_contained:
            return default
        output = f"\nIts output until then:\n{self._latest}" if self._latest.strip() else ""
        return f"{EFFECTS_DROPPED}{output}"


class JobController(Struct, eq=False):
    """JOB: reading and ending commands that run already."""

    _jobs: JobTable
    _lease: CallLease

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


class CapabilityFactory(Struct, frozen=True):
    """The maker of the capabilities of one turn's calls. `apply_edit`: what works out an edit that rules can't."""

    approver: Approver
    python: PythonRepl
    plans: PlanSync
    digests: dict[str, str]
    apply_edit: ApplyEdit
    names: NameLookup = NO_LOOKUP
    search: SearchProject = search_nothing

    def build(
        self, access: Access, origin: Origin, approval: Approval, lease: CallLease, paths: Sequence[str] = ()
    ) -> object:
        """Build the capability of one call. `approval`: what EXEC may run; `paths`: files that the user said yes to."""
        permissions, terminal = self.approver.permissions, self.python.terminal
        todo = next((each.id for each in terminal.host.state.todos if each.status == "in_progress"), "")
        match access:
            case Access.READ:
                reader = build_reader(permissions, self.digests, paths)
                reader.names, reader.search_project = self.names, self.search
                return reader
            case Access.ASK:
                return UserPrompter(self.approver.user, terminal.host, origin.call, lease)
            case Access.TODO | Access.PLAN:
                return self.build_todo_editor(origin, lease, with_plans=access is Access.PLAN)
            case Access.EXEC | Access.JOB:
                runner = CommandRunner(self.python, permissions, replace(origin, todo=todo), approval, lease)
                return runner if access is Access.EXEC else JobController(terminal.jobs, lease)
            case Access.PROBE:
                return DebugCapability(self.approver, self.digests, origin, lease.check)
            case Access.PROPOSE:
                shadow, stamp = terminal.host.shadow, replace(origin, todo=todo)
                return FileEditor(
                    **_list_reading(permissions, self.digests, paths),
                    edit=lambda path, data: shadow.edit(path, data, stamp),
                    lease=lease,
                    apply_edit=self.apply_edit,
                    names=self.names,
                    search_project=self.search,
                )
            case Access.NET | Access.SPAWN | Access.EXTERNAL:
                raise ToolFailed("This program has no such access.")
            case _:
                assert_never(access)

    def build_todo_editor(self, origin: Origin, lease: CallLease, *, with_plans: bool = False) -> TodoEditor:
        """Build a TODO capability, or a PLAN one."""
        editor = PlanFileEditor if with_plans else TodoEditor
        return editor(self.plans, self.approver.user, origin.call, lease.check, self.build_prover(origin, lease))

    def build_prover(self, origin: Origin, lease: CallLease) -> Callable[[Todo], Awaitable[str]]:
        """Build a function that returns why a todo is not proved by its command, "" = it is."""

        def run(approval: Approval) -> CommandRunner:
            return CommandRunner(self.python, self.approver.permissions, origin, approval, lease)

        return build_prover(self.approver, origin, run)
