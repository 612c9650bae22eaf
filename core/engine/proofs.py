"""A todo that the user completes: its `verify` command first, run like a command that the user typed.

The command stands in a file of the project, so it is run where its effects are held and nowhere else.
"""

from __future__ import annotations

from core.agent.terminal import Terminal
from core.agent.user_command import UserCommand
from core.errors import CommandRejected
from core.protocol.documents import Todo
from core.protocol.events import TodoVerified
from core.sandbox.result import CommandResult

SHOWN = 4_000  # characters of output, its end, that are kept with the todo


async def run_proof(terminal: Terminal, plan: str, todo: Todo) -> CommandResult | None:
    """How the command of a todo ended; None: it could not be started, and that was told. Raises `CommandRejected` where
    nothing holds its effects."""
    if not await terminal.find():
        raise CommandRejected(
            f"{todo.id} is proved by `{todo.verify}`, and nothing on this machine can hold what it does.",
            hint="Run it yourself, and set the status in the plan file.",
            code="not_contained",
        )
    command = UserCommand(terminal, todo.verify)
    await command.run()
    result = command.result
    if result is not None:
        terminal.ground.emit_apart(
            TodoVerified(
                id=todo.id,
                plan=plan,
                command=todo.verify,
                exit_code=result.exit_code,
                output=result.output[-SHOWN:],
                duration_ms=result.duration_ms,
            )
        )
    return result


def not_proved(todo: Todo, result: CommandResult | None) -> CommandRejected:
    """What is said of a todo whose command did not pass."""
    if result is None or result.exit_code is None:
        how = "did not come to an end" if result is None else result.ended.replace("_", " ")
    else:
        how = f"exit code {result.exit_code}"
    output = (result.output.strip()[-SHOWN:] if result else "") or "(no output)"
    return CommandRejected(
        f"{todo.id} is not completed: `{todo.verify}` did not pass ({how}).", hint=output, code="not_proved"
    )
