"""The one thing a tool is handed: an object that can do what the tool's Access allows, and nothing beyond it.

What may only read holds functions that read, not the shadow they come from. Every capability dies with its call: a
tool that comes back after it was cancelled or ran out of time can no longer have an effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ParamSpec, TypeVar, assert_never

from msgspec.structs import replace

from core.agent.consent import ALLOWING, approval_of, guard_of
from core.agent.debug_bench import DebugBench
from core.agent.debug_course import refuse_marks
from core.agent.edit_agent import worked_out
from core.agent.edit_detail import detail_of
from core.agent.execution import DROPPED, Order
from core.agent.linting import linted
from core.agent.proving import prover
from core.agent.session import SessionContext, as_mode
from core.agent.spill import read_spilled
from core.agent.task_board import PlanDesk, TaskBoard
from core.errors import ToolFailed
from core.ids import new_id
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import (
    ApprovalRequested,
    ModeChanged,
    QuestionAsked,
    ToolOutput,
)
from core.protocol.review import Origin
from core.shadow import ShadowView
from core.tools.base import CommandResult, DirEntry, EditOrder, FileEditDetail, FileStat, JobReport, LintRun
from core.tools.linters import LintJob

Given = ParamSpec("Given")
Got = TypeVar("Got")
LONGEST_COMMAND = 600.0
SHOWN_WHEN_STOPPED = 4_000  # characters of output that the model is told of a command that was stopped


class Lease:
    """Whether the call that a capability belongs to still runs."""

    def __init__(self) -> None:
        self._over = False

    def end(self) -> None:
        self._over = True

    def check(self) -> None:
        if self._over:
            raise ToolFailed("This call is over; nothing was done.")


def _alone(function: Callable[Given, Got]) -> Callable[Given, Got]:
    """The function without the object that it is a method of."""

    def call(*arguments: Given.args, **named: Given.kwargs) -> Got:
        return function(*arguments, **named)

    return call


class FileReader:
    """READ. Holds reading functions only; `seen` is where it notes what the model has read."""

    __slots__ = ("_check", "_lint", "_list", "_pending", "_read", "_relative", "_root", "_seen", "_spilled", "_stat")

    def __init__(self, session: SessionContext, approved: Sequence[str] = ()) -> None:
        view = ShadowView(session.shadow)
        guard = guard_of(session, approved)
        self._check = _alone(guard.check)
        directory = session.directory
        self._root = view.root
        self._relative = _alone(view.relative)
        self._stat = _alone(view.stat)
        self._read = _alone(view.read_bytes)
        self._list = _alone(view.list_dir)
        self._pending = _alone(view.pending_paths)
        self._spilled = _alone(partial(read_spilled, directory))
        self._lint = _alone(partial(linted, session))
        self._seen = session.seen

    @property
    def root(self) -> str:
        return self._root

    def relative(self, path: str) -> str:
        return self._relative(path)

    def stat(self, path: str) -> FileStat | None:
        self._check(Access.READ, self._relative(path))
        found = self._stat(path)
        return None if found is None else FileStat(kind=found.kind, size=found.size, mode=found.mode)

    def read_bytes(self, path: str, limit: int) -> bytes:
        self._check(Access.READ, self._relative(path))
        return self._read(path, limit)

    def list_dir(self, path: str) -> tuple[DirEntry, ...]:
        return tuple(DirEntry(name=each.name, kind=each.kind, ignored=each.ignored) for each in self._list(path))

    def pending_paths(self) -> Mapping[str, str]:
        return self._pending()

    def spilled(self, path: str) -> bytes | None:
        return self._spilled(path)

    def mark_read(self, path: str) -> None:
        self._seen[self._relative(path)] = self._digest(path)

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        return await self._lint(job, pending=pending)

    def _digest(self, path: str) -> str:
        return hashlib.sha256(self._read(path, 1 << 26)).hexdigest()


class FileEditor(FileReader):
    """PROPOSE: reading, and writes that land in the shadow."""

    __slots__ = ("_delete", "_lease", "_work_out", "_write")

    def __init__(self, session: SessionContext, origin: Origin, lease: Lease, approved: Sequence[str] = ()) -> None:
        super().__init__(session, approved)
        view = ShadowView(session.shadow, origin)
        self._write = view.write
        self._delete = view.delete
        self._work_out = partial(worked_out, session)
        self._lease = lease

    def write(self, path: str, data: bytes) -> FileEditDetail:
        self._lease.check()
        self._check(Access.PROPOSE, self._relative(path))
        refuse_marks(data)
        edited = self._write(path, data)
        self._seen[self._relative(path)] = hashlib.sha256(data).hexdigest()
        return detail_of(self._relative(path), edited.before, edited.after)

    def delete(self, path: str) -> FileEditDetail:
        self._lease.check()
        self._check(Access.PROPOSE, self._relative(path))
        edited = self._delete(path)
        self._seen.pop(self._relative(path), None)
        return detail_of(self._relative(path), edited.before, edited.after)

    def seen_current(self, path: str) -> bool:
        return self._seen.get(self._relative(path)) == self._digest(path)

    async def work_out(self, order: EditOrder) -> str:
        self._lease.check()
        return await self._work_out(order)


class UserDesk:
    """ASK. Keeps what was asked and answered for the document of the call."""

    def __init__(self, session: SessionContext, call: str, lease: Lease) -> None:
        self._session = session
        self._call = call
        self._lease = lease
        self.title = ""
        self.questions: tuple[Question, ...] = ()
        self.answers: tuple[QuestionAnswer, ...] = ()

    @property
    def reachable(self) -> bool:
        return self._session.interactive

    async def ask(self, questions: tuple[Question, ...], title: str = "") -> tuple[QuestionAnswer, ...]:
        self._lease.check()
        self.questions, self.title = questions, title
        asked = QuestionAsked(id=new_id("ask"), call=self._call, questions=questions, title=title, lasting=True)
        answered = await self._session.ask(asked)
        self.answers = answered.answers
        return answered.answers

    async def request_mode(self, mode: str, explanation: str) -> bool:
        self._lease.check()
        wanted = as_mode(mode)
        if self._session.state.mode == wanted:
            return True
        request = ApprovalRequested(
            id=new_id("apr"), call=self._call, kind="mode", subject=wanted, explanation=explanation
        )
        resolved = await self._session.approve(request)
        if resolved.decision not in ALLOWING:
            return False
        if self._session.state.mode != wanted:
            self._session.emit(ModeChanged(mode=wanted, by="agent"))
        return True


class CommandRunner:
    """EXEC: exactly the command that was approved, once, where it was approved to run."""

    def __init__(self, session: SessionContext, origin: Origin, approved: Approval, lease: Lease) -> None:
        self._session = session
        self._origin = origin
        self._approved: Approval | None = approved
        self._lease = lease
        self._latest = ""

    async def run_command(self, command: str, *, time_limit: float, on_output: Callable[[str], None]) -> CommandResult:
        order = self._order(command, min(time_limit, LONGEST_COMMAND))

        def shown(text: str) -> None:
            self._show(text)
            on_output(text)

        return await self._session.terminal.run(order, shown)

    async def run_python(self, code: str, approved: str, *, time_limit: float) -> CommandResult:
        self._take(approved)
        origin = replace(self._origin, command=approved)
        limit = min(time_limit, LONGEST_COMMAND)
        return await self._session.python().run(code, origin=origin, time_limit=limit, on_output=self._show)

    async def start_job(self, command: str, *, wait: float) -> CommandResult:
        self._session.terminal.jobs.check_room()
        return await self._session.terminal.start(self._order(command, None), self._show, wait=wait)

    async def send(self, job: str, text: str, *, wait: float) -> JobReport:
        self._take(f"{job} <- {text}")
        jobs = self._session.terminal.jobs
        jobs.send(job, text)
        return await jobs.read(job, wait)

    def _order(self, command: str, seconds: float | None) -> Order:
        self._take(command)
        origin = replace(self._origin, command=command)
        return Order(command=command, origin=origin, keeps=self._session.terminal.keeps(), seconds=seconds)

    def _take(self, subject: str) -> None:
        self._lease.check()
        approved, self._approved = self._approved, None
        if approved is None or subject != approved.subject:
            raise ToolFailed("This is not the command that was approved; it was not run.")
        if approval_of(self._session, subject).digest() != approved.digest():
            raise ToolFailed(
                "The mode, the directory or the environment is not the one that was approved; it was not run.",
                hint="Call again.",
            )

    def _show(self, text: str) -> None:
        self._latest = (self._latest + text)[-SHOWN_WHEN_STOPPED:]
        self._session.emit(ToolOutput(call=self._origin.call, text=text))

    def cut_short(self, otherwise: str) -> str:
        """What the model is told of a command that the user stopped."""
        if self._approved is not None or not self._session.contained:
            return otherwise
        output = f"\nIts output until then:\n{self._latest}" if self._latest.strip() else ""
        return f"{DROPPED}{output}"


class JobKeeper:
    """JOB: to see commands that run already, and to end them."""

    def __init__(self, session: SessionContext, lease: Lease) -> None:
        self._jobs = session.terminal.jobs
        self._lease = lease

    def list(self) -> tuple[JobReport, ...]:
        return self._jobs.list()

    async def read(self, job: str, wait: float) -> JobReport:
        self._lease.check()
        return await self._jobs.read(job, wait)

    async def stop(self, job: str, *, interrupt: bool) -> JobReport:
        self._lease.check()
        return await self._jobs.stop(job, interrupt=interrupt)


def capability_for(
    session: SessionContext, access: Access, origin: Origin, approval: Approval, lease: Lease, paths: Sequence[str] = ()
) -> object:
    """The capability of one Access for one call. `approval`: what an EXEC call may run; `paths`: files that the user
    said yes to."""
    match access:
        case Access.READ:
            return FileReader(session, paths)
        case Access.ASK:
            return UserDesk(session, origin.call, lease)
        case Access.TODO | Access.PLAN:
            desk = TaskBoard if access is Access.TODO else PlanDesk
            prove = prover(session, origin.call, lambda yes: CommandRunner(session, origin, yes, lease))
            return desk(session, origin.call, lease.check, prove)
        case Access.PROPOSE:
            return FileEditor(session, replace(origin, todo=_in_progress(session)), lease, paths)
        case Access.EXEC | Access.JOB:
            runner = CommandRunner(session, replace(origin, todo=_in_progress(session)), approval, lease)
            return runner if access is Access.EXEC else JobKeeper(session, lease)
        case Access.PROBE:
            return DebugBench(session, origin, lease.check)
        case Access.NET | Access.SPAWN | Access.EXTERNAL:
            raise ToolFailed("This program has no such access.")
        case _:
            assert_never(access)


def _in_progress(session: SessionContext) -> str:
    return next((todo.id for todo in session.state.todos if todo.status == "in_progress"), "")
