"""write_terminal: text for the standard input of a job. It is asked about like a command, because it may be one."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.modes import Access
from core.tools.base import Runner, Tool, ToolOutcome
from core.tools.builtin.terminal.job_outcome import format_job_outcome

_MAX_WAIT = 300


class WriteTerminal(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "write_terminal"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {"bash_id": "job", "id": "job", "input": "text"}

    job: Annotated[str, Meta(min_length=1, description="The id of the job, such as job_1.")]
    text: Annotated[str, Meta(min_length=1, max_length=100_000, description="What to type; end a line with a newline.")]
    wait: Annotated[int, Meta(ge=0, le=_MAX_WAIT, description="Seconds to look at it, at most 300 (default 1).")] = 1
    explanation: Annotated[str, Meta(description="One sentence for the user: why this is sent.")] = ""

    def subject(self) -> str:
        return f"{self.job} <- {self.text}"

    async def run(self, capability: Runner) -> ToolOutcome:
        return format_job_outcome(await capability.send(self.job, self.text, wait=float(self.wait)))
