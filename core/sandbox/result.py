"""What a command left behind: the record that the runner fills and the tools read."""

from __future__ import annotations

from msgspec import Struct


class CommandResult(Struct, frozen=True, kw_only=True):
    """`exit_code` None: stopped by a time-out, an interrupt or the output limit. A signal's exit code is 128 + number.

    `output`: stdout and stderr as they came, decoded, without control sequences. `truncated`: its middle is missing.
    """

    exit_code: int | None
    output: str
    duration_ms: int
    timed_out: bool = False
    truncated: bool = False
