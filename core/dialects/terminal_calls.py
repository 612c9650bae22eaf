"""The terminal of models that write their commands as text: one command at a time, which may go on between steps.

While a command runs, its exit code is -1, and what the model sends next goes to it: nothing asks for more output,
`ctrl+c` interrupts it, any other text is its standard input. Without one, what is sent is a command.
"""

from __future__ import annotations

from msgspec import Struct

STILL_RUNNING = -1
INTERRUPT = "ctrl+c"
COMMAND_WAIT = 30  # seconds that a command is waited for before it counts as still running
INPUT_WAIT = 3  # seconds to look at what comes of an input
_IDLE = "No command is running, so there is nothing to {}. Send a command."


class TerminalCall(Struct, frozen=True, kw_only=True):
    """A tool call that does what was asked for, or the `problem` with it."""

    tool: str
    arguments: dict[str, object]
    problem: str = ""


def parse_terminal_call(text: str, job: str, *, goes_on: bool = False) -> TerminalCall:
    """Parse the call for what stands in a block. `job` is the id of the command that runs, "" = none.

    `goes_on`: a command that takes longer than `COMMAND_WAIT` may go on; else it is ended after its time.
    """
    text = text.strip()
    if not job:
        return _build_command_call(text, goes_on=goes_on)
    if not text:
        return TerminalCall(tool="read_terminal", arguments={"job": job, "wait": COMMAND_WAIT})
    if text.lower() == INTERRUPT:
        return TerminalCall(tool="stop_terminal", arguments={"job": job, "interrupt": True})
    return TerminalCall(tool="write_terminal", arguments={"job": job, "text": f"{text}\n", "wait": INPUT_WAIT})


def _build_command_call(text: str, *, goes_on: bool) -> TerminalCall:
    problem = ""
    if not text:
        problem = _IDLE.format("read")
    elif text.lower() == INTERRUPT:
        problem = _IDLE.format("interrupt")
    more: dict[str, object] = {"is_background": True, "timeout": COMMAND_WAIT} if goes_on else {}
    return TerminalCall(tool="run_terminal_cmd", arguments={"command": text, **more}, problem=problem)
