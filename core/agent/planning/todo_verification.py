"""Verification of todos: a todo's `verify` command, run like any other command of the agent.

The mode has to grant commands, the rules decide, the user is asked where they say so, and it runs in the box over what
is pending. Only then is there an exit code to go by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from core.agent.gate.approvals import Approver
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.documents import Todo
from core.protocol.events import TodoVerified, ToolOutput
from core.protocol.review import Origin
from core.sandbox.results import CommandResult
from core.shell.command_host import CommandHost
from core.tools.base import Runner
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd, format_outcome

TIME_LIMIT = 300.0
MAX_SHOWN = 4_000  # characters of output, its end, that the model and the panel are shown


def build_prover(
    approver: Approver, origin: Origin, build_runner: Callable[[Approval], Runner]
) -> Callable[[Todo], Awaitable[str]]:
    """Build a function that returns why a todo is not proved, "" = it is."""

    host = approver.permissions.terminal.host

    async def prove(todo: Todo) -> str:
        tool = RunTerminalCmd(
            command=todo.verify, explanation=f"It has to pass before the todo {todo.id} is completed."
        )
        refused = await approver.find_refusal(origin.call, tool)
        if refused:
            return f"Its command `{todo.verify}` was not run: {refused}"
        permissions = approver.permissions
        approval = permissions.build_approval(todo.verify)
        permissions.record_exposure(Access.EXEC, None, origin.turn)
        host.emit(ToolOutput(call=origin.call, text=f"{todo.id} is proved by $ {todo.verify}\n"))
        try:
            result = await build_runner(approval).run_command(todo.verify, time_limit=TIME_LIMIT)
        finally:
            permissions.network_grants.revoke_once()
        await approver.report_command(origin.call, tool, result)
        return _record_verification(host, todo, result)

    return prove


def _record_verification(host: CommandHost, todo: Todo, result: CommandResult) -> str:
    output = result.output if len(result.output) <= MAX_SHOWN else f"[…]\n{result.output[-MAX_SHOWN:]}"
    host.emit(
        TodoVerified(
            id=todo.id,
            plan=host.state.todos_plan_path,
            command=todo.verify,
            exit_code=result.exit_code,
            output=output,
            duration_ms=result.duration_ms,
        )
    )
    if result.exit_code == 0:
        return ""
    told = format_outcome(todo.verify, replace(result, output=output)).content
    return f"Its command `{todo.verify}` did not pass:\n{told}"
