"""A server's process in the box: over the merged view, with a layer for its changes.

The layer is stored beside those of commands without being one of them yet, so an idle server blocks nobody. Its changes
are absorbed like a command's: all of them when the process has ended, or the new ones while it runs, as a copy, since
the process may rely on its files. A process namespace ends with its box, so no forked process remains.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, ToolFailed
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.protocol.review import FileState, Origin
from core.sandbox.box import BoxLimits, BoxRequest, BoxService, RunningCommand
from core.sandbox.plain_text import strip_escapes
from core.sandbox.tiers.dropped_changes import remove_masked_changes
from core.shadow.layers.layer_delta import LiveLayer
from core.shadow.layers.layer_store import RetainedLayers
from core.shell.command_host import CommandHost, get_memory_limit
from core.shell.execution import format_effects
from core.tasks import finish_in_thread

_LONGEST_LOG: Final = 20_000


class ServerNetwork(Struct, frozen=True, kw_only=True):
    """The network of a server: its proxy (None = no host can be reached), the services of the machine that are granted,
    and what the proxy expects, if it is not the one of the session's commands."""

    proxy: Path | None
    services: tuple[BoxService, ...] = ()
    login: str = ""


OpenNetwork = Callable[[], Awaitable[ServerNetwork]]
_UNBOUNDED: Final = 1 << 50  # the reader of its messages limits them


