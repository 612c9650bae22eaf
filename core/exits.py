"""The exit codes of the program, each with its sentence in `--help`. The process ends with no other number."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of a run of `agent-tui`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    LIMIT = 3
    REFUSED = 4
    INTERRUPTED = 130


EXIT_MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed: the provider or the engine could not finish; the message says why",
    ExitCode.USAGE: "wrong arguments, or no terminal for the screen; nothing was started",
    ExitCode.LIMIT: "a limit was reached: steps, cost, tokens, time, or the length of an answer",
    ExitCode.REFUSED: "a command was refused, nobody could approve, or an edit was left pending",
    ExitCode.INTERRUPTED: "interrupted: Ctrl+C, a signal, the terminal closed; finished work is kept",
}
