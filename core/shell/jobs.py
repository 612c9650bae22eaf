"""Background commands, which run in separate boxes, are listed, and end with the session.

A job that can't see later changes of the project is restarted to see them: a server by itself (between two commands of
a turn, and when the project has been quiet for a moment outside of turns), others if the user has chosen that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from core.clock import monotonic
from core.errors import AgentTuiError, ToolFailed, ToolInputInvalid
from core.ids import new_id
from core.protocol.events import ErrorRaised, JobEnded, JobRestarted, JobStarted, TerminalReported
from core.sandbox.results import CommandResult, JobReport
from core.shell.command_host import CommandHost
from core.shell.execution import Execution
from core.tasks import TaskOwner
from core.text.counting import count

MAX_JOBS = 16
MAX_ENDED_JOBS = 50
MAX_TAIL_LINES = 40  # of the output, which the end of a job carries
MAX_TAIL = 4_000  # characters
UPDATE_SECONDS = 0.05  # after a change of the project, until running jobs see it with all that came since
QUIET_SECONDS: Final = 0.5  # without a change of the project, until jobs are restarted for it outside of turns
LISTEN_SECONDS: Final = 10.0  # for which a restarted server may take to listen again, before a command goes on
NOTHING_NEW = "it has written nothing new"
INTERRUPT_PATIENCE = 2.0  # seconds to wait for the end of an interrupted job before it is reported as running


class BackgroundJob:
    """A command in the background. `task` ends with it. `restarts_on_edit`: the user's choice, None = a server does.
    `restart` is set while it is being restarted, for `missed_count` paths that it did not see."""

    task: asyncio.Task[None]

    def __init__(self, name: str, execution: Execution, directory: str) -> None:
        assert execution.running is not None
        self.id = name
        self.execution, self.running = execution, execution.running
        self.directory = directory
        self.started = monotonic()
        self.result: CommandResult | None = None
        self.restarts_on_edit: bool | None = None
        self.restart_count = self.missed_count = 0
        self.restart: asyncio.Event | None = None
        self.is_ending = False

    @property
    def is_alive(self) -> bool:
        return self.result is None

    @property
    def command(self) -> str:
        return self.execution.request.command


class JobTable:
    """The jobs of a session, including ended ones, for the life of the program."""

    def __init__(self, host: CommandHost) -> None:
        self._host = host
        self._jobs: dict[str, BackgroundJob] = {}
        self._tasks = TaskOwner()
        self._update_is_due = self._restart_is_due = False
        self._change_count = 0

    @property
    def running_jobs(self) -> list[BackgroundJob]:
        return [job for job in self._jobs.values() if job.is_alive]

    def __contains__(self, name: str) -> bool:
        return name in self._jobs

    def check_capacity(self) -> None:
        """Raise `ToolFailed` if the maximum number of jobs runs already."""
        if len(self.running_jobs) >= MAX_JOBS:
            raise ToolFailed(f"{MAX_JOBS} background commands are already running.", hint="Stop one of them first.")

    def adopt(self, execution: Execution, directory: str) -> BackgroundJob:
        """Continue a started command as a job."""
        request = execution.request
        job = BackgroundJob(f"job_{self._host.state.job_count + 1}", execution, directory)
        self._jobs[job.id] = job
        for name in [background_job.id for background_job in self._jobs.values() if not background_job.is_alive][
            :-MAX_ENDED_JOBS
        ]:
            del self._jobs[name]
        self._host.emit(
            JobStarted(id=job.id, call=request.origin.call, command=request.command, directory=job.directory)
        )
        job.task = self._tasks.start(self._watch(job), name=job.id)
        return job

    async def _watch(self, job: BackgroundJob) -> None:
        """Wait for a job's end, absorb its effects and emit the end event."""
        try:
            result = await self._run(job)
            while job.restart is not None and not job.is_ending:
                await self._begin_again(job, job.restart)
                result = await self._run(job)
        except asyncio.CancelledError:
            await job.execution.abort()
            raise
        except Exception as problem:  # absorbing its effects or starting it again failed, which ends the job, too
            error = problem if isinstance(problem, AgentTuiError) else ToolFailed(f"{type(problem).__name__}.")
            self._host.emit_outside_turn(ErrorRaised(code=error.code, message=error.message, hint=error.hint))
            output = job.execution.output.render_text()
            result = CommandResult(exit_code=None, output=output, duration_ms=0, ended="lost", effects=error.message)
        job.result = result
        if job.restart is not None:
            job.restart.set()
        tail = _get_last_lines(result.output, MAX_TAIL_LINES)[-MAX_TAIL:]
        self._host.emit_outside_turn(
            JobEnded(
                id=job.id,
                command=job.command,
                ended=result.ended,
                exit_code=result.exit_code,
                duration_ms=result.duration_ms,
                effects=result.effects,
                output=tail.strip("\n"),
                is_cut=len(tail) < len(result.output.rstrip("\n")),
                spilled=result.spilled_path,
            )
        )

    # restarts

    async def restart(self, name: str) -> None:
        """End a job, absorb its effects, and start its command again where it was started, over the project as it is
        now. Raises `AgentTuiError`."""
        await self._restart(self._get_running(name))

    async def _restart(self, job: BackgroundJob) -> None:
        """Restart a job, and wait until it listens again if it did."""
        if job.restart is not None:
            await job.restart.wait()
            return
        restart = job.restart = asyncio.Event()
        job.missed_count = job.execution.missed_count
        ports = self._host.network.list_ports(job.running.pid)
        await job.running.stop()
        await restart.wait()
        if ports and job.is_alive:
            listening = asyncio.create_task(self._host.network.wait_for_ports(ports, job.running.pid))
            await asyncio.wait({listening, job.task}, timeout=LISTEN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            listening.cancel()

    async def _run(self, job: BackgroundJob) -> CommandResult:
        """Wait until a job's command ends, and absorb its effects. If it is restarted, others are not restarted to see
        these: two servers that log their start would restart each other forever."""
        box_result = await job.execution.wait()
        shadow = self._host.shadow
        states, layers = shadow.list_visible_states(), shadow.layers.retained.layers
        result = job.execution.settle(box_result)
        if job.restart is not None:
            for other in self.running_jobs:
                if other is not job and other.running.edits is None and other.execution.live is not None:
                    other.execution.live.skip_changes(states, layers)
        return result

    async def _begin_again(self, job: BackgroundJob, restart: asyncio.Event) -> None:
        """Start a job's command again; its new output follows what nobody has read of the old one. Raises
        `AgentTuiError`."""
        old, changed_count = job.execution, job.missed_count
        request = replace(old.request, output_name=new_id("out"))
        execution = Execution(self._host, request, old.shell, lambda _: None)
        note = f"[restarted: {count('later change', changed_count)} of the project]" if changed_count else "[restarted]"
        unread = old.output.read_new().rstrip("\n")
        execution.output.add("\n".join(filter(None, (unread, note, ""))) + "\n")
        box = await self._host.box.find()
        assert box is not None
        await execution.begin(box)
        assert execution.running is not None
        job.execution, job.running, job.started = execution, execution.running, monotonic()
        job.restart_count += 1
        self._host.emit_outside_turn(JobRestarted(id=job.id, changed=changed_count))
        restart.set()
        job.restart = None
        if job.is_ending:
            await job.running.stop()

    def restarts_on_edit(self, job: BackgroundJob) -> bool:
        """True if the job is restarted when the project changes in ways that it can't see."""
        if job.restarts_on_edit is not None:
            return job.restarts_on_edit
        return not job.execution.request.is_driven and bool(self._host.network.list_ports(job.running.pid))

    def set_restarts_on_edit(self, name: str, *, is_on: bool) -> None:
        """Set whether a job is restarted when the project changes in ways that it can't see. Raises `AgentTuiError`."""
        self._get_running(name).restarts_on_edit = is_on
        self.update_views_soon()

    async def _restart_stale_jobs(self) -> None:
        stale = [job for job in self.running_jobs if job.execution.missed_count and self.restarts_on_edit(job)]
        await asyncio.gather(*map(self._restart, stale))

    # the project around running jobs

    async def update_views(self) -> None:
        """Let the running jobs see what has changed in the project; those that can't are restarted."""
        await self._send_edits()
        await self._restart_stale_jobs()

    async def _send_edits(self) -> None:
        for job in self.running_jobs:
            if job.execution.live is not None:
                await job.execution.live.update()

    def update_views_soon(self) -> None:
        """Let the running jobs see a change of the project, once all changes of this moment are made. Jobs are
        restarted for it after the turn: the next one of a sequence of edits would restart them again."""
        self._change_count += 1
        if self.running_jobs and not self._update_is_due:
            self._update_is_due = True
            self._tasks.spawn(self._update_views_once(), name="showing changes to jobs")

    def note_disk_changes(self, paths: tuple[str, ...]) -> None:
        """Let the running jobs see changes of the user's own files (none: too many to name)."""
        for job in self.running_jobs:
            if job.execution.live is not None:
                job.execution.live.note_disk_changes(paths)
        self.update_views_soon()

    async def _update_views_once(self) -> None:
        await asyncio.sleep(UPDATE_SECONDS)
        self._update_is_due = False
        await self._send_edits()
        if not self._restart_is_due:
            self._restart_is_due = True
            self._tasks.spawn(self._restart_when_quiet(), name="restarting jobs")

    async def _restart_when_quiet(self) -> None:
        try:
            change_count = -1
            while change_count != self._change_count:
                change_count = self._change_count
                await asyncio.sleep(QUIET_SECONDS)
        finally:
            self._restart_is_due = False
        if self._host.state.current_turn is None:  # else its next command does, or its end
            await self._restart_stale_jobs()

    async def absorb(self, name: str) -> str:
        """Take in what a running job has written so far; return a line about it. Raises `AgentTuiError`."""
        return await self._get_running(name).execution.absorb_new_changes() or NOTHING_NEW

    # tools of the model

    def get_job(self, name: str) -> BackgroundJob:
        job = self._jobs.get(name)
        if job is None:
            names = ", ".join(self._jobs) or "there is none"
            raise ToolInputInvalid(f"There is no job {name!r}.", hint=f"The jobs are: {names}.")
        return job

    def list(self) -> tuple[JobReport, ...]:
        return tuple(self._build_report(job) for job in self._jobs.values())

    def list_with_output(self, lines: int) -> tuple[JobReport, ...]:
        """Return all jobs with the last lines of their output; for the user, so it does not count as read by the
        model."""
        return tuple(
            self._build_report(job, _get_last_lines(job.execution.output.render_text(), lines)) for job in self
        )

    def __iter__(self) -> Iterator[BackgroundJob]:
        return iter(self._jobs.values())

    def _build_report(self, job: BackgroundJob, output: str = "") -> JobReport:
        result, directory = job.result, job.directory
        duration = result.duration_ms if result else round((monotonic() - job.started) * 1000)
        return JobReport(
            id=job.id, command=job.command, directory=directory, duration_ms=duration, output=output, result=result
        )

    async def read(self, name: str, wait: float = 0.0) -> JobReport:
        """Return the output since the last read, after the job's end or `wait` seconds, whichever comes first."""
        job = self.get_job(name)
        if job.is_alive and wait > 0:
            await asyncio.wait({job.task}, timeout=wait)
        output = job.execution.output.read_new()
        if not job.is_alive:
            self._host.emit(TerminalReported(ids=(job.id,)))
        return self._build_report(job, output)

    def send(self, name: str, text: str) -> None:
        """Write text to the job's standard input."""
        self._get_running(name).running.send(text.encode("utf-8", "surrogateescape"))

    async def stop(self, name: str, *, interrupt: bool = False) -> JobReport:
        """End a job; with `interrupt` as Ctrl+C does, which it may survive. Its effects wait for review."""
        job = self._get_running(name)
        if interrupt:
            job.running.interrupt()
            return await self.read(name, INTERRUPT_PATIENCE)
        await _end_job(job)
        return await self.read(name)

    def _get_running(self, name: str) -> BackgroundJob:
        job = self.get_job(name)
        if not job.is_alive:
            raise ToolFailed(f"{name} has already ended.", hint="read_terminal shows its output.")
        return job

    async def end(self, name: str) -> None:
        """End a job for the user. The model is notified, since it has not read the output."""
        job = self._jobs.get(name)
        if job is not None and job.is_alive:
            await _end_job(job)

    async def close(self) -> None:
        """End all jobs and absorb their effects."""
        await asyncio.gather(*map(_end_job, self.running_jobs))


def _get_last_lines(text: str, lines: int) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-lines:]) if lines > 0 else ""


async def _end_job(job: BackgroundJob) -> None:
    job.is_ending = True
    await job.running.stop()
    await asyncio.wait({job.task})
