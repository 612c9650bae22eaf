"""read_terminal: the jobs there are, or what one of them wrote since it was last read."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.modes import Access
from core.tools.base import JobWatcher, Tool, ToolOutcome
from core.tools.builtin.terminal.command_arguments import JOB_NAMES, adapt_wait
from core.tools.builtin.terminal.job_outcome import describe_job, format_job_outcome

_MAX_WAIT = 300


class ReadTerminal(Tool[JobWatcher], frozen=True, kw_only=True):
    name: ClassVar[str] = "read_terminal"
    access: ClassVar[Access] = Access.JOB
    argument_names: ClassVar = {**JOB_NAMES, "timeout": "wait"}
    ignored_arguments: ClassVar = frozenset(("filter", "wait_up_to"))

    job: Annotated[str, Meta(description="The id of the job, such as job_1. Leave it out for a list of all jobs.")] = ""
    wait: Annotated[int, Meta(ge=0, le=_MAX_WAIT, description="Seconds to wait for its end first, at most 300.")] = 0

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
