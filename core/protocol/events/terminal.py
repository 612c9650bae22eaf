"""Events of the terminal: the box, where its shell stands, commands that go on beside the turn, the user's own."""

from __future__ import annotations

from msgspec import field

from core.protocol.events.base import Event


class BoxFound(Event, frozen=True, kw_only=True, tag="box.found"):
    """The containment of commands on this machine: `tier` is "T1" to "T4" (SAFETY D 15-19), "T4" contains nothing.
    `reason`: why it is not a stronger one, `cure`: what would make it so ("" = it is the strongest)."""

    tier: str
    reason: str = ""
    cure: str = ""


class ShellMoved(Event, frozen=True, kw_only=True, tag="shell.moved"):
    """The working directory of the next command in the workspace, the variables that commands have set and those that
    they have removed, whole. Values that look like secrets are left out: they last as long as the program."""

    directory: str = "."
    environment: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


class JobStarted(Event, frozen=True, kw_only=True, tag="job.started"):
    """A command that goes on in the background, in a box of its own."""

    id: str
    call: str
    command: str
    directory: str = "."


class JobEnded(Event, frozen=True, kw_only=True, tag="job.ended"):
    """`ended` as a box tells it: exited, stopped, timed_out, flooded, out_of_memory or lost; `exit_code` with "exited"
    only. `effects`: what it changed, in one line."""

    id: str
    command: str
    ended: str
    exit_code: int | None = None
    duration_ms: int = 0
    effects: str = ""


class CommandRan(Event, frozen=True, kw_only=True, tag="command.ran"):
    """A command that the user typed. `output` is its head and tail, as the model will be told."""

    id: str
    command: str
    directory: str = "."
    ended: str = "exited"
    exit_code: int | None = None
    output: str = ""
    effects: str = ""


class TerminalReported(Event, frozen=True, kw_only=True, tag="terminal.reported"):
    """The model has been told of these jobs' ends and user's commands (ids)."""

    ids: tuple[str, ...]
