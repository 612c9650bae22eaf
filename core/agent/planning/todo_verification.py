"""Verification of todos: a todo's `verify` command, allowed like any other command of the agent, and run alone.

The mode has to grant commands, the rules decide, and the user is asked where they say so. It runs in a clean layer,
over all that is pending and nothing else of the session. Only then is there an exit code to go by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from core.agent.gate.approvals import Approver
from core.errors import AgentTuiError
from core.modes import Access
from core.protocol.documents import Todo
from core.protocol.events import ToolOutput
from core.protocol.review import Origin
from core.sandbox.results import CommandResult
from core.shell.command_host import CommandHost
from core.shell.verification.clean_run import CleanRun, list_whole_text
from core.shell.verification.outcome import MAX_OUTPUT, verify_todo_run
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd, format_outcome

TIME_LIMIT = 300.0


def build_prover(
    approver: Approver, origin: Origin, check_lease: Callable[[], None]
) -> Callable[[Todo], Awaitable[str]]:
    """Build a function that returns why a todo is not proved, "" = it is. `check_lease` raises
    when the call is over."""

    host = approver.permissions.terminal.host

    async def prove(todo: Todo) -> str:
        tool = RunTerminalCmd(
            command=todo.verify, explanation=f"It has to pass before the todo {todo.id} is completed."
        )
        refused = await approver.find_refusal(origin.call, tool)
        if refused:
            return f"Its command `{todo.verify}` was not run: {refused}"
        check_lease()
        approver.permissions.record_exposure(Access.EXEC, None, origin.turn)
        told = f"{todo.id} is proved by $ {todo.verify}, alone in a clean layer\n"
        host.emit(ToolOutput(call=origin.call, text=told))

        def show(text: str) -> None:
            host.emit(ToolOutput(call=origin.call, text=text))

        try:
            run = CleanRun(host, list_whole_text(host.state.changes), todo.verify, show)
            result = await run.run(TIME_LIMIT)
        except AgentTuiError as problem:
            return f"Its command `{todo.verify}` was not run: {problem.format_with_hint()}"
        finally:
            approver.permissions.network_grants.revoke_once()
        await approver.report_command(origin.call, tool, result)
        return _record_verification(host, todo, result)

    return prove


def _record_verification(host: CommandHost, todo: Todo, result: CommandResult) -> str:
    verified = verify_todo_run(host, todo, plan=host.state.todos_plan_path, result=result, emit=host.emit)
    if verified.has_passed:
        return ""
    output = result.output if len(result.output) <= MAX_OUTPUT else f"[…]\n{result.output[-MAX_OUTPUT:]}"
    told = format_outcome(todo.verify, replace(result, output=output)).content
    return f"Its command `{todo.verify}` did not pass: {verified.problem}\n{told}"
