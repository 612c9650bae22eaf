"""The terminal of models that write their commands as text: one command at a time, which may go on between steps.

While a command runs, its exit code is -1, and what the model sends next goes to it: nothing asks for more output,
`ctrl+c` interrupts it, any other text is its standard input. Without one, what is sent is a command.
"""

from __future__ import annotations

from msgspec import Struct

STILL_RUNNING = -1
INTERRUPT = "ctrl+c"
PATIENCE = 30  # seconds that a command is waited for before it counts as still running
SOON = 3  # seconds to look at what comes of an input
_IDLE = "No command is running, so there is nothing to {}. Send a command."


class Wanted(Struct, frozen=True, kw_only=True):
    """A tool call that does what was asked for, or the `problem` with it."""

    tool: str
    arguments: dict[str, object]
    problem: str = ""


def wanted(text: str, job: str, *, goes_on: bool = False) -> Wanted:
    """The call for what stands in a block. `job` is the id of the command that runs, "" = none.

    `goes_on`: a command that takes longer than `PATIENCE` may go on; else it is ended after its time.
    """
    text = text.strip()
    if not job:
        return _command(text, goes_on=goes_on)
    if not text:
        return Wanted(tool="read_terminal", arguments={"job": job, "wait": PATIENCE})
    if text.lower() == INTERRUPT:
        return Wanted(tool="stop_terminal", arguments={"job": job, "interrupt": True})
    return Wanted(tool="write_terminal", arguments={"job": job, "text": f"{text}\n", "wait": SOON})


def _command(text: str, *, goes_on: bool) -> Wanted:
    problem = ""
    if not text:
        problem = _IDLE.format("read")
    elif text.lower() == INTERRUPT:
        problem = _IDLE.format("interrupt")
    more: dict[str, object] = {"is_background": True, "timeout": PATIENCE} if goes_on else {}
    return Wanted(tool="run_terminal_cmd", arguments={"command": text, **more}, problem=problem)
