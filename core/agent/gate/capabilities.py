"""The capabilities of tools: objects that can do what the tool's Access allows, and nothing beyond it.

A reading capability holds functions that read, not the shadow they come from. Every capability ends with its call: a
tool that continues after a cancellation or timeout can no longer have an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.base.approvals import ALLOWING_DECISIONS, Approver
from core.agent.base.call_lease import CallLease, OpenCapability
from core.agent.base.name_lookup import NO_LOOKUP, NameLookup, SearchProject, open_lookup, search_nothing
from core.agent.base.permissions import CallPermissions
from core.agent.base.plan_sync import PlanSync
from core.agent.base.user_channel import UserChannel
from core.agent.context.turn_context import TurnContext
from core.agent.debug.debug_capability import DebugCapability
from core.agent.gate.file_capabilities import ApplyEdit, EditVersions, FileEditor, build_reader, list_reading
from core.agent.gate.todo_editor import PlanFileEditor, Prove, TodoEditor, build_prover
from core.config.rules.notes import ProjectNotes
from core.errors import ToolFailed, ToolInputInvalid
from core.ids import new_id
from core.modes import Access, Mode
from core.permissions.approval import Approval
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import (
    ApprovalRequested,
    GoalProposal,
    ModeChanged,
    ModeName,
    Notice,
    QuestionAsked,
    ToolOutput,
)
from core.protocol.review import Origin
from core.sandbox.results import CommandResult, JobReport
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.jobs import JobTable
from core.shell.program_run import CallTools, ProgramRun
from core.shell.python_repl import PythonRepl
from core.shell.unsandboxed_run import STOPPED, build_requested_environment, run_unsandboxed
from core.state.goals import build_goal_question, find_accepted_goal
from core.tools.base import EditRequest, GoalReply

MAX_COMMAND_SECONDS = 600.0
NOTE_HINT = "/memory keeps it for later sessions, or drops it."
ENDED_BEFORE = "It had already finished when it was cancelled: its changes stay, and it was not run again."
PROGRAM_STOPPED = "Stopped before it finished, after {}; what they did stays."
MAX_STOPPED_OUTPUT = 4_000  # characters of a stopped command's output in its result


class UserPrompter(Struct, eq=False):
    """ASK: questions to the user. `questions`, `answers`: recorded for the document of the call."""

    _user: UserChannel
    _host: CommandHost
    _call: str
    _lease: CallLease
    is_subagent: bool = False
    title: str = ""
    questions: tuple[Question, ...] = ()
    answers: tuple[QuestionAnswer, ...] = ()

    @property
    def is_reachable(self) -> bool:
        return self._user.is_interactive

    async def ask(self, questions: tuple[Question, ...], title: str = "") -> tuple[QuestionAnswer, ...]:
        self._lease.check()
        self.questions, self.title = questions, title
        request = QuestionAsked(id=new_id("ask"), call=self._call, questions=questions, title=title, lasting=True)
        self.answers = (await self._user.ask(request)).answers
        return self.answers

    async def propose_goal(self, condition: str, check: str) -> GoalReply:
        self._lease.check()
        if self.is_subagent or not self._user.is_interactive:
            reason = "A subagent has no goal of its own." if self.is_subagent else "Nobody can be asked here."
            return GoalReply(refusal=reason)
        goal, proposal = self._host.state.goal, GoalProposal(condition=condition, check=check)
        question = build_goal_question(proposal, replaces=goal.condition if goal and not goal.reason else "")
        self.questions = (question,)
        request = QuestionAsked(
            id=new_id("ask"), call=self._call, questions=self.questions, lasting=True, proposal=proposal
        )
        self.answers = (await self._user.ask(request)).answers
        accepted = find_accepted_goal(request, self.answers)
        if accepted is None:
            return GoalReply(words=" ".join(answer.text for answer in self.answers).strip())
        self._host.emit(accepted)
        return GoalReply(condition=accepted.condition, check=accepted.check)

    async def propose_note(self, text: str, reason: str) -> None:
        self._lease.check()
        if self._host.state.is_private:
            raise ToolFailed("this session is private: nothing in it is saved, and neither are notes.")
        notes = ProjectNotes(self._host.workspace.root)
        note = await asyncio.to_thread(notes.add, text, reason, is_kept=False)
        self._host.emit(Notice(level="info", message=f"A note is waiting for you: {note.text}", hint=NOTE_HINT))

    async def request_mode(self, mode: str, explanation: str) -> bool:
        self._lease.check()
        target_mode = parse_mode(mode)
        if self._host.state.mode == target_mode:
            return True
        request = ApprovalRequested(
            id=new_id("apr"), call=self._call, kind="mode", subject=target_mode, explanation=explanation
        )
        resolution = await self._user.approve(request)
        if resolution.decision not in ALLOWING_DECISIONS:
            return False
        if self._host.state.mode != target_mode:
            self._host.emit(ModeChanged(mode=target_mode, by="agent"))
        return True


class ProgramCalls(Struct, frozen=True):
    """The calls of one program: `call` sends them through the gate; `parameters`: those of every tool, by its name."""

    call: CallTools
    parameters: Callable[[], Mapping[str, Sequence[str]]]


class CommandRunner(Struct, eq=False):
    """EXEC: runs exactly the approved command, once, under the approved conditions. `should_run_again`: asks the user
    after a run; `programs`: runs the calls of a program, which no other command has."""

    _python: PythonRepl
    _permissions: CallPermissions
    _origin: Origin
    _approved: Approval | None
    _lease: CallLease
    is_attended: bool = True  # The user, not a rule alone, approves commands outside the box.
    should_run_again: Callable[[], Awaitable[bool]] | None = None
    programs: ProgramCalls | None = None
    _program: ProgramRun | None = None
    _latest: str = ""
    _is_unsandboxed: bool = False
    _has_ended: bool = False

    async def run_command(self, command: str, *, time_limit: float) -> CommandResult:
        permissions, request = self._build_request(command, min(time_limit, MAX_COMMAND_SECONDS))
        terminal = self._python.terminal
        self._is_unsandboxed = "all" in permissions
        if self._is_unsandboxed:
            environment = build_requested_environment(is_attended=self.is_attended)
            result = await run_unsandboxed(
                terminal.host, request, terminal.shell.directory, environment, self._emit_output
            )
        else:
            result = await terminal.run(request, self._emit_output, self._ask_after_run)
        return replace(result, permissions=permissions)

    async def _ask_after_run(self) -> bool:
        self._has_ended = True
        if self.should_run_again is None or not await self.should_run_again():
            return False
        self._lease.check()
        self._has_ended, self._latest = False, ""
        return True

    async def run_python(self, code: str, approved_subject: str, *, time_limit: float) -> CommandResult:
        self._consume_approval(approved_subject)
        origin = replace(self._origin, command=approved_subject)
        limit = min(time_limit, MAX_COMMAND_SECONDS)
        return await self._python.run(code, origin=origin, time_limit=limit, on_output=self._emit_output)

    async def run_program(self, code: str, approved_subject: str, *, time_limit: float) -> CommandResult:
        self._consume_approval(approved_subject)
        if self.programs is None:
            raise ToolFailed("This call runs no program.")
        self._program = ProgramRun(self._python.terminal, self._origin.call, self.programs.call, self._emit_output)
        limit = min(time_limit, MAX_COMMAND_SECONDS)
        return await self._program.run(code, self.programs.parameters(), time_limit=limit)

    async def start_job(self, command: str, *, wait: float) -> CommandResult:
        self._python.terminal.jobs.check_capacity()
        permissions, request = self._build_request(command, None)
        result = await self._python.terminal.start_job(request, self._emit_output, wait=wait)
        return replace(result, permissions=permissions)

    async def send(self, job: str, text: str, *, wait: float) -> JobReport:
        self._consume_approval(f"{job} <- {text}")
        jobs = self._python.terminal.jobs
        jobs.send(job, text)
        return await jobs.read(job, wait)

    def _build_request(self, command: str, seconds: float | None) -> tuple[tuple[str, ...], CommandRequest]:
        approval = self._consume_approval(command)
        origin = replace(self._origin, command=command)
        keeps_effects = self._python.terminal.keeps_effects()
        request = CommandRequest(command=command, origin=origin, keeps_effects=keeps_effects, time_limit=seconds)
        return approval.permissions, request

    def _consume_approval(self, subject: str) -> Approval:
        self._lease.check()
        approval, self._approved = self._approved, None
        if approval is None or subject != approval.subject:
            raise ToolFailed("This is not the approved command; it was not run.")
        now = self._permissions.build_approval(subject, approval.permissions)
        if now.compute_digest() != approval.compute_digest():
            raise ToolFailed(
                "The mode, directory or environment differs from what was approved; it was not run.",
                hint="Call again.",
            )
        return approval

    def _emit_output(self, text: str) -> None:
        self._latest = (self._latest + text)[-MAX_STOPPED_OUTPUT:]
        self._python.terminal.host.emit(ToolOutput(call=self._origin.call, text=text))

    def describe_interrupt(self, default: str) -> str:
        """Return the result text of a command that the user stopped; `default` if it had not begun."""
        if self._approved is not None:
            return default
        output = f"\nIts output until then:\n{self._latest}" if self._latest.strip() else ""
        stop = STOPPED if self._is_unsandboxed else self._python.terminal.describe_stop()
        if self._program is not None:
            stop = PROGRAM_STOPPED.format(self._program.describe_calls())
        effects = ENDED_BEFORE if self._has_ended else stop
        return f"{effects}{output}"


class JobController(Struct, eq=False):
    """JOB: reads and stops running commands."""

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
    """Return the name of a mode. Raises `ToolInputInvalid` for any other text."""
    if name not in list(Mode):
        raise ToolInputInvalid(f"{name!r} is not a mode.", hint=f"The modes are {', '.join(Mode)}.")
    return name


class CapabilityFactory(Struct, frozen=True, kw_only=True):
    """Builds the capabilities of one turn's calls. `apply_edit`: has a model apply an edit that rules can't place.

    `outward`: opens the capabilities of NET, SPAWN and EXTERNAL, which lead out of session and machine.
    """

    approver: Approver
    python: PythonRepl
    plans: PlanSync
    digests: dict[str, str]
    apply_edit: ApplyEdit
    edits: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    names: NameLookup = NO_LOOKUP
    search: SearchProject = search_nothing
    outward: Mapping[Access, OpenCapability] = {}

    def build(  # noqa: PLR0911 (one return per access)
        self, access: Access, origin: Origin, approval: Approval, lease: CallLease, paths: Sequence[str] = ()
    ) -> object:
        """Build the capability of one call. `approval`: the command for EXEC; `paths`: files that the user approved."""
        permissions, terminal = self.approver.permissions, self.python.terminal
        todo = next((todo.id for todo in terminal.host.state.todos if todo.status == "in_progress"), "")
        match access:
            case Access.READ:
                reader = build_reader(permissions, self.digests, paths, origin.tool)
                reader.names, reader.search_project = self.names, self.search
                return reader
            case Access.ASK:
                is_subagent = permissions.subagent_limits is not None
                return UserPrompter(self.approver.user, terminal.host, origin.call, lease, is_subagent)
            case Access.TODO | Access.PLAN:
                return self.build_todo_editor(origin, lease, with_plans=access is Access.PLAN)
            case Access.EXEC | Access.JOB:
                stamp = replace(origin, todo=todo)
                runner = CommandRunner(self.python, permissions, stamp, approval, lease)
                return runner if access is Access.EXEC else JobController(terminal.jobs, lease)
            case Access.PROBE:
                return DebugCapability(self.approver, self.digests, origin, lease.check)
            case Access.PROPOSE:
                shadow, stamp = terminal.host.shadow, replace(origin, todo=todo)
                return FileEditor(
                    **list_reading(permissions, self.digests, paths, origin.tool),
                    edit=lambda path, data, mode=None: shadow.edit(path, data, stamp, mode),
                    lease=lease,
                    apply_edit=self.apply_edit,
                    versions=EditVersions(shadow.blobs.put, shadow.blobs.get, self.edits),
                    names=self.names,
                    search_project=self.search,
                )
            case Access.NET | Access.SPAWN | Access.EXTERNAL:
                if access not in self.outward:
                    raise ToolFailed("This program can't access that.")
                return self.outward[access](origin, lease)
            case _:
                assert_never(access)

    def build_todo_editor(self, origin: Origin, lease: CallLease, *, with_plans: bool = False) -> TodoEditor:
        """Build a TODO capability, or a PLAN one."""
        editor = PlanFileEditor if with_plans else TodoEditor
        return editor(self.plans, self.approver.user, origin.call, lease.check, self.build_prover(origin, lease))

    def build_prover(self, origin: Origin, lease: CallLease) -> Prove:
        """Build a function that runs a todo's command and returns why it proves nothing; None: it passed."""

        def run(approval: Approval) -> CommandRunner:
            return CommandRunner(self.python, self.approver.permissions, origin, approval, lease)

        return build_prover(self.approver, origin, run)


def build_capabilities(context: TurnContext) -> CapabilityFactory:
    """Build the factory of capabilities for the calls of a turn."""

    async def apply_edit(request: EditRequest) -> str:
        # Only edits that rules can't place need this module, so it is not imported at the start.
        from core.agent.answer.edit_agent import resolve_edit

        return await resolve_edit(context.build_side_requests(), request)

    return CapabilityFactory(
        approver=Approver(context.user, context.permissions, context.emit, context.hooks),
        python=context.python,
        plans=context.plans,
        digests=context.memory.read_digests,
        apply_edit=apply_edit,
        edits=context.memory.edits,
        names=open_lookup(context.languages),
        search=context.search,
        outward=context.outward,
    )
