"""The interface of a box: one command, run where its effects are captured, by whichever tier the machine offers.

A box gets paths and limits and knows nothing of sessions or reviews. The tiers differ in how they contain a command,
never in the interface: the layer `upper` receives the command's effects in overlayfs's format, with character devices
0:0 as whiteouts and `user.overlay.opaque` on replaced directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from core.sandbox.inside.messages import PROXY_PORT
from core.sandbox.network import ListeningPort, SharedNetwork

EndReason = Literal["exited", "timed_out", "flooded", "stopped", "out_of_memory", "disk_full", "lost"]


class Tier(StrEnum):
    """Ways of containing effects, strongest first. `CONTAINER` and `IN_PLACE` are never found, only chosen by the user:
    the machine itself is the sandbox.

    `is_contained`: effects on the project land in a layer, so commands may run in Ask and Plan. `can_run_unasked`: the
    policy `auto` runs commands without a question. `is_walled`: something keeps a command from the rest of the machine.
    `leaves_processes`: what a command leaves running goes on. `uses_proxy`: the network is behind our proxy;
    `has_open_network`: it is the machine's. `mounts_cache`: the cache is mounted on ~/.cache, else it has the same path
    as on the host.
    """

    NAMESPACES = "T1"
    BWRAP_OVERLAY = "T2a"
    BWRAP_MOUNTED = "T2b"
    BWRAP_COPY = "T2c"
    LANDLOCK = "T3"
    SEATBELT = "M1"
    CONTAINER = "container"
    IN_PLACE = "in-place"
    NONE = "T4"

    def __init__(self, name: str) -> None:
        self.is_contained = name not in {"in-place", "T4"}
        self.can_run_unasked = name not in {"T3", "T4"}
        self.is_walled = name not in {"container", "in-place", "T4"}
        self.leaves_processes = name in {"container", "in-place"}
        self.uses_proxy = name == "T1"
        self.has_open_network = name in {"container", "in-place", "T4"}
        self.mounts_cache = name in {"T1", "T2a", "T2b", "T2c"}


class BoxLimits(Struct, frozen=True, kw_only=True):
    """Limits of one command: sizes in bytes, times in seconds. `seconds` None: no limit (a background job)."""

    seconds: float | None = 120.0
    processes: int = 512
    open_files: int = 4096
    file_size: int = 4 << 30
    memory: int = 0
    output: int = 10 << 20
    scratch: int = 1 << 30


class BoxService(Struct, frozen=True, kw_only=True):
    """A service of the machine that a command reaches through the proxy: on a `port` of its loopback, or through the
    socket `path`. `head` identifies it to the proxy; `env`: variables that make programs use it."""

    head: bytes
    port: int = 0
    path: str = ""
    env: Mapping[str, str] = {}


class BoxRequest(Struct, frozen=True, kw_only=True):
    """Everything that one command may see and do.

    The command sees `workspace` under its own path, with `lowers` (directories in overlayfs's format, topmost first)
    over it. Its changes land in `upper`, with `work` on the same file system; without an `upper` they stay in memory
    and are dropped afterwards. `cwd` is relative to the workspace; `cache` is mounted on ~/.cache, and
    `temporary` on /tmp in tiers with mounts; None = that is in memory and vanishes with the command.

    `hidden`: absolute paths that do not exist for it. `withheld`: paths of the workspace whose content it can't read.
    `masked`: files of the workspace that are empty and unreadable for it, though it may delete them with their
    directory. `readable`: absolute paths added to its view, read-only; `writable`: directories that it may change for
    good, with the path under which it sees them (the copy of a hosted agent's login). `repository`: git's directory, if
    it lies outside of the workspace; changes in it are dropped. `git_settings`: the text of its ~/.gitconfig. `proxy`:
    our listening socket through which it reaches granted hosts; None means no network at all. `services`: services of
    the machine that it reaches through the proxy. `network`: a network that it shares, in which the proxy listens at
    `proxy_port` and expects `proxy_login` (`name:secret`, "" = nothing); None = it has a loopback of its own.
    `interactive`: it has a standard input that `RunningCommand.send` fills. `takes_edits`: edits are sent to it while
    it runs, where the tier can (`RunningCommand.edits`). `raw`: output is passed on byte for byte (invalid UTF-8 as in
    PEP 383), else as plain text.
    """

    workspace: Path
    command: str
    env: Mapping[str, str]
    lowers: tuple[Path, ...] = ()
    upper: Path | None = None
    work: Path | None = None
    cwd: str = "."
    cache: Path | None = None
    temporary: Path | None = None
    hidden: tuple[Path, ...] = ()
    withheld: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[tuple[Path, Path], ...] = ()
    repository: Path | None = None
    git_settings: str = ""
    proxy: Path | None = None
    services: tuple[BoxService, ...] = ()
    network: SharedNetwork | None = None
    proxy_port: int = PROXY_PORT
    proxy_login: str = ""
    limits: BoxLimits = field(default_factory=BoxLimits)
    interactive: bool = False
    takes_edits: bool = False
    raw: bool = False


class BoxResult(Struct, frozen=True, kw_only=True):
    """The end of a command. `exit_code`: 128 + N for signal N, None unless it "exited". `notes`: for the user.

    `unproven`: why its result says nothing about the project as the command was to see it, "" = it does. `left`: the
    command lines of processes that it left running, as far as the tier knows.
    """

    exit_code: int | None
    end_reason: EndReason
    duration_ms: int
    notes: tuple[str, ...] = ()
    unproven: str = ""
    left: tuple[str, ...] = ()


class LiveEdit(Struct, frozen=True, kw_only=True):
    """An edit of the workspace for a running command. `path` is relative to it. A file has its content in the file
    `source`, whose mode and time it gets; a link has its `target`. `is_forced`: a file is written even if it has this
    content already, as somebody changed it where the command's watchers don't notice."""

    path: str
    kind: Literal["file", "symlink", "directory", "absent"]
    source: Path | None = None
    target: str = ""
    is_forced: bool = False


class EditSink(Protocol):
    """Takes edits for a running command, which sees them as if another program had made them."""

    async def send(self, edit: LiveEdit) -> None:
        """Make an edit. Raises OSError if it can't be made, or the command has ended."""


class RunningCommand(Protocol):
    """A command in its box. Its output goes to the `on_output` callback as decoded text. `edits` None: it sees the
    project as it was when it started. `pid`: a process of this machine whose descendants are the command's processes
    and no others, 0 = it is not known."""

    @property
    def pid(self) -> int: ...

    @property
    def edits(self) -> EditSink | None: ...

    async def wait(self) -> BoxResult:
        """Wait until the command and all that it started are gone. Cancelling the wait does not stop the command."""

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises `ToolFailed` unless it was started with `interactive`."""

    def close_input(self) -> None:
        """Close its standard input after all sent data is written."""

    def interrupt(self) -> None:
        """Send SIGINT to the foreground process group, as Ctrl+C does."""

    async def stop(self) -> BoxResult:
        """Send SIGTERM, wait two seconds, then kill everything in the box."""


class Box(Protocol):
    """One tier on this machine, ready to run commands; safe for concurrent use."""

    @property
    def tier(self) -> Tier: ...

    async def start(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> RunningCommand:
        """Start a command. Raises `ToolFailed` if it can't be started; then no part of it ran.

        `on_errors` receives its standard error; without it both outputs come as one, in the order of writing.
        """

    async def open_network(self, on_ports: Callable[[tuple[ListeningPort, ...]], None]) -> SharedNetwork | None:
        """Open a network for commands to share; None: this tier has none. `on_ports`: see `SharedNetwork`. Raises
        `ToolFailed`."""

    async def close(self) -> None:
        """Stop every command and release the resources of the box (fork server, mounts)."""
