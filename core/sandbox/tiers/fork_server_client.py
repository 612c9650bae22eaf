"""The engine's end of the fork server: starts it, sends it launch messages, and ends it."""

from __future__ import annotations

import array
import contextlib
import marshal
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence

from core.errors import ToolFailed
from core.sandbox.inside.messages import RUN
from core.sandbox.python_command import build_python_command

_CLOSE_TIMEOUT = 2.0


class ForkServerClient:
    """One process that boxes are forked from. Starting it takes some 40 ms, which `launch` does not wait for."""

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
            raise ToolFailed(f"The server of the boxes could not be started: {error.strerror}.") from error
        finally:
            server_socket.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def launch(self, message: Mapping[str, object], control: int, streams: Sequence[int]) -> None:
        """Launch a box. `streams`: where output and errors go, and where standard input comes from, if any."""
        message_file = os.memfd_create("launch")
        try:
            with os.fdopen(os.dup(message_file), "wb") as file:
                file.write(marshal.dumps(dict(message)))
            numbers = array.array("i", [message_file, control, *streams])
            self._requests.sendmsg([RUN], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
        except OSError as error:
            raise ToolFailed(f"The server of the boxes is gone: {self.read_last_error() or error.strerror}.") from error
        finally:
            os.close(message_file)

    def read_last_error(self) -> str:
        """Return the last line that the server wrote about itself before it ended, "" if it wrote none."""
        size = os.fstat(self._errors).st_size
        lines = os.pread(self._errors, size, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End it, and with it every box that it made."""
        self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_TIMEOUT)
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        os.close(self._errors)
