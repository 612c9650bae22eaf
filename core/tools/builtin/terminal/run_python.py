"""run_python: a block of Python in a session that lives on, for the `<execute_ipython>` of the tags dialect."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.base import Runner, TerminalDetail, Tool, ToolOutcome

_TIME_LIMIT = 120
_MAX_TIME = 600


class RunPython(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "run_python"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {"time_limit": "timeout", "source": "code"}

    code: Annotated[str, Meta(min_length=1, max_length=100_000, description="The block.")]
    timeout: Annotated[int, Meta(ge=1, le=_MAX_TIME, description="Seconds after which it is interrupted.")] = (
        _TIME_LIMIT
    )

    def subject(self) -> str:
        """As a shell command that says the same, so that rules and the user's consent read it as what it is."""
        return f"python3 <<'PYTHON'\n{self.code}\nPYTHON"

    async def run(self, capability: Runner) -> ToolOutcome:
        if not self.code.strip():
            raise ToolInputInvalid("The block is empty.", hint="Give Python to run.")
        result = await capability.run_python(self.code, self.subject(), time_limit=float(self.timeout))
        seconds = f"{result.duration_ms / 1000:.1f} s"
        if result.exit_code is None:
            head = f"{'timed out' if result.timed_out else 'ended'} after {seconds}"
        else:
            head = f"{'ran' if result.exit_code == 0 else 'raised an exception'} · {seconds}"
        detail = TerminalDetail(
            command=self.code,
            directory=".",
            exit_code=result.exit_code,
            output=result.output,
            timed_out=result.timed_out,
        )
        content = result.output if result.output.strip() else "(no output)"
        return ToolOutcome(content=content, summary=head, detail=detail, failed=result.exit_code is None)
