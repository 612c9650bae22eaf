"""write_terminal: text for the standard input of a job. It is asked about like a command, because it may be one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.modes import Access
from core.tools.base import Runner, Tool, ToolOutcome
from core.tools.builtin.terminal.command_arguments import JOB_NAMES, adapt_wait
from core.tools.builtin.terminal.job_outcome import format_job_outcome

_MAX_WAIT = 300


class WriteTerminal(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "write_terminal"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {**JOB_NAMES, "input": "text", "chars": "text"}
    ignored_arguments: ClassVar = frozenset(("max_output_tokens",))

    job: Annotated[str, Meta(min_length=1, description="The id of the job, such as job_1.")]
    text: Annotated[str, Meta(min_length=1, max_length=100_000, description="What to type; end a line with a newline.")]
    wait: Annotated[int, Meta(ge=0, le=_MAX_WAIT, description="Seconds to look at it, at most 300 (default 1).")] = 1
    explanation: Annotated[str, Meta(description="One sentence for the user: why this is sent.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return adapt_wait(arguments, _MAX_WAIT)

    def subject(self) -> str:
        return f"{self.job} <- {self.text}"

    async def run(self, capability: Runner) -> ToolOutcome:
        return format_job_outcome(await capability.send(self.job, self.text, wait=float(self.wait)))
