"""Tier T1: a command in namespaces of its own, over an overlay of the workspace, from a warm fork server.

This is the engine's side: it turns a `BoxRequest` into a launch message, reads the output, and enforces the time limit.
What happens inside is in `core.sandbox.inside`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ToolFailed
from core.sandbox import host_paths
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.inside import messages
from core.sandbox.tiers.boxed_process import (
    BoxedProcess,
    Listeners,
    PreparedLaunch,
    ProcessBox,
    encode_command,
    encode_layers,
)
from core.sandbox.tiers.fork_server_client import ForkServerClient
from core.sandbox.tiers.masked_files import remove_masked_changes
from core.sandbox.tiers.repository_changes import drop_repository_changes
from core.sandbox.toolchains import find_credentials
from core.sandbox.unboxed_run import find_shell

if TYPE_CHECKING:
    from core.sandbox.inside.messages import NamespaceLaunch

_PROXY = f"http://127.0.0.1:{messages.PROXY_PORT}"
_PROXY_ENV = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}


class NamespaceBox(ProcessBox):
    """The strongest box that Linux offers without the help of another program."""

    def __init__(self, *, control_groups: bool = True) -> None:
        """`control_groups` False: make none, as on machines that do not allow it."""
        super().__init__(Tier.NAMESPACES)
        self._control_groups = control_groups
        self._server: ForkServerClient | None = None

    def _prepare(self, request: BoxRequest) -> PreparedLaunch:
        def end() -> tuple[str, ...]:
            return (*remove_masked_changes(request), *drop_repository_changes(request))

        return PreparedLaunch(message=build_launch(request), finish=end, undo=end)

    def _make_process(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> BoxedProcess:
        return NamespaceProcess(self._ensure_server(), launch, request, listeners)

    def _ensure_server(self) -> ForkServerClient:
        """Return the fork server: started with the first command, and again after it has ended."""
        if self._server is not None and not self._server.is_alive():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = ForkServerClient(control_groups=self._control_groups)
        return self._server

    async def close(self) -> None:
        running = list(self._running)
        for process in running:
            process.kill()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.close)
        for process in running:
            await process.wait()


def build_launch(request: BoxRequest) -> NamespaceLaunch:
    """Build the launch message of one command. Raises `ToolFailed` for a workspace that can't be read."""
    home = host_paths.find_home(request.env)
    workspace = Path(os.path.realpath(request.workspace))
    # Root can't give files away in a box: else tar would try, and fail.
    roots = {"TAR_OPTIONS": "--no-same-owner"} if os.geteuid() == 0 else {}
    services = request.services if request.proxy else ()
    env = {**roots, **request.env, "HOME": str(home), **(_PROXY_ENV if request.proxy else {})}
    for service in services:
        env |= service.env
    visible_paths = {workspace, home, Path(os.path.realpath(home))}
    hidden_paths = [path for path in (*host_paths.list_masked(), *request.hidden) if path not in visible_paths]
    toolchains = host_paths.find_toolchains(request.env)
    command = request.command.encode("utf-8", "surrogateescape")
    return {
        **encode_command(request.limits, (find_shell(), "-c", command), env),
        **encode_layers(request, toolchains),
        "cwd": os.fsencode(request.cwd),
        "home": os.fsencode(home),
        "git_settings": request.git_settings.encode("utf-8", "surrogateescape"),
        "hidden": [os.fsencode(path) for path in (*hidden_paths, *find_credentials(toolchains))],
        "withheld": [os.fsencode(path) for path in request.withheld],
        "proxy": os.fsencode(request.proxy or b""),
        "services": [(service.port, os.fsencode(service.path), service.head) for service in services],
        "processes_by_pid": 0,
        "owner": _find_owner(workspace),
        "scratch": request.limits.scratch,
    }


def _find_owner(workspace: Path) -> tuple[int, int] | None:
    """Return user and group that root becomes for another user's workspace, so as to have that user's rights only."""
    try:
        stats = workspace.stat()
    except OSError as error:
        raise ToolFailed(f"The workspace {workspace} can't be read: {error.strerror}.") from error
    return (stats.st_uid, stats.st_gid) if os.geteuid() == 0 and stats.st_uid != 0 else None


class NamespaceProcess(BoxedProcess):
    """A command in a box of `NamespaceBox`."""

    def __init__(
        self, server: ForkServerClient, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners
    ) -> None:
        super().__init__(launch, request, listeners)
        self._server = server

    async def _spawn(self, streams: list[int], control: int) -> None:
        self._server.launch(self._launch.message, control, streams)

    async def _release(self) -> None:
        """See `BoxedProcess`: the server has reaped it."""
