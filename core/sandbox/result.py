"""What a command left behind: the records that are filled where it runs and that the tools read."""

from __future__ import annotations

from msgspec import Struct


class CommandResult(Struct, frozen=True, kw_only=True):
    """`exit_code` None: stopped by a time-out, an interrupt or the output limit. A signal's exit code is 128 + number.

    `output`: stdout and stderr as they came, decoded, without control sequences. `truncated`: its middle is missing.
    `ended` as a box tells it, or "running" when it goes on as `job`. `directory` is where it ran, relative to the
    workspace; `effects` says in one line what it changed; `notes` are for whoever reads the result; `spilled` names the
    file with the whole output ("" = nothing is missing).
    """

    exit_code: int | None
    output: str
    duration_ms: int
    timed_out: bool = False
    truncated: bool = False
    ended: str = "exited"
    directory: str = "."
    effects: str = ""
    notes: tuple[str, ...] = ()
    spilled: str = ""
    job: str = ""


class JobReport(Struct, frozen=True, kw_only=True):
    """A command in the background. `output`: what came since it was last read; `result` when it has ended."""

    id: str
    command: str
    directory: str
    duration_ms: int
    output: str = ""
    result: CommandResult | None = None
