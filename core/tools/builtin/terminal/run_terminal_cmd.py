"""The tools that run something now: a shell command in the workspace, a block of Python in a lasting session, or a
program that calls the other tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.modes import Access
from core.permissions.approval import RequestedPermission, check_requested, list_requested
from core.sandbox.results import CommandResult
from core.tools.base import Runner, TerminalDetail, Tool, ToolOutcome
from core.tools.builtin.terminal.command_arguments import LONGEST_SECONDS, adapt_command

UNCHANGED = "[changed nothing]"  # needs no line in a dialect without room for notes
_TIME_LIMIT = 120
_FIRST_LOOK = 1
_ENDS = {
    "timed_out": "timed out after {} and was ended; output until then",
    "flooded": "ended after {}: too much output; output until then",
    "out_of_memory": "ended after {}: out of memory; output until then",
    "disk_full": "ended after {}: no room for what it writes; output until then",
    "lost": "the sandbox ended after {}, and the command with it; output until then",
}
_MAX_TIME = 600


class RunTerminalCmd(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "run_terminal_cmd"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {
        **dict.fromkeys(("cmd", "CommandLine"), "command"),
        **dict.fromkeys(("description", "justification"), "explanation"),
        **dict.fromkeys(("time_limit", "timeout_secs", "max_wait_seconds"), "timeout"),
        "run_in_background": "is_background",
        **dict.fromkeys(("workdir", "directory", "dir_path", "cwd", "cd", "working_dir"), "working_directory"),
    }
    ignored_arguments: ClassVar = frozenset(
        (
            *("yield_time_ms", "max_output_tokens", "login", "shell", "tty", "prefix_rule", "environment_id"),
            *("require_user_approval", "requires_approval", "sandbox", "SafeToAutoRun", "WaitMsBeforeAsync"),
            *("auto_background_after", "delay_ms", "goal", "toolSummary", "security_risk"),
        )
    )
    assumed_arguments: ClassVar = {"is_input": False, "interactive": False}

    command: Annotated[str, Meta(min_length=1, max_length=100_000, description="The command (bash).")]
    is_background: Annotated[
        bool, Meta(description="Run it as a job beside your work: for servers, watchers and slow commands.")
    ] = False
    timeout: Annotated[
        int,
        Meta(
            ge=0,
            le=LONGEST_SECONDS,
            description="Seconds until it is killed, at most 600 (default 120). In the background: how "
            "long to watch it first (default 1).",
        ),
    ] = 0
    explanation: Annotated[str, Meta(description="For the user: why this is run, in one sentence.")] = ""
    required_permissions: Annotated[
        tuple[RequestedPermission, ...],
        Meta(
            description="Only if the sandbox can't do it. network: reach the hosts in its URLs. "
            "git_write: keep commits. localhost:PORT, docker, ssh-agent, x11: this service "
            "of the user's machine. all: run unsandboxed on their machine; they are asked."
        ),
    ] = ()
    # For models of other agents; the gate makes both a part of the command.
    working_directory: str = ""
    is_restart: bool = False

    def __post_init__(self) -> None:
        check_requested(self.required_permissions)

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return adapt_command(arguments)

    def subject(self) -> str:
        return self.command

    async def run(self, capability: Runner) -> ToolOutcome:
        if not self.command.strip() or "\0" in self.command:
            raise ToolInputInvalid("The command is empty or holds a NUL character.", hint="Give a shell command.")
        if self.is_background:
            result = await capability.start_job(self.command, wait=float(self.timeout or _FIRST_LOOK))
        else:
            result = await capability.run_command(self.command, time_limit=float(self.timeout or _TIME_LIMIT))
        return format_outcome(self.command, result, self.required_permissions)


def format_outcome(
    command: str, result: CommandResult, requested_permissions: Sequence[RequestedPermission] = ()
) -> ToolOutcome:
    """Return the result of a command that ended, or that continues as a job."""
    head = _format_head(result)
    parts = [head, *result.notes, result.output.rstrip("\n") if result.output.strip() else "(no output)"]
    notes = [f"[{note}]" for note in (result.effects, *result.hints) if note]
    parts += notes
    detail = TerminalDetail(
        command=command,
        directory=result.directory,
        exit_code=result.exit_code,
        output=result.output,
        timed_out=result.timed_out,
        effects=f"continues as {result.job}" if result.job else result.effects,
        tests=result.tests,
        permissions=result.permissions,
        requested=list_requested(requested_permissions),
        notes=(*result.notes, *(note for note in notes if note != UNCHANGED)),
    )
    return ToolOutcome(
        content="\n".join(parts),
        summary=head.partition("; output")[0],
        detail=detail,
        failed=result.exit_code is None and not result.job,
        spilled=result.spilled_path,
    )


def _format_head(result: CommandResult) -> str:
    seconds = f"{result.duration_ms / 1000:.1f} s"
    if result.job:
        return f"runs in the background as {result.job}; output of the first {seconds}"
    if result.exit_code is not None:
        location = "" if result.directory == "." else f" · in {result.directory}"
        return f"exit code {result.exit_code} · {seconds}{location}"
    return _ENDS.get(result.ended, "stopped after {}; output until then").format(seconds)


class RunPython(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "run_python"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {"time_limit": "timeout", "source": "code"}

    code: Annotated[str, Meta(min_length=1, max_length=100_000, description="The block.")]
    timeout: Annotated[int, Meta(ge=1, le=_MAX_TIME, description="Seconds after which it is interrupted.")] = (
        _TIME_LIMIT
    )

    def subject(self) -> str:
        """Return an equivalent shell command, so that rules and approvals treat the block like one."""
        return f"python3 <<'PYTHON'\n{self.code}\nPYTHON"

    async def run(self, capability: Runner) -> ToolOutcome:
        if not self.code.strip():
            raise ToolInputInvalid("The block is empty.", hint="Give Python code.")
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


class RunCode(Tool[Runner], frozen=True, kw_only=True):
    name: ClassVar[str] = "run_code"
    access: ClassVar[Access] = Access.EXEC
    argument_names: ClassVar = {"time_limit": "timeout", "source": "code", "program": "code", "script": "code"}
    ignored_arguments: ClassVar = frozenset(("language", "explanation", "description"))

    code: Annotated[str, Meta(min_length=1, max_length=100_000, description="The program (Python).")]
    timeout: Annotated[
        int, Meta(ge=1, le=_MAX_TIME, description="Seconds of its own, without those of its calls (default 120).")
    ] = _TIME_LIMIT

    def subject(self) -> str:
        """Return an equivalent shell command, so that rules and approvals treat the program like one."""
        return f"python3 <<'PYTHON'\n{self.code}\nPYTHON"

    async def run(self, capability: Runner) -> ToolOutcome:
        if not self.code.strip():
            raise ToolInputInvalid("The program is empty.", hint="Give Python code.")
        result = await capability.run_program(self.code, self.subject(), time_limit=float(self.timeout))
        head = self._describe_end(result)
        output = result.output.rstrip("\n") if result.output.strip() else "(nothing printed)"
        parts = [output, f"[{result.effects}]", *result.notes]
        if result.exit_code != 0:
            parts = [f"The program {head}.", f"[{result.effects}; what they did stays]", *result.notes, output]
        detail = TerminalDetail(
            command=self.code,
            directory=".",
            exit_code=result.exit_code,
            output=result.output,
            timed_out=result.timed_out,
            effects=result.effects,
        )
        return ToolOutcome(
            content="\n".join(parts),
            summary=f"{head} · {result.effects}",
            detail=detail,
            failed=result.exit_code != 0,
            spilled=result.spilled_path,
        )

    def _describe_end(self, result: CommandResult) -> str:
        seconds = f"{result.duration_ms / 1000:.1f} s"
        if result.timed_out:
            return f"timed out after {self.timeout} s of its own and was ended"
        if result.exit_code is not None:
            return f"{'ran' if result.exit_code == 0 else f'ended with exit code {result.exit_code}'} · {seconds}"
        end = _ENDS.get(result.ended, f"ended after {{}}: {result.ended}")
        return end.removesuffix("; output until then").format(seconds)
