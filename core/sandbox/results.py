"""Results of commands, as the tools read them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

_MAX_LEFT = 5  # processes that are named
_MAX_COMMAND = 80  # characters of a command line


class CommandResult(Struct, frozen=True, kw_only=True):
    """The result of a finished command.

    `exit_code` None: stopped by a time-out, an interrupt or the output limit; 128 + N for a signal.

    `output`: stdout and stderr interleaved, decoded, without control sequences. `truncated`: its middle is missing.
    `ended`: as a box reports it, or "running" for the background job `job`. `directory`: its working directory,
    relative to the workspace; `effects`: one line on its changes; `tests`: the tests counted by a check (`12 passed`),
    "" = none; `notes`: for the reader of the result; `hints`: for the model alone;
    `spilled_path`: the file with the whole output ("": nothing is missing); `permissions`: what it was granted besides
    running; `unproven`: why it proves nothing about the pending changes, "" = it may.
    """

    exit_code: int | None
    output: str
    duration_ms: int
    timed_out: bool = False
    truncated: bool = False
    ended: str = "exited"
    directory: str = "."
    effects: str = ""
    tests: str = ""
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    spilled_path: str = ""
    job: str = ""
    permissions: tuple[str, ...] = ()
    unproven: str = ""


class JobReport(Struct, frozen=True, kw_only=True):
    """A command in the background. `output`: its output since the last read; `result`: set when it has ended."""

    id: str
    command: str
    directory: str
    duration_ms: int
    output: str = ""
    result: CommandResult | None = None


def describe_left(commands: Sequence[str], *, goes_on: bool = False) -> str:
    """Describe the processes that a command left running, by their command lines; "" = none. `goes_on`: they were not
    ended with it."""
    if not commands:
        return ""
    lines = [" ".join(command.split()) for command in commands]
    names = [f"`{line[:_MAX_COMMAND]}{'…' if len(line) > _MAX_COMMAND else ''}`" for line in lines]
    rest = f" and {len(names) - _MAX_LEFT} more" if len(names) > _MAX_LEFT else ""
    listing = ", ".join(dict.fromkeys(names[:_MAX_LEFT])) + rest
    if goes_on:
        return f"Still running: {listing}."
    return f"Ended with the command: {listing}, left running by it. Start what has to go on as a background command."


def describe_end(exit_code: int | None, end_reason: str) -> str:
    """Describe the end of a command: its exit code, or the reason why it was stopped."""
    return f"exit code {exit_code}" if exit_code is not None else end_reason.replace("_", " ")
