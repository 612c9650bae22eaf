"""The host of a session's commands, and the request for one command."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.git.command_view import RepositoryView
from core.protocol.events import AnyEvent
from core.protocol.review import Origin
from core.providers.catalog.presets import KNOWN
from core.sandbox.box import Box, BoxLimits, BoxRequest, BoxService, Tier
from core.sandbox.host_view import FIXED, NO_RETRIES, SYSTEM_PATH, build_environment
from core.search_paths import restore_user_paths
from core.secrets import holds_secret
from core.shadow.shadow import Shadow
from core.shell.disk_survey import DiskRecorder
from core.shell.session_network import SessionNetwork
from core.state.session import SessionState
from core.workspace import Workspace
from core.workspace.withheld_paths import WithheldPaths

TEMPORARY_FOLDER: Final = "tmp"  # of a session, with the /tmp of its commands
_OWN: Final = "AGENT_TUI_"


class BoxSource(Protocol):
    """The source of the session's box, which is selected once, by trials."""

    @property
    def tier(self) -> Tier:
        """The tier of the box; `Tier.NONE` before it is selected."""

    async def find(self) -> Box | None:
        """Return the box, or None if this machine can't contain a command's effects. Never raises."""

    def describe(self) -> str:
        """Describe the containment of commands for the user."""


async def accept_nothing() -> None:
    """Write nothing: there is no review."""


async def open_no_proxy() -> Path | None:
    """Return no proxy: without one there is no network at all."""
    return None


def build_unsandboxed_environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without the keys of model APIs, for a program without an interactive terminal."""
    keys = {preset.key_variable for preset in KNOWN.values()}
    names = (name for name in source if name not in keys and not name.startswith(_OWN))
    return {name: source[name] for name in names if not holds_secret(source[name])} | FIXED


def get_memory_limit() -> int:
    """Return the memory limit of one command in bytes: three quarters of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 * 3


class CommandHost(Struct, frozen=True, kw_only=True):
    """Everything that the commands of a session need.

    `emit_outside_turn`: for events that belong to no turn. `checks`: the user's own patterns of check commands.
    `repository`: git's directory outside of the workspace, as a new command sees it; slow, as `withheld`. `hidden`,
    `withheld`, `readable` and `cache`: as in `BoxRequest`. `services`: the services of the machine that are granted
    now; `is_offline`: no host can be reached. `programs`: a directory for the end of PATH, and what else commands have
    to read for it. `accept_pending` writes all pending changes to the project, for commands that work in place, and
    `disk_recorder` records what these change. `network`: the network that the commands share.
    """

    workspace: Workspace
    shadow: Shadow
    state: SessionState
    emit: Callable[[AnyEvent], None]
    emit_outside_turn: Callable[[AnyEvent], None]
    directory: Path
    session_id: str = ""
    box: BoxSource
    network: SessionNetwork
    checks: Callable[[], tuple[str, ...]] = tuple
    repository: Callable[[], RepositoryView] = RepositoryView
    withheld: Callable[[], WithheldPaths] = WithheldPaths
    readable: Callable[[], tuple[Path, ...]] = tuple
    hidden: tuple[Path, ...] = ()
    cache: Path | None = None
    proxy: Callable[[], Awaitable[Path | None]] = open_no_proxy
    services: Callable[[], tuple[BoxService, ...]] = tuple
    is_offline: Callable[[], bool] = bool
    programs: tuple[Path, ...] = ()
    accept_pending: Callable[[], Awaitable[None]] = accept_nothing
    disk_recorder: DiskRecorder | None = None

    def build_environment(self) -> dict[str, str]:
        """Return the initial environment of a session's shell: without walls, the user's own."""
        tier = self.box.tier
        if not tier.is_walled and tier.can_run_unasked:
            environment = build_unsandboxed_environment(restore_user_paths(os.environ))
        else:
            environment = build_environment(os.environ)
        if not tier.has_open_network and self.is_offline():
            environment |= NO_RETRIES
        if self.programs:
            environment["PATH"] = os.pathsep.join((environment.get("PATH") or SYSTEM_PATH, str(self.programs[0])))
        return environment

    async def build_passing_request(
        self, command: str, *, lowers: tuple[Path, ...], cwd: str, limits: BoxLimits, is_piped: bool = False
    ) -> BoxRequest:
        """Return the request for a command whose effects are dropped. `is_piped`: input and output are raw bytes."""
        withheld = await asyncio.to_thread(self.withheld)
        repository = await asyncio.to_thread(self.repository)
        return BoxRequest(
            workspace=self.workspace.root,
            command=command,
            env=self.build_environment(),
            lowers=lowers,
            cwd=cwd,
            cache=self.ensure_cache(),
            hidden=(*self.hidden, *withheld.outside),
            withheld=withheld.covered,
            masked=withheld.masked,
            readable=(*self.readable(), *self.programs, *repository.list_readable()),
            limits=limits,
            interactive=is_piped,
            raw=is_piped,
        )

    def ensure_temporary(self) -> Path | None:
        """Create and return the directory that is /tmp for the session's commands; None if that fails: then each has
        an empty one of its own."""
        try:
            make_private_directory(self.directory / TEMPORARY_FOLDER)
        except OSError:
            return None
        return self.directory / TEMPORARY_FOLDER

    def remove_temporary(self) -> None:
        """Remove what commands have left in /tmp."""
        with contextlib.suppress(OSError):
            remove_tree(self.directory / TEMPORARY_FOLDER)

    def ensure_cache(self) -> Path | None:
        """Create and return the cache directory of commands; None if that fails, which costs only speed."""
        try:
            if self.cache is not None:
                make_private_directory(self.cache)
        except OSError:
            return None
        return self.cache


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A command to run.

    `keeps_effects`: they wait for a review, else they are discarded. `time_limit`: seconds, None = a background job.
    `is_raw`: the listener gets the output byte for byte (see `BoxRequest`); the result has plain text in any case.
    `overlays`: topmost layers for this request alone. `on_stderr` gets standard error; without it both outputs are one.
    `stdin`: the whole input, None = it has no standard input. `is_typed`: the user's own command, which without a box
    inherits neither the shell's directory nor its variables. `output_name`: of the file that holds a long output, "" =
    the call's. `is_driven`: this program talks with it, so it can't be restarted on its own.
    """

    command: str
    origin: Origin
    keeps_effects: bool = True
    time_limit: float | None = 120.0
    is_raw: bool = False
    overlays: tuple[Path, ...] = ()
    env: Mapping[str, str] = {}
    on_stderr: Callable[[str], None] | None = None
    stdin: bytes | None = None
    is_typed: bool = False
    is_driven: bool = False
    output_name: str = ""

    def build_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the shell with the variables of this request."""
        return {**base, **self.env}
