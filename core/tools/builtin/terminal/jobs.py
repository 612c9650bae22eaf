"""The tools for jobs, which are commands in the background: read their output, type into them, stop them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.modes import Access
from core.sandbox.results import JobReport, describe_end
from core.tools.base import JobWatcher, Runner, Tool, ToolOutcome
from core.tools.builtin.terminal.command_arguments import JOB_NAMES, adapt_wait

_MAX_WAIT = 300


def describe_job(report: JobReport) -> str:
    """Describe a job in one line."""
    seconds = f"{report.duration_ms / 1000:.1f} s"
    result = report.result
    if result is None:
        return f"{report.id} runs since {seconds}"
    return f"{report.id} ended: {describe_end(result.exit_code, result.ended)} · {seconds}"


def format_job_outcome(report: JobReport) -> ToolOutcome:
    """Return the job's state, its output since the last read, and its effects if it has ended."""
    head = describe_job(report)
    parts = [head, report.output.rstrip("\n") if report.output.strip() else "(no new output)"]
    if report.result is not None:
        parts += [*report.result.notes, *([f"[{report.result.effects}]"] if report.result.effects else [])]
    return ToolOutcome(content="\n".join(parts), summary=head)


class ReadTerminal(Tool[JobWatcher], frozen=True, kw_only=True):
    name: ClassVar[str] = "read_terminal"
    access: ClassVar[Access] = Access.JOB
    argument_names: ClassVar = {**JOB_NAMES, "timeout": "wait", "WaitDurationSeconds": "wait"}
    ignored_arguments: ClassVar = frozenset(("wait_up_to", "active_only", "limit", "toolSummary"))
    ignores_unknown: ClassVar = True

    job: Annotated[str, Meta(description="The job's id, like job_1; all jobs if left out.")] = ""
    wait: Annotated[int, Meta(ge=0, le=_MAX_WAIT, description="Seconds to wait for its end, at most 300.")] = 0

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return adapt_wait(arguments, _MAX_WAIT)

    def subject(self) -> str:
        return self.job or "all jobs"

    async def run(self, capability: JobWatcher) -> ToolOutcome:
        if self.job:
            return format_job_outcome(await capability.read(self.job, float(self.wait)))
        jobs = capability.list()
        lines = [f"{describe_job(job)} · {job.command}" for job in jobs]
        alive = sum(job.result is None for job in jobs)
        return ToolOutcome(content="\n".join(lines) or "There are no jobs.", summary=f"{alive} of {len(jobs)} running")


class WriteTerminal(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "write_terminal"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {**JOB_NAMES, **dict.fromkeys(("input", "chars", "input_text", "command"), "text")}
    ignored_arguments: ClassVar = frozenset(("max_output_tokens",))
    assumed_arguments: ClassVar = {"is_input": True}

    job: Annotated[str, Meta(min_length=1, description="The job's id, like job_1.")]
    text: Annotated[str, Meta(min_length=1, max_length=100_000, description="What to type; end a line with a newline.")]
    wait: Annotated[int, Meta(ge=0, le=_MAX_WAIT, description="Seconds to watch it, at most 300 (default 1).")] = 1
    explanation: Annotated[str, Meta(description="For the user: why this is sent, in one sentence.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return adapt_wait(arguments, _MAX_WAIT)

    def subject(self) -> str:
        return f"{self.job} <- {self.text}"

    async def run(self, capability: Runner) -> ToolOutcome:
        return format_job_outcome(await capability.send(self.job, self.text, wait=float(self.wait)))


class StopTerminal(Tool[JobWatcher], frozen=True, kw_only=True):
    name: ClassVar[str] = "stop_terminal"
    access: ClassVar[Access] = Access.JOB
    argument_names: ClassVar = JOB_NAMES
    ignored_arguments: ClassVar = frozenset(("reason",))

    job: Annotated[str, Meta(min_length=1, description="The job's id, like job_1.")]
    interrupt: Annotated[bool, Meta(description="Only send Ctrl+C; the job may keep running.")] = False

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return adapt_wait(arguments, _MAX_WAIT)

    def subject(self) -> str:
        return f"{self.job} (ctrl+c)" if self.interrupt else self.job

    async def run(self, capability: JobWatcher) -> ToolOutcome:
        return format_job_outcome(await capability.stop(self.job, interrupt=self.interrupt))
