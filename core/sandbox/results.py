"""Results of commands: the records that are filled where a command runs and that the tools read."""

from __future__ import annotations

from msgspec import Struct


class CommandResult(Struct, frozen=True, kw_only=True):
    """The result of a command.

    `exit_code` None: stopped by a time-out, an interrupt or the output limit; 128 + N for a signal.

    `output`: stdout and stderr as they came, decoded, without control sequences. `truncated`: its middle is missing.
    `ended`: as a box reports it, or "running" when it goes on as `job`. `directory`: where it ran, relative to the
    workspace; `effects`: one line on what it changed; `tests`: what tests it counted as a check (`12 passed`), "" =
    it was none or counted none; `notes`: for whoever reads the result; `spilled_path`: the file with the whole
    output ("": nothing is missing); `permissions`: what it was granted beside running.
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
    spilled_path: str = ""
    job: str = ""
    permissions: tuple[str, ...] = ()


class JobReport(Struct, frozen=True, kw_only=True):
    """A command in the background. `output`: what came since it was last read; `result`: set when it has ended."""

    id: str
    command: str
    directory: str
    duration_ms: int
    output: str = ""
    result: CommandResult | None = None


def describe_end(exit_code: int | None, end_reason: str) -> str:
    """Describe how a command ended; without an exit code it says what stopped it."""
    return f"exit code {exit_code}" if exit_code is not None else end_reason.replace("_", " ")
