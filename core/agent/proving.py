"""Whether a todo is done as it says itself: its `verify` command, run like any other command of the agent.

The mode has to grant commands, the rules decide, the user is asked where they say so, and it runs in the box over what
is pending. Only then is there an exit code to go by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from msgspec.structs import replace

from core.agent.by_hand import typed_command
from core.agent.consent import Consent, approval_of, judge, note_exposure
from core.agent.session import SessionContext
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.documents import Todo
from core.protocol.events import TodoVerified, ToolOutput
from core.sandbox.result import CommandResult
from core.tools.base import Tool
from core.tools.run_terminal_cmd import RunTerminalCmd, outcome_of

TIME_LIMIT = 300.0
SHOWN = 4_000  # characters of output, its end, that the model and the panel are shown


class OneCommand(Protocol):
    """What runs exactly the command that was approved, once."""

    async def run_command(
        self, command: str, *, time_limit: float, on_output: Callable[[str], None]
    ) -> CommandResult: ...


def prover(
    session: SessionContext, call: str, runner: Callable[[Approval], OneCommand]
) -> Callable[[Todo], Awaitable[str]]:
    """A function that says why a todo is not proved, "" = it is. `runner` makes what runs an approved command."""

    async def prove(todo: Todo) -> str:
        tool = RunTerminalCmd(
            command=todo.verify, explanation=f"It has to pass before the todo {todo.id} is completed."
        )
        refused = await refusal(session, call, tool)
        if refused:
            return f"Its command `{todo.verify}` was not run: {refused}"
        approval = approval_of(session, todo.verify)
        note_exposure(session, Access.EXEC, None)
        session.emit(ToolOutput(call=call, text=f"{todo.id} is proved by $ {todo.verify}\n"))
        try:
            result = await runner(approval).run_command(todo.verify, time_limit=TIME_LIMIT, on_output=_nobody)
        finally:
            session.way_out.end_once()
        return _told(session, todo, result)

    return prove


async def refusal(session: SessionContext, call: str, tool: RunTerminalCmd) -> str:
    """Why a command that another call needs must not run, "" = it may. Judged and asked about like any command."""
    await session.terminal.find()
    if not _granted(session):
        return f"{session.state.mode} mode runs no commands here."
    typed = False
    if session.settings.commands.policy == "human":
        found = await typed_command(session, call, tool)
        if found is None or found.command != tool.command:
            return "the user did not run it."
        typed = True
    checked = cast("Tool[object]", tool)
    decided = judge(session, Access.EXEC, checked, typed=typed)
    if decided.choice == "deny":
        return decided.reason
    if decided.choice == "ask" and (refused := await Consent(session, call, Access.EXEC, checked).ask(decided.reason)):
        return refused
    return "" if _granted(session) else "the mode changed meanwhile."


def _granted(session: SessionContext) -> bool:
    return session.grants(Access.EXEC)


def _told(session: SessionContext, todo: Todo, result: CommandResult) -> str:
    """Record how it went. Why it is no proof, "" = it is one."""
    output = result.output if len(result.output) <= SHOWN else f"[…]\n{result.output[-SHOWN:]}"
    session.emit(
        TodoVerified(
            id=todo.id,
            plan=session.state.plan_path,
            command=todo.verify,
            exit_code=result.exit_code,
            output=output,
            duration_ms=result.duration_ms,
        )
    )
    if result.exit_code == 0:
        return ""
    told = outcome_of(todo.verify, replace(result, output=output)).content
    return f"Its command `{todo.verify}` did not pass:\n{told}"


def _nobody(_: str) -> None:
    """Whoever runs the command shows its output already."""
