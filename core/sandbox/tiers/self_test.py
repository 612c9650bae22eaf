"""Six escape attempts that a box must contain, actually made in a small test project.

The state of the host afterwards counts, not the output of the attempts.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from core.filesystem.overlay_support import SHARED_MEMORY, can_hold_upper, is_whiteout
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.sandbox.box import Box, BoxLimits, BoxRequest, Tier
from core.sandbox.host_view import build_environment, is_open_to_all
from core.sandbox.inside.landlock import get_abi_version
from core.sandbox.tiers.boxed_process import ISOLATION

SECONDS = 2.0
_SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
_HAS_PROC = Path("/proc/self/fd").is_dir()
_SECRET = "not to be read"
_SCRIPT = """\
import _socket, os, sys, time
private, shared, sockets, port, abstract, bystander, token = sys.argv[1:]
def tried(name, act):
    try:
        act()
    except OSError:
        return
    print("reached:" + name)
def connect(family, address):
    _socket.socket(family, _socket.SOCK_STREAM).connect(address)
def write(path, text):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(file, text)
    os.close(file)
write("changed", b"new"), write("made", b"new"), os.unlink("removed")
tried("secret", lambda: os.open(private + "/secret", os.O_RDONLY))
tried("outside", lambda: write(private + "/outside", b"new"))
tried("tcp", lambda: connect(_socket.AF_INET, ("127.0.0.1", int(port))))
tried("path", lambda: connect(_socket.AF_UNIX, sockets + "/private/socket"))
tried("shared", lambda: connect(_socket.AF_UNIX, sockets + "/shared/socket"))
if sys.platform == "linux":
    tried("abstract", lambda: connect(_socket.AF_UNIX, b"\\0" + abstract.encode()))
if bystander != "0":
    tried("kill", lambda: os.kill(int(bystander), 15))
if os.fork() == 0:
    os.setsid()
    os.execv("/bin/sh", ["sh", "-c", "sleep 30 && : " + token])
print("done")
"""
ITEMS = ("outside", "workspace", "network", "sockets", "processes", "survivors")


class SelfTestItem(Struct, frozen=True):
    """One attempt. `held`: the box contained it; `found`: otherwise, the effects on the host."""

    name: str
    held: bool
    found: str = ""


async def run_self_test(box: Box, state: Path, env: Mapping[str, str] | None = None) -> tuple[SelfTestItem, ...]:
    """Run the attempts in the box, in a directory below `state` that is removed afterwards.

    Raises `ToolFailed` if the box can't even start a command; OSError if the test itself can't be set up.
    """
    with _TestBed(state) as test_bed:
        chunks: list[str] = []
        request = test_bed.build_request(build_environment(env if env is not None else os.environ), box.tier)
        running = await box.start(request, chunks.append)
        result = await running.wait()
        output = "".join(chunks)
        if result.end_reason != "exited" or "done" not in output:
            outcome = result.end_reason if result.end_reason != "exited" else f"exit code {result.exit_code}"
            return (
                SelfTestItem(
                    "start", False, f"the attempts did not run to their end: {outcome}: {output.strip()[-300:]}"
                ),
            )
        return tuple(test_bed.evaluate(set(output.split())))


def find_open_python() -> str:
    """Return a Python that every user may run, since root's commands may run as another one: that of this program, or
    the system's; without one, that of this program."""
    own_path = os.path.realpath(sys.executable)
    candidates = [own_path, *(path for path in _SYSTEM_PYTHONS if os.path.exists(path))]
    return next((path for path in candidates if is_open_to_all(path)), own_path)


