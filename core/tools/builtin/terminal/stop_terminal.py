"""stop_terminal: the end of a job, or Ctrl+C for it. What it changed waits for the review."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.modes import Access
from core.tools.base import JobWatcher, Tool, ToolOutcome
from core.tools.builtin.terminal.command_arguments import JOB_NAMES
from core.tools.builtin.terminal.job_outcome import format_job_outcome


class StopTerminal(Tool[JobWatcher], frozen=True, kw_only=True):
    name: ClassVar[str] = "stop_terminal"
    access: ClassVar[Access] = Access.JOB
    argument_names: ClassVar = JOB_NAMES

    job: Annotated[str, Meta(min_length=1, description="The id of the job, such as job_1.")]
    interrupt: Annotated[bool, Meta(description="Only send Ctrl+C; the job may handle it and go on.")] = False

    def subject(self) -> str:
        return f"{self.job} (ctrl+c)" if self.interrupt else self.job

    async def run(self, capability: JobWatcher) -> ToolOutcome:
        return format_job_outcome(await capability.stop(self.job, interrupt=self.interrupt))
