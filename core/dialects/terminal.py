"""The terminal of models that write their commands as text: one command at a time, which may go on between steps.

While a command runs, its exit code is -1, and what the model sends next goes to it: nothing asks for more output,
`ctrl+c` interrupts it, any other text is its standard input. Without one, what is sent is a command.
"""

from __future__ import annotations

from msgspec import Struct

STILL_RUNNING = -1
INTERRUPT = "ctrl+c"
_IDLE = "No command is running, so there is nothing to {}. Send a command."


class Wanted(Struct, frozen=True, kw_only=True):
    """A tool call that does what was asked for, or the `problem` with it."""

    tool: str
    arguments: dict[str, object]
    problem: str = ""


def wanted(text: str, job: str) -> Wanted:
    """The call for what stands in a block. `job` is the id of the command that runs, "" = none."""
    text = text.strip()
    if not job:
        return _command(text)
    if not text:
        return Wanted(tool="read_terminal", arguments={"job": job})
    if text.lower() == INTERRUPT:
        return Wanted(tool="stop_terminal", arguments={"job": job, "interrupt": True})
    return Wanted(tool="write_terminal", arguments={"job": job, "text": f"{text}\n"})


def _command(text: str) -> Wanted:
    problem = ""
    if not text:
        problem = _IDLE.format("read")
    elif text.lower() == INTERRUPT:
        problem = _IDLE.format("interrupt")
    return Wanted(tool="run_terminal_cmd", arguments={"command": text}, problem=problem)
