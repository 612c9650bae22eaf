"""Verification of todos: a todo's `verify` command, allowed like any other command of the agent, and run alone.

The mode has to grant commands, the rules decide, and the user is asked where they say so. It runs in a clean layer,
over all that is pending and nothing else of the session. Only then is there an exit code to go by. Without a box it
runs in the project itself, after a yes of its own, and is told apart: that verifies nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from core.agent.gate.approvals import Approver
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.documents import Todo
from core.protocol.events import ToolOutput
from core.protocol.review import Origin
from core.sandbox.results import CommandResult
from core.shell.command_host import CommandHost
from core.shell.verification.clean_run import (
    MAX_OUTPUT,
    CleanRun,
    list_acceptable_changes,
    record_todo_run,
    verify_todo_run,
)
from core.tools.base import Runner
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd, format_outcome

TIME_LIMIT = 300.0


def build_prover(
    approver: Approver, origin: Origin, build_runner: Callable[[Approval], Runner]
) -> Callable[[Todo], Awaitable[str]]:
    """Build a function that returns why a todo is not proved, "" = it is. `build_runner` makes what runs a command
    where no box holds it: in the project itself, after a yes to its exact bytes."""

    host = approver.permissions.terminal.host

    async def prove(todo: Todo) -> str:
        tool = RunTerminalCmd(
            command=todo.verify, explanation=f"It has to pass before the todo {todo.id} is completed."
        )
        refusal = await approver.find_refusal(origin.call, tool)
        if refusal:
            return f"Its command `{todo.verify}` was not run: {refusal}"
        permissions = approver.permissions
        approval = permissions.build_approval(todo.verify)
        permissions.record_exposure(Access.EXEC, None, origin.turn)
        is_clean = await permissions.terminal.find_box()
        suffix = ", alone in a clean layer" if is_clean else ""
        host.emit(ToolOutput(call=origin.call, text=f"{todo.id} is proved by $ {todo.verify}{suffix}\n"))
        try:
            if is_clean:
                result = await _run_clean(host, origin, todo)
            else:
                result = await build_runner(approval).run_command(todo.verify, time_limit=TIME_LIMIT)
        finally:
            permissions.network_grants.revoke_once()
        await approver.report_command(origin.call, tool, result)
        return _record_verification(host, todo, result, is_clean=is_clean)

    return prove


def _run_clean(host: CommandHost, origin: Origin, todo: Todo) -> Awaitable[CommandResult]:
    def show(text: str) -> None:
        host.emit(ToolOutput(call=origin.call, text=text))

    return CleanRun(host, list_acceptable_changes(host.state.changes), todo.verify, show).run(TIME_LIMIT)


def _record_verification(host: CommandHost, todo: Todo, result: CommandResult, *, is_clean: bool) -> str:
    plan = host.state.todos_plan_path
    if is_clean:
        verification = verify_todo_run(host, todo, plan=plan, result=result, emit=host.emit)
    else:
        verification = record_todo_run(todo, plan=plan, result=result, is_unboxed=True)
        host.emit(verification)
    if verification.has_passed:
        return ""
    output = result.output if len(result.output) <= MAX_OUTPUT else f"[…]\n{result.output[-MAX_OUTPUT:]}"
    content = format_outcome(todo.verify, replace(result, output=output)).content
    return f"Its command `{todo.verify}` did not pass:\n{content}\n{verification.problem}".rstrip()
