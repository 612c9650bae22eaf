"""The program without the time its imports take: a process that has made them forks one that runs, per request.

For tests of what the program does. How it starts, its signals and its descriptors are tested with a start of its own.
A run begins in the state of a fresh start: own arguments, environment, directory and standard streams, no thread, no
event loop, every cache empty. Only imports have been made, in a process that has seen nothing of any test.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import marshal
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]
# What a turn imports besides `core` and an SDK, wherever that happens.
LIBRARIES = ("anyio._backends._asyncio", "httpcore2", "jinja2", "truststore")
_READ_AT_START = ("PYTHON", "LC_", "LANG")  # what the interpreter reads from the environment


def is_possible(env: Mapping[str, str]) -> bool:
    """Return True if a start with this environment gives the interpreter that waits."""
    return _choose_read_at_start(env) == _server().env


async def run(
    directory: Path, arguments: tuple[str, ...], env: Mapping[str, str], stdin: bytes
) -> tuple[int, bytes, bytes]:
    """Run the program; return its exit code as `subprocess` gives it, and what it wrote."""
    words = [os.fsencode(argument) for argument in arguments]
    asked = marshal.dumps((words, os.fsencode(directory), {os.fsencode(k): os.fsencode(v) for k, v in env.items()}))
    reply, far_end = _connect()
    with (
        reply,
        TemporaryFile() as request,
        TemporaryFile() as input_file,
        TemporaryFile() as out,
        TemporaryFile() as err,
    ):
        with far_end:
            _fill(request, asked)
            _fill(input_file, stdin)
            files = [file.fileno() for file in (request, input_file, out, err, far_end)]
            socket.send_fds(_server().requests, [b"run"], files)
        reply.setblocking(False)
        loop = asyncio.get_running_loop()
        pid = marshal.loads(await loop.sock_recv(reply, 64))
        try:
            code = marshal.loads(await loop.sock_recv(reply, 64))
        except asyncio.CancelledError:
            os.kill(pid, signal.SIGKILL)
            raise
        return code, _content(out), _content(err)


def _fill(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.seek(0)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _connect() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Started(NamedTuple):
    """A server of this process's own, which ends with it."""

    env: Mapping[str, str]
    requests: socket.socket
    process: subprocess.Popen[bytes]


@functools.cache
def _server() -> _Started:
    env = _choose_read_at_start(os.environ)
    requests, far_end = _connect()
    with far_end:
        # Pipes, since Python makes its standard streams by what they lead to.
        process = subprocess.Popen(
            [sys.executable, __file__, str(far_end.fileno())], cwd="/", env=env, pass_fds=[far_end.fileno()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
    return _Started(env, requests, process)


def _choose_read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in env if name.startswith(_READ_AT_START)}


def _import_program() -> None:
    sys.path[0] = str(ROOT)  # as it is after `python agent_tui.py`
    gc.disable()
    import core
    from core.providers.connection import lean_import

    for sdk in ("openai", "anthropic"):
        lean_import.load_sdk(sdk)
    for module in pkgutil.walk_packages(core.__path__, "core."):
        import_module(module.name)
    for name in LIBRARIES:
        import_module(name)
    gc.collect()
    gc.freeze()  # a collection would write to every page that the runs share
    gc.enable()


class _Server:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._running: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that tells the end

    def serve(self) -> None:
        """Return in each process that is to be the program; end when nobody is left to ask."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != self._requests.fileno():
                    poll.unregister(descriptor)
                    self._tell_end(descriptor)
                    continue
                _, files, _, _ = socket.recv_fds(self._requests, 16, 5)
                if not files:
                    os._exit(0)
                watch = self._fork(files)
                if not watch:
                    return
                poll.register(watch, select.POLLIN)

    def _fork(self, files: list[int]) -> int:
        """Return the descriptor that tells the end of the run; 0 in the process that is to run."""
        *run_files, answer = files
        reply = socket.socket(fileno=answer)
        pid = os.fork()
        if pid == 0:
            self._become_program(reply, *run_files)
            return 0
        for descriptor in run_files:
            os.close(descriptor)
        reply.send(marshal.dumps(pid))
        watch = os.pidfd_open(pid)
        self._running[watch] = (pid, reply)
        return watch

    def _tell_end(self, watch: int) -> None:
        pid, reply = self._running.pop(watch)
        os.close(watch)
        with reply:
            reply.send(marshal.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))

    def _become_program(self, reply: socket.socket, request: int, *streams: int) -> None:
        with os.fdopen(request, "rb") as asked:
            words, directory, env = marshal.load(asked)
        self._requests.close()
        for watch, (_, other) in self._running.items():
            os.close(watch)
            other.close()
        reply.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environb.clear()
        os.environb.update(env)
        time.tzset()
        os.chdir(directory)
        sys.argv = [str(ROOT / "agent_tui.py"), *map(os.fsdecode, words)]


def _main() -> NoReturn:
    _import_program()
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    import agent_tui

    sys.exit(agent_tui.main())


if __name__ == "__main__":
    _main()
