"""Tier T1: a command in its own namespaces, over an overlay of the workspace, from a warm fork server.

This is the engine's side: it starts the fork server, turns a `BoxRequest` into a launch message, reads the output, and
enforces the time limit. The inner side is `core.sandbox.inside`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import marshal
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ToolFailed
from core.sandbox import host_view
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.host_view import find_credentials
from core.sandbox.inside.messages import RUN
from core.sandbox.tiers.boxed_process import (
    BoxedProcess,
    Listeners,
    PreparedLaunch,
    ProcessBox,
    build_python_command,
    encode_command,
    encode_layers,
)
from core.sandbox.tiers.dropped_changes import drop_repository_changes, remove_masked_changes
from core.sandbox.tiers.edit_channel import EditChannel
from core.sandbox.unboxed_run import find_shell

if TYPE_CHECKING:
    from core.sandbox.inside.messages import NamespaceLaunch

_CLOSE_TIMEOUT = 2.0
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class ForkServerClient:
    """The process that forks boxes. Its start takes some 40 ms, which `launch` does not wait for."""

    def __init__(self, *, control_groups: bool = True) -> None:
        self._requests, server_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = os.memfd_create("fork-server-errors")
        try:
            self._process = subprocess.Popen(
                build_python_command("fork_server", server_socket.fileno(), int(control_groups)),
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[server_socket.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            self._requests.close()
            os.close(self._errors)
            raise ToolFailed(f"The sandbox server could not be started: {error.strerror}.") from error
        finally:
            server_socket.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def launch(self, message: Mapping[str, object], control: int, streams: Sequence[int]) -> None:
        """Launch a box. `streams`: descriptors for output, errors and, if interactive, standard input; then those of
        the namespaces that it shares."""
        message_file = os.memfd_create("launch")
        try:
            with os.fdopen(os.dup(message_file), "wb") as file:
                file.write(marshal.dumps(dict(message)))
            numbers = array.array("i", [message_file, control, *streams])
            self._requests.sendmsg([RUN], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
        except OSError as error:
            raise ToolFailed(f"The sandbox server has ended: {self.read_last_error() or error.strerror}.") from error
        finally:
            os.close(message_file)

    def read_last_error(self) -> str:
        """Return the last line of the server's standard error, "" if it is empty."""
        size = os.fstat(self._errors).st_size
        lines = os.pread(self._errors, size, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End the server and all its boxes."""
        self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_TIMEOUT)
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        os.close(self._errors)


class NamespaceBox(ProcessBox):
    """The strongest box that Linux offers without another program."""

    def __init__(self, *, control_groups: bool = True) -> None:
        """`control_groups` False: create none, as on machines that do not allow it."""
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
        """Return the fork server, started with the first command and restarted after it has ended."""
        if self._server is not None and not self._server.is_alive():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = ForkServerClient(control_groups=self._control_groups)
        return self._server

    def _get_network_command(self) -> Sequence[str]:
        return build_python_command("network_process", "{control}", 0)

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
    home = host_view.find_home(request.env)
    workspace = Path(os.path.realpath(request.workspace))
    # Root can't change owners in a box, which tar would try, and fail.
    roots = {"TAR_OPTIONS": "--no-same-owner"} if os.geteuid() == 0 else {}
    services = request.services if request.proxy else ()
    env = {**roots, **request.env, "HOME": str(home), **_build_proxy_environment(request)}
    for service in services:
        env |= service.env
    visible_paths = {workspace, home, Path(os.path.realpath(home))}
    toolchains = host_view.find_toolchains(request.env)
    secret_paths = (*host_view.list_masked(), *request.hidden)
    foreign_mounts = host_view.list_foreign_mounts((*secret_paths, workspace), (*visible_paths, *request.readable))
    hidden_paths = [path for path in (*secret_paths, *foreign_mounts) if path not in visible_paths]
    command = request.command.encode("utf-8", "surrogateescape")
    return {
        **encode_command(request, (find_shell(), "-c", command), env),
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
        "takes_edits": request.takes_edits,
    }


def _build_proxy_environment(request: BoxRequest) -> dict[str, str]:
    """Return the variables that make programs use the proxy, if there is one."""
    if request.proxy is None:
        return {}
    login = f"{request.proxy_login}@" if request.proxy_login else ""
    return {
        **dict.fromkeys(_PROXY_VARIABLES, f"http://{login}127.0.0.1:{request.proxy_port}"),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
        "NODE_USE_ENV_PROXY": "1",
    }


def _find_owner(workspace: Path) -> tuple[int, int] | None:
    """Return the user and group that root becomes for another user's workspace, to have only that user's rights."""
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
        descriptors = [*streams, *self._get_shared_namespaces()]
        if not self._request.takes_edits:
            self._server.launch(self._launch.message, control, descriptors)
            return
        self.edits = EditChannel()
        with self.edits.open_other_end() as theirs:
            self._server.launch(self._launch.message, control, [*descriptors, theirs])

    async def _release(self) -> None:
        """See `BoxedProcess`: the server has reaped it."""
        if self.edits is not None:
            self.edits.close()