class _TestBed:
    """A test project, a private directory, listening sockets and a bystander process."""

    def __init__(self, state: Path) -> None:
        self._root = state / new_id("probe")
        self._layers = self._root
        self._token = new_id("survivor")

    def __enter__(self) -> _TestBed:
        make_private_directory(self._root.parent)
        self._root.mkdir(mode=0o700)
        for name in ("project", "private", "shared"):
            (self._root / name).mkdir()
        if not can_hold_upper(self._root) and SHARED_MEMORY.is_dir():  # sessions make their layers there, too
            self._layers = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=SHARED_MEMORY))
        for name in ("upper", "work"):
            (self._layers / name).mkdir()
        for name in ("changed", "removed"):
            (self._root / "project" / name).write_text("old")
        (self._root / "private" / "secret").write_text(_SECRET)
        self._sockets = [socket.socket(), *(socket.socket(socket.AF_UNIX) for _ in range(3))]
        self._sockets[0].bind(("127.0.0.1", 0))
        self._link = Path(tempfile.mkdtemp(prefix="agent-tui-"), "p") if not _HAS_PROC else self._root
        if not _HAS_PROC:  # the path may be too long for a socket address
            self._link.symlink_to(self._root)
        self._bind_path(self._sockets[1], "private/socket")
        self._bind_path(self._sockets[3], "shared/socket")
        if _HAS_PROC:
            self._sockets[2].bind(b"\0" + self._token.encode())
        else:  # there are no abstract sockets
            self._bind_path(self._sockets[2], "private/other")
        for listener in self._sockets:
            listener.listen(4)
            listener.setblocking(False)
        self._bystander = subprocess.Popen(["/bin/sleep", "30"], stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._bystander.kill()
        self._bystander.wait()
        for listener in self._sockets:
            listener.close()
        directories = {self._root, self._layers, *([] if self._link == self._root else [self._link.parent])}
        for directory in directories:
            with contextlib.suppress(OSError):
                remove_tree(directory)

    def _bind_path(self, listening: socket.socket, name: str) -> None:
        """Bind by descriptor or by a short link, since the path may be too long for a socket address."""
        path = self._link / name
        if not _HAS_PROC:
            listening.bind(str(path))
            return
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            listening.bind(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)

    def build_request(self, env: Mapping[str, str], tier: Tier) -> BoxRequest:
        private, shared_directory, port = (
            self._root / "private",
            self._root / "shared",
            self._sockets[0].getsockname()[1],
        )
        python = find_open_python()
        # Below ABI 6 Landlock does not stop signals; the tier is offered with that warning, and asks for every command.
        bystander = 0 if tier is Tier.LANDLOCK and get_abi_version() < 6 else self._bystander.pid
        words = [python, *ISOLATION, "-c", _SCRIPT]
        words += map(str, (private, shared_directory, self._link, port, self._token, bystander, self._token))
        return BoxRequest(
            workspace=self._root / "project",
            command=shlex.join(words),
            env=env,
            upper=self._layers / "upper",
            work=self._layers / "work",
            hidden=(private,),
            readable=(Path(os.path.realpath(sys.base_prefix)), shared_directory),
            limits=BoxLimits(seconds=SECONDS),
        )

    def evaluate(self, output: set[str]) -> Iterator[SelfTestItem]:
        private, project, upper = self._root / "private", self._root / "project", self._layers / "upper"
        yield _build_item(
            "outside",
            {
                "a hidden file was read": "reached:secret" in output,
                "a file outside was written": "reached:outside" in output and (private / "outside").exists(),
            },
        )
        yield _build_item(
            "workspace",
            {
                "the project was changed": sorted(path.name for path in project.iterdir()) != ["changed", "removed"]
                or (project / "changed").read_text() != "old",
                "a change was not kept": not all((upper / name).is_file() for name in ("changed", "made")),
                "a deletion was not kept": not _has_whiteout(upper / "removed"),
            },
        )
        yield _build_item("network", {"a port of the host was reached": _is_reached(self._sockets[0])})
        yield _build_item(
            "sockets",
            {
                "a unix socket of the host was reached": _is_reached(self._sockets[1]),
                "a unix socket in a visible directory was reached": _is_reached(self._sockets[3]),
                "an abstract unix socket of the host was reached": _is_reached(self._sockets[2]),
            },
        )
        yield _build_item("processes", {"a process of the host was ended": self._bystander.poll() is not None})
        yield _build_item("survivors", {"a process outlived its command": _kill_survivor(self._token)})


def _build_item(name: str, failures: Mapping[str, bool]) -> SelfTestItem:
    labels = [label for label, has_failed in failures.items() if has_failed]
    return SelfTestItem(name, not labels, "; ".join(labels))


def _is_reached(listening: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        listening.accept()[0].close()
        return True
    return False


def _has_whiteout(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return is_whiteout(path.lstat())
    return False


def _kill_survivor(token: str) -> bool:
    """Kill a process that has the token among its arguments; return True if there was one."""
    has_survivor = False
    for pid, words in _list_command_lines():
        if pid != os.getpid() and token.encode() in words:
            has_survivor = True
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return has_survivor


def _list_command_lines() -> Iterator[tuple[int, bytes]]:
    if not _HAS_PROC:
        import psutil  # type: ignore[import-untyped]

        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                yield process.pid, "\0".join(process.cmdline()).encode()
        return
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit():
                yield int(path.name), (path / "cmdline").read_bytes()