class ServerLog:
    """The tail of a server's standard error."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-_LONGEST_LOG:]

    def read(self) -> str:
        """Return the tail as plain text."""
        return strip_escapes(self._text)

    def find_reason(self) -> str:
        """Return the last line, "" = the output is empty."""
        lines = [line.strip() for line in self.read().splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


class VisibleState(Struct, frozen=True):
    """The pending changes that are visible to a process from its start."""

    pending: Mapping[str, FileState]
    retained: RetainedLayers


def get_visible_state(host: CommandHost) -> VisibleState:
    """Return the present pending changes."""
    return VisibleState(host.shadow.list_visible_states(), host.shadow.layers.retained)


class ServerProcess:
    """A running server. `keeps_effects`: its changes wait for the review; else they vanish with it. `network`: opens
    its proxy, None = it has no network. `folder`: a readable directory outside of the project, "" = none; `writable`:
    as in `BoxRequest`."""

    def __init__(
        self,
        host: CommandHost,
        *,
        keeps_effects: bool,
        network: OpenNetwork | None = None,
        folder: str = "",
        writable: tuple[tuple[Path, Path], ...] = (),
    ) -> None:
        self._host, self._network, self._folder, self._writable = host, network, folder, writable
        self.keeps_effects = keeps_effects
        self.seen = get_visible_state(host)
        self._home: Path | None = None
        self._live: LiveLayer | None = None
        self._request: BoxRequest | None = None
        self._started_ns = 0
        self.running: RunningCommand | None = None

    async def start(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str],
        on_output: Callable[[str], None],
        on_errors: Callable[[str], None],
    ) -> RunningCommand:
        """Start the server. Raises `ToolFailed` if that fails; then no part of it ran."""
        host = self._host
        box = await host.box.find()
        if box is None or not box.tier.can_run_unasked:
            reason = "servers can't be sandboxed on this machine."
            raise ToolFailed(reason, hint="agent-tui doctor says why.")
        request = await host.build_passing_request(
            f"exec {shlex.join(command)}",
            lowers=host.shadow.prepare_lowers(),
            cwd=".",
            limits=BoxLimits(seconds=None, memory=get_memory_limit() // 2, output=_UNBOUNDED),
            is_piped=True,
        )
        request = replace(
            request,
            env={**request.env, **env},
            readable=(*request.readable, *find_program_paths((*command, self._folder), host.workspace.root)),
            writable=self._writable,
        )
        request = await self._connect(request)
        if self.keeps_effects:
            home = self._make_layer()
            request = replace(request, upper=home / "upper", work=home / "work")
            self._live, self._request = LiveLayer(home / "upper"), request
        self._started_ns = time.time_ns()
        try:
            self.running = await box.start(request, on_output, on_errors)
        except BaseException:
            self.drop()
            raise
        return self.running

    async def _connect(self, request: BoxRequest) -> BoxRequest:
        """Return the request with the process's network, which it shares with the session's commands."""
        if self._network is None:
            return request
        network = await self._network()
        services = network.services if network.proxy is not None else ()
        return await self._host.network.join(
            replace(request, proxy=network.proxy, services=services), login=network.login
        )

    def _make_layer(self) -> Path:
        self._home = home = self._host.shadow.layers.location / new_id("mcp")
        try:
            home.mkdir(mode=0o700)
            (home / "upper").mkdir(mode=0o755)
            (home / "work").mkdir(mode=0o700)
        except OSError as problem:
            raise ToolFailed(f"there is no place for its files: {problem.strerror}.") from None
        return home

    @property
    def has_written(self) -> bool:
        """True if its layer is not empty."""
        return self._home is not None and any(os.scandir(self._home / "upper"))

    @property
    def is_outdated(self) -> bool:
        """True if there are newer pending changes that it can't see. Changes that were accepted meanwhile look the
        same."""
        now = get_visible_state(self._host)
        if now.retained != self.seen.retained or any(
            self.seen.pending.get(path) != file_state for path, file_state in now.pending.items()
        ):
            return True
        accepted_states = {
            path: file_state for path, file_state in self.seen.pending.items() if path not in now.pending
        }
        return any(not self._is_on_disk(path, file_state) for path, file_state in accepted_states.items())

    def _is_on_disk(self, path: str, state: FileState) -> bool:
        with suppress(PathRefused):
            return self._host.workspace.read_state(path)[0] == state
        return False

    async def stop(self) -> None:
        """End the server and its descendants: SIGTERM, two seconds, then SIGKILL to everything in the box."""
        if self.running is not None:
            await self.running.stop()

    async def absorb_new_changes(self, origin: Origin) -> str:
        """Absorb the changes since the last call while the server runs, and return a line about them; "" = none. After
        `ToolFailed` the server must end, as it sees dropped changes."""
        live, request = self._live, self._request
        if live is None or request is None:
            return ""
        shadow, was_outdated = self._host.shadow, self.is_outdated
        layer = shadow.open_layer()
        try:
            if not await finish_in_thread(live.copy_changes, layer.upper):
                shadow.drop_layer(layer)
                return ""
            notes = await asyncio.to_thread(remove_masked_changes, replace(request, upper=layer.upper))
            effects = shadow.absorb(
                replace(layer, pending_states=self.seen.pending), origin=origin, started_ns=self._started_ns
            )
        except (AgentTuiError, OSError) as problem:
            shadow.drop_layer(layer)
            raise ToolFailed(f"The files it wrote could not be read, and were dropped: {problem}.") from None
        except BaseException:
            shadow.drop_layer(layer)
            raise
        if not was_outdated:
            self.seen = get_visible_state(self._host)
        return " ".join(filter(None, (format_effects(effects), *notes)))

    def absorb(self, origin: Origin) -> str:
        """Absorb the changes of the server, which has ended, and return a line about them."""
        if self._home is None:
            return ""
        shadow = self._host.shadow
        layer = shadow.open_layer()
        try:
            layer.upper.rmdir()
            (self._home / "upper").rename(layer.upper)
            effects = shadow.absorb(
                replace(layer, pending_states=self.seen.pending), origin=origin, started_ns=self._started_ns
            )
        except (AgentTuiError, OSError) as problem:
            shadow.drop_layer(layer)
            raise ToolFailed(f"The files it wrote could not be read, and were dropped: {problem}.") from None
        finally:
            self.drop()
        return format_effects(effects)

    def drop(self) -> None:
        """Drop the server's layer."""
        home, self._home = self._home, None
        if home is not None and home.is_dir():
            remove_tree(home)


def find_program_paths(command: tuple[str, ...], root: Path) -> tuple[Path, ...]:
    """Return the paths outside of the workspace in a command line; for a file of a package, the package's root.

    The user has approved this command line, so only paths in it may be read.
    """
    program_paths = []
    for word in command:
        path = Path(word)
        if not path.is_absolute() or path.is_relative_to(root) or not path.exists():
            continue
        top = _find_package_top(path)
        if top not in (Path("/"), Path.home(), *Path.home().parents):
            program_paths.append(top)
    return tuple(dict.fromkeys(program_paths))


def _find_package_top(path: Path) -> Path:
    for above in path.parents:
        if above.name == "node_modules":
            return above
        if (above / "pyvenv.cfg").is_file():
            return above
    return path
