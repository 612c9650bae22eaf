"""Verification of todos: a todo's `verify` command, run like any other command of the agent.

The mode has to grant commands, the rules decide, the user is asked where they say so, and it runs in the box over what
is pending. Only then is there an exit code to go by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from msgspec.structs import replace

from core.agent.gate.consent import Consent, build_approval, decide_on_call, record_exposure
from core.agent.gate.manual_command import ask_for_command
from core.agent.turn.turn_context import TurnContext
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.documents import Todo
from core.protocol.events import TodoVerified, ToolOutput
from core.sandbox.results import CommandResult
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd, format_outcome

TIME_LIMIT = 300.0
MAX_SHOWN = 4_000  # characters of output, its end, that the model and the panel are shown


class SingleCommandRunner(Protocol):
    """A runner of exactly the command that was approved, once."""

    async def run_command(
        self, command: str, *, time_limit: float, on_output: Callable[[str], None]
    ) -> CommandResult: ...


def build_prover(
    session: TurnContext, call: str, runner: Callable[[Approval], SingleCommandRunner]
) -> Callable[[Todo], Awaitable[str]]:
    """Build a function that returns why a todo is not proved, "" = it is.

    `runner` makes the runner of an approved command.
    """

    async def prove(todo: Todo) -> str:
        tool = RunTerminalCmd(
            command=todo.verify, explanation=f"It has to pass before the todo {todo.id} is completed."
        )
        refused = await find_refusal(session, call, tool)
        if refused:
            return f"Its command `{todo.verify}` was not run: {refused}"
        approval = build_approval(session, todo.verify)
        record_exposure(session, Access.EXEC, None)
        session.emit(ToolOutput(call=call, text=f"{todo.id} is proved by $ {todo.verify}\n"))
        try:
            result = await runner(approval).run_command(todo.verify, time_limit=TIME_LIMIT, on_output=_ignore_output)
        finally:
            session.network_grants.revoke_once()
        return _record_verification(session, todo, result)

    return prove


async def find_refusal(session: TurnContext, call: str, tool: RunTerminalCmd) -> str:
    """Return why a command that another call needs must not run; "" = it may. Decided like any command."""
    await session.terminal.find_box()
    if not _is_granted(session):
        return f"{session.state.mode} mode runs no commands here."
    typed = False
    if session.settings.commands.policy == "human":
        found = await ask_for_command(session, call, tool)
        if found is None or found.command != tool.command:
            return "the user did not run it."
        typed = True
    checked = cast("Tool[object]", tool)
    decided = decide_on_call(session, Access.EXEC, checked, is_typed=typed)
    if decided.choice == "deny":
        return decided.reason
    if decided.choice == "ask" and (refused := await Consent(session, call, Access.EXEC, checked).ask(decided.reason)):
        return refused
    return "" if _is_granted(session) else "the mode changed meanwhile."


def _is_granted(session: TurnContext) -> bool:
    return session.is_granted(Access.EXEC)


def _record_verification(session: TurnContext, todo: Todo, result: CommandResult) -> str:
    """Record the result and return why it is no proof; "" = it is one."""
    output = result.output if len(result.output) <= MAX_SHOWN else f"[…]\n{result.output[-MAX_SHOWN:]}"
    session.emit(
        TodoVerified(
            id=todo.id,
            plan=session.state.todos_plan_path,
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


def _ignore_output(_: str) -> None:
    """Ignore output that the runner of the command shows already."""
