"""What a box is: one command, run where its effects are held, by whichever tier the machine offers.

A box is handed paths and a policy, and knows nothing of sessions or reviews. The tiers differ in how they hold a
command, never in what the caller sees: the layer `upper` gets the command's effects in overlayfs's own format
(SAFETY C1: whiteouts are character devices 0:0, replaced directories carry `user.overlay.opaque`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

Ended = Literal["exited", "timed_out", "flooded", "stopped", "out_of_memory", "disk_full", "lost"]


class Tier(StrEnum):
    """How effects are held, strongest first (SAFETY D 15-19)."""

    NAMESPACES = "T1"
    BWRAP_OVERLAY = "T2a"
    BWRAP_MOUNTED = "T2b"
    BWRAP_COPY = "T2c"
    LANDLOCK = "T3"
    NONE = "T4"

    @property
    def contains(self) -> bool:
        """Whether commands may run in Ask and Plan, and without a question in Agent."""
        return self is not Tier.NONE

    @property
    def may_run_unasked(self) -> bool:
        return self not in {Tier.LANDLOCK, Tier.NONE}


class Limits(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds. `seconds` None: a background job, until it is stopped."""

    seconds: float | None = 120.0
    processes: int = 512
    open_files: int = 4096
    file_size: int = 4 << 30
    memory: int = 0
    output: int = 10 << 20
    scratch: int = 1 << 30


class BoxSpec(Struct, frozen=True, kw_only=True):
    """All that one command may see and do.

    The command sees `workspace` at its own path, with `lowers` (topmost first, each a directory in overlayfs's format)
    over it. What it changes lands in `upper`, with `work` beside it on the same file system; without an `upper` it is
    held in memory and gone afterwards. `cwd` is relative to the workspace; `cache` is bound at ~/.cache. `hidden` are
    absolute paths that do not exist for it, `withheld` are paths of the workspace whose content it can't read, `masked`
    are files of the workspace that are empty and shut for it, though it may delete them with their directory, and
    `readable` are absolute paths that the user's configuration adds to its view, read-only. `proxy` is a listening
    socket of ours through which it reaches the hosts that were granted; without it there is no network at all.
    `interactive`: it has a standard input that `Running.send` fills. `raw`: its output is handed on byte for byte, what
    is no UTF-8 as PEP 383 has it; else as plain text.
    """

    workspace: Path
    command: str
    env: Mapping[str, str]
    lowers: tuple[Path, ...] = ()
    upper: Path | None = None
    work: Path | None = None
    cwd: str = "."
    cache: Path | None = None
    hidden: tuple[Path, ...] = ()
    withheld: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    proxy: Path | None = None
    limits: Limits = field(default_factory=Limits)
    interactive: bool = False
    raw: bool = False


class Exit(Struct, frozen=True, kw_only=True):
    """`exit_code` None unless `ended` is "exited"; a signal's is 128 + its number. `notes`: what the user must know."""

    exit_code: int | None
    ended: Ended
    duration_ms: int
    notes: tuple[str, ...] = ()


class Running(Protocol):
    """A command in its box. Its output goes to the `on_output` that it was started with, as decoded text."""

    async def wait(self) -> Exit:
        """Until the command and all that it started are gone. Cancelling a wait does not stop the command."""
        ...

    def send(self, data: bytes) -> None:
        """Put data on its standard input; only with `interactive`, else it has none."""
        ...

    def interrupt(self) -> None:
        """Ctrl+C: SIGINT to what runs in the foreground."""
        ...

    async def stop(self) -> Exit:
        """SIGTERM, two seconds of grace, then the end of everything in the box."""
        ...


class Box(Protocol):
    """One tier on this machine, ready to run commands; safe to use for several at once."""

    @property
    def tier(self) -> Tier: ...

    async def start(
        self, spec: BoxSpec, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> Running:
        """Start a command. `ToolFailed` when it can't be; then nothing of it ran.

        `on_errors` gets what it writes to standard error; without it both outputs are one, in the order of writing.
        """
        ...

    async def close(self) -> None:
        """Stop every command and give up what the box holds (its fork server, its mounts)."""
        ...
