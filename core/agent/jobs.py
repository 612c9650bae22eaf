"""Commands in the background: each in a box of its own, listed, and gone with the session (SAFETY S9)."""

from __future__ import annotations

import asyncio

from core.agent.execution import Execution, Ground
from core.clock import monotonic
from core.errors import AgentTuiError, ToolFailed, ToolInputInvalid
from core.protocol.events import ErrorRaised, JobEnded, JobStarted, TerminalReported
from core.sandbox.result import CommandResult, JobReport

MAX_JOBS = 16
MAX_REMEMBERED = 50
INTERRUPT_TIME = 2.0  # seconds that an interrupted job has to end before its reader is told that it goes on


class Job:
    """One of them. `seen`: how much of its output the model has read; `task` ends with it."""

    def __init__(self, name: str, execution: Execution, directory: str) -> None:
        self.id = name
        self.execution = execution
        self.directory = directory
        self.started = monotonic()
        self.seen = 0
        self.result: CommandResult | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self.result is None

    @property
    def command(self) -> str:
        return self.execution.order.command


class Jobs:
    """The jobs of a session, those that ended too, as long as the program runs."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._jobs: dict[str, Job] = {}

    @property
    def alive(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.alive]

    def check_room(self) -> None:
        """`ToolFailed` when another one would be too many."""
        if len(self.alive) >= MAX_JOBS:
            raise ToolFailed(f"{MAX_JOBS} commands run in the background already.", hint="Stop one of them first.")

    def take(self, execution: Execution, directory: str) -> Job:
        """A command that was begun goes on as a job."""
        order = execution.order
        job = Job(f"job_{self._ground.state.job_count + 1}", execution, directory)
        self._jobs[job.id] = job
        for name in [each.id for each in self._jobs.values() if not each.alive][:-MAX_REMEMBERED]:
            del self._jobs[name]
        self._ground.emit(JobStarted(id=job.id, call=order.origin.call, command=order.command, directory=job.directory))
        job.task = asyncio.create_task(self._follow(job), name=job.id)
        return job

    async def _follow(self, job: Job) -> None:
        """Until its end, whatever that is; then its effects are taken in and everybody is told."""
        execution = job.execution
        try:
            result = await execution.end()
        except asyncio.CancelledError:
            await execution.abandon()
            raise
        except Exception as problem:  # its effects could not be taken in: that is the end of it, too
            known = problem if isinstance(problem, AgentTuiError) else ToolFailed(f"{type(problem).__name__}.")
            self._ground.emit_apart(ErrorRaised(code=known.code, message=known.message, hint=known.hint))
            result = CommandResult(
                exit_code=None, output=execution.output.text(), duration_ms=0, ended="lost", effects=known.message
            )
        job.result = result
        self._ground.emit_apart(
            JobEnded(
                id=job.id,
                command=job.command,
                ended=result.ended,
                exit_code=result.exit_code,
                duration_ms=result.duration_ms,
                effects=result.effects,
            )
        )

    # what the model does with them

    def job(self, name: str) -> Job:
        found = self._jobs.get(name)
        if found is None:
            known = ", ".join(self._jobs) or "there is none"
            raise ToolInputInvalid(f"There is no job {name!r}.", hint=f"The jobs are: {known}.")
        return found

    def list(self) -> tuple[JobReport, ...]:
        return tuple(self._report(job) for job in self._jobs.values())

    def _report(self, job: Job, output: str = "") -> JobReport:
        duration = job.result.duration_ms if job.result else round((monotonic() - job.started) * 1000)
        return JobReport(
            id=job.id,
            command=job.command,
            directory=job.directory,
            duration_ms=duration,
            output=output,
            result=job.result,
        )

    async def read(self, name: str, wait: float = 0.0) -> JobReport:
        """What it wrote since it was last read, after its end or `wait` seconds, whichever comes first."""
        job = self.job(name)
        if job.alive and wait > 0 and job.task is not None:
            await asyncio.wait({job.task}, timeout=wait)
        output = job.execution.output.since(job.seen)
        job.seen = job.execution.output.total
        if not job.alive:
            self._ground.emit(TerminalReported(ids=(job.id,)))
        return self._report(job, output)

    def send(self, name: str, text: str) -> None:
        """Put text on its standard input."""
        job = self._living(name)
        assert job.execution.running is not None
        job.execution.running.send(text.encode("utf-8", "surrogateescape"))

    async def stop(self, name: str, *, interrupt: bool = False) -> JobReport:
        """End it; with `interrupt` as Ctrl+C does, so that it may go on. Its effects are kept for the review."""
        job = self._living(name)
        assert job.execution.running is not None
        assert job.task is not None
        if interrupt:
            job.execution.running.interrupt()
            return await self.read(name, INTERRUPT_TIME)
        await job.execution.running.stop()
        await asyncio.wait({job.task})
        return await self.read(name)

    def _living(self, name: str) -> Job:
        job = self.job(name)
        if not job.alive:
            raise ToolFailed(f"{name} has ended already.", hint="read_terminal gives its output.")
        return job

    async def end(self, name: str) -> None:
        """End it for the user: the model is told, for it has not read it."""
        job = self._jobs.get(name)
        if job is not None and job.alive and job.execution.running is not None and job.task is not None:
            await job.execution.running.stop()
            await asyncio.wait({job.task})

    async def close(self) -> None:
        """End all of them; what they did is taken in."""
        living = [job for job in self.alive if job.execution.running is not None and job.task is not None]
        await asyncio.gather(*(job.execution.running.stop() for job in living if job.execution.running))
        if tasks := {job.task for job in living if job.task}:
            await asyncio.wait(tasks)
