"""run_terminal_cmd: one shell command in the workspace, after the gate has let it through."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.base import CommandResult, Outcome, Runner, TerminalDetail, Tool

_TIME_LIMIT = 120
_MAX_TIME = 600


class RunTerminalCmd(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "run_terminal_cmd"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {"cmd": "command", "description": "explanation", "time_limit": "timeout"}

    command: Annotated[str, Meta(min_length=1, max_length=100_000, description="What the shell (bash) is to run.")]
    is_background: Annotated[bool, Meta(description="Not available at present: leave it false.")] = False
    timeout: Annotated[int, Meta(ge=1, le=_MAX_TIME, description="Seconds after which the command is ended.")] = (
        _TIME_LIMIT
    )
    explanation: Annotated[str, Meta(description="One sentence for the user: why this is run.")] = ""

    def subject(self) -> str:
        return self.command

    async def run(self, capability: Runner) -> Outcome:
        if self.is_background:
            raise ToolInputInvalid(
                "Background commands are not available yet.",
                hint="Run it in the foreground with a timeout that it can end in, or ask the user to start it.",
            )
        if not self.command.strip() or "\0" in self.command:
            raise ToolInputInvalid("The command is empty or holds a NUL character.", hint="Give a shell command.")
        result = await capability.run_command(self.command, time_limit=float(self.timeout), on_output=_no_listener)
        head = self._head(result)
        detail = TerminalDetail(
            command=self.command,
            directory=".",
            exit_code=result.exit_code,
            output=result.output,
            timed_out=result.timed_out,
        )
        content = f"{head}\n{result.output}" if result.output.strip() else f"{head}\n(no output)"
        return Outcome(content=content, summary=head, detail=detail, failed=result.exit_code is None)

    def _head(self, result: CommandResult) -> str:
        seconds = f"{result.duration_ms / 1000:.1f} s"
        if result.timed_out:
            return f"timed out after {seconds} and was ended; output until then"
        if result.exit_code is None:
            return f"stopped after {seconds}; output until then"
        return f"exit code {result.exit_code} · {seconds}"


def _no_listener(_: str) -> None:
    """Live output reaches the screen from the capability itself."""
