"""Tier M1: Seatbelt around a command that runs on a clone of the project (macOS).

There are no mounts and no namespaces. The command runs in a session copy, which APFS clones in one call, at another
path than the project; `sandbox-exec` denies what `seatbelt_profile` does not allow. What it leaves running is found by
its session, its process group, its descendants (looked at while it runs), its environment and its sandbox, and ended.

Written from published facts, and not yet run by us on a Mac: the tier is taken only where the attempts of the self-test
hold. On Linux the tests run everything but Seatbelt itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from core.clock import monotonic
from core.errors import ToolFailed
from core.filesystem.private_files import make_private_directory
from core.ids import new_id
from core.processes import list_command_lines, restore_signals
from core.sandbox import host_view
from core.sandbox.box import BoxRequest, BoxResult, EndReason, RunningCommand, Tier
from core.sandbox.network import ListeningPort
from core.sandbox.other_path import map_paths, rewrite_command
from core.sandbox.output import OutputReader
from core.sandbox.tiers.boxed_process import make_scratch_path
from core.sandbox.tiers.dropped_changes import describe_limits
from core.sandbox.tiers.landlock_box import BOX_VARIABLE, withhold_hidden_paths
from core.sandbox.tiers.project_copy import remove_copy
from core.sandbox.tiers.project_survey import CopyLimits
from core.sandbox.tiers.seatbelt_profile import ProfileInput, build_profile
from core.sandbox.tiers.session_copy import CopyLease, SessionCopies
from core.sandbox.unboxed_run import find_shell, kill_marked_processes

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

_IS_DARWIN: bool = sys.platform == "darwin"
PROGRAM = "/usr/bin/sandbox-exec"
_GRACE, _POLL, _END = 2.0, 0.05, 5.0
# A clone is made once in a session and costs hardly any room, so it may take longer, and hold what git ignores.
_LIMITS = CopyLimits(seconds=30.0, size=16 << 30, ignored_size=16 << 30, ignored_files=1_000_000)
# The shell sets limits that the system enforces for each process; the command itself starts after that.
_START = (
    "ulimit -c 0; ulimit -n {files} 2>/dev/null; ulimit -f {blocks} 2>/dev/null; ulimit -u {processes} 2>/dev/null; "
    '{memory}exec "$0" -c "$1"'
)


class SeatbeltBox:
    """The box of M1; implements `core.sandbox.box.Box`."""

    tier = Tier.SEATBELT

    def __init__(self, state: Path, *, limits: CopyLimits = _LIMITS, program: str = PROGRAM) -> None:
        self._state, self._program = state, program
        self._copies = SessionCopies(state, limits=limits)
        self._running: set[_SeatbeltProcess] = set()

    async def start(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> RunningCommand:
        if "\0" in request.command:
            raise ToolFailed("The command holds a NUL character.", hint="Send it without.")
        if request.proxy is not None:
            raise ToolFailed(f"Commands have no network in tier {self.tier}.")
        launch = await asyncio.to_thread(self._prepare, request)
        running = _SeatbeltProcess(request, launch)
        try:
            await running.start([on_output, *([on_errors] if on_errors else [])])
        except BaseException:
            await asyncio.to_thread(launch.finish, None)
            raise
        self._running.add(running)
        running.add_done_callback(lambda: self._running.discard(running))
        return running

    async def open_network(self, _on_ports: Callable[[tuple[ListeningPort, ...]], None]) -> None:
        """Return none: the loopback here is the machine's."""

    async def close(self) -> None:
        for process in [*self._running]:
            await process.stop()
        await asyncio.to_thread(self._copies.close)

    def _prepare(self, request: BoxRequest) -> _Launch:
        request = withhold_hidden_paths(request)
        lease = self._copies.acquire(request)
        scratch = make_scratch_path(self._state)
        try:
            home = _make_home(scratch, request)
            profile = scratch / "profile.sb"
            profile.write_text(build_profile(_list_paths(request, lease.root, scratch, self._state)), encoding="utf-8")
        except BaseException as error:
            lease.collect(None)
            remove_copy(scratch)
            if not isinstance(error, OSError):
                raise
            raise ToolFailed(f"The sandbox could not be set up: {error.strerror}.", code="box_refused") from error
        mapping = map_paths(request.env, request.workspace, lease.root, request.command)
        mark = new_id("box")
        temporary = str(scratch / "tmp")
        own = {"HOME": str(home), "TMPDIR": temporary, BOX_VARIABLE: mark}
        command = rewrite_command(request.command, request.workspace, lease.root)
        return _Launch(
            arguments=(self._program, "-f", str(profile), *_build_arguments(request, command)),
            env={**request.env, **mapping.env, **own},
            cwd=Path(os.path.normpath(lease.root / request.cwd)),
            lease=lease,
            scratch=scratch,
            mark=mark,
            request=request,
            unproven=mapping.problem,
        )


class _Launch(Struct, kw_only=True):
    """A command to start in its copy."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    lease: CopyLease
    scratch: Path
    mark: str
    request: BoxRequest
    unproven: str

    def finish(self, upper: Path | None) -> tuple[str, ...]:
        """Collect the changes and remove the scratch directory. Returns notes for the user."""
        try:
            return (*self.lease.collect(upper), *describe_limits(self.request))
        finally:
            remove_copy(self.scratch)


def _make_home(scratch: Path, request: BoxRequest) -> Path:
    home = scratch / "home"
    make_private_directory(scratch.parent)
    for directory in (scratch, home, scratch / "tmp"):
        directory.mkdir(mode=0o700)
    if request.cache is not None:
        (home / ".cache").symlink_to(request.cache)
    if request.git_settings:
        (home / ".gitconfig").write_text(request.git_settings, encoding="utf-8", errors="surrogateescape")
    return home


def _build_arguments(request: BoxRequest, command: str) -> tuple[str, ...]:
    limits = request.limits
    memory = f"ulimit -v {limits.memory >> 10} 2>/dev/null; " if limits.memory else ""
    start = _START.format(
        files=limits.open_files,
        blocks=limits.file_size >> 9,
        processes=limits.processes + _count_own_processes(),
        memory=memory,
    )
    return (find_shell(), "-c", start, find_shell(), command)


def _count_own_processes() -> int:
    """Return the number of the user's processes: the limit counts them all."""
    import psutil

    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += process.uids().real == os.getuid()
    return count


def _list_paths(request: BoxRequest, root: Path, scratch: Path, state: Path) -> ProfileInput:
    """List the paths of a command. The copy and the scratch directory lie in our state directory, which is private.
    What the copy withholds is empty there anyway."""
    toolchains = host_view.find_toolchains(request.env)
    held = [path for path in (request.workspace / name for name in (".venv", "venv", "env")) if path.is_dir()]
    home = host_view.find_home(request.env)
    keychains = home / "Library" / "Keychains"
    writable = (root, scratch, *([request.cache] if request.cache else []), *(path for path, _ in request.writable))
    withheld = [request.workspace / path for path in (*request.withheld, *request.masked)]
    hidden = [*request.hidden, *withheld, *host_view.find_credentials(toolchains), keychains]
    visible = {os.path.realpath(path) for path in writable}
    return ProfileInput(
        writable=writable,
        readable=(*toolchains, *request.readable, *held, *find_developer_directories()),
        hidden=tuple(path for path in hidden if not _contains(path, visible)),
        private=(*ProfileInput(writable=()).private, home, state, *host_view.list_masked()),
        tag=f"agent-tui {scratch.name}",
    )


def _contains(path: Path, visible: Iterable[str]) -> bool:
    """True if a hidden directory holds one that the command writes to (our state directory); it is private then."""
    real = os.path.realpath(path)
    return any(entry == real or entry.startswith(f"{real}/") for entry in visible)


@cache
def find_developer_directories() -> tuple[Path, ...]:
    """Return Xcode's active directory, to which `git` and `python3` in /usr/bin lead; () without one."""
    if not _IS_DARWIN:
        return ()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            ["/usr/bin/xcode-select", "-p"], capture_output=True, text=True, timeout=5, check=True, env={}
        )
        if (path := Path(result.stdout.strip())).is_absolute():
            return (path,)
    return ()


class _SeatbeltProcess:
    """A command in the box; implements `core.sandbox.box.RunningCommand`."""

    _process: asyncio.subprocess.Process
    _follow_task: asyncio.Task[BoxResult]
    edits = None

    def __init__(self, request: BoxRequest, launch: _Launch) -> None:
        self._request, self._launch = request, launch
        self._readers: list[OutputReader] = []
        self._forced = asyncio.Event()
        self._forced_end: EndReason | None = None
        self._family: dict[int, float] = {}
        self._started_at = monotonic()

    async def start(self, listeners: list[Callable[[str], None]]) -> None:
        """Start the command. Raises `ToolFailed` if it can't be started; then no part of it ran."""
        sinks: list[int] = []
        try:
            for listener in listeners:
                sinks.append(self._add_reader(listener))
            self._process = await asyncio.create_subprocess_exec(
                *self._launch.arguments,
                cwd=self._launch.cwd,
                env=dict(self._launch.env),
                stdin=asyncio.subprocess.PIPE if self._request.interactive else asyncio.subprocess.DEVNULL,
                stdout=sinks[0],
                stderr=sinks[-1],
                start_new_session=True,
                preexec_fn=restore_signals,
            )
        except OSError as error:
            for reader in self._readers:
                reader.stop()
            raise ToolFailed(f"The sandbox could not be started: {error.strerror}.", code="box_refused") from error
        finally:
            for sink in sinks:
                os.close(sink)
        self._follow_task = asyncio.create_task(self._follow())

    def _add_reader(self, listener: Callable[[str], None]) -> int:
        source, sink = os.pipe()
        limits = self._request.limits
        on_limit = lambda: self._force_end("flooded")  # noqa: E731
        self._readers.append(
            OutputReader(source, listener, limit=limits.output, raw=self._request.raw, on_limit=on_limit)
        )
        return sink

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the command has ended."""
        self._follow_task.add_done_callback(lambda _: callback())

    async def wait(self) -> BoxResult:
        return await asyncio.shield(self._follow_task)

    def send(self, data: bytes) -> None:
        if self._process.stdin is None:
            raise ToolFailed("The command has no standard input.")
        if not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def interrupt(self) -> None:
        self._signal_group(signal.SIGINT)

    async def stop(self) -> BoxResult:
        if not self._follow_task.done() and self._forced_end is None:
            self._forced_end = "stopped"
            self._signal_group(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._process.wait()
            self._forced.set()
        return await self.wait()

    def _force_end(self, reason: EndReason) -> None:
        self._forced_end = self._forced_end or reason
        self._forced.set()

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _follow(self) -> BoxResult:
        """Wait for the end, end all that is left, and collect the changes."""
        waiting = asyncio.ensure_future(self._process.wait())
        forced = asyncio.ensure_future(self._forced.wait())
        seconds = self._request.limits.seconds
        while not waiting.done() and not self._forced.is_set():
            await asyncio.wait({waiting, forced}, timeout=_POLL, return_when=asyncio.FIRST_COMPLETED)
            self._family |= _list_descendants(self._process.pid)
            if seconds is not None and monotonic() - self._started_at > seconds:
                self._force_end("timed_out")
        forced.cancel()
        left = () if self._forced.is_set() else await asyncio.to_thread(self._list_left)
        self._signal_group(signal.SIGKILL)
        await asyncio.to_thread(self._end_family)
        await waiting
        duration = round((monotonic() - self._started_at) * 1000)
        for reader in self._readers:
            reader.stop()
        if self._process.stdin is not None:
            self._process.stdin.close()
        notes = await asyncio.to_thread(self._launch.finish, self._request.upper)
        end_reason: EndReason = self._forced_end or "exited"
        code = waiting.result()
        return BoxResult(
            exit_code=(code if code >= 0 else 128 - code) if end_reason == "exited" else None,
            end_reason=end_reason,
            duration_ms=duration,
            notes=notes,
            unproven=self._launch.unproven,
            left=left,
        )

    def _list_left(self) -> tuple[str, ...]:
        """Return the command lines of the processes that the command has left running."""
        return list_command_lines(_list_survivors(self._process.pid, self._family, self._launch))

    def _end_family(self) -> None:
        """Kill what the command left, again while it still forks."""
        import psutil

        kill_marked_processes(BOX_VARIABLE, self._launch.mark)
        end = monotonic() + _END
        while survivors := [*_list_survivors(self._process.pid, self._family, self._launch)]:
            for survivor in survivors:
                with contextlib.suppress(psutil.Error):
                    survivor.kill()
            psutil.wait_procs(survivors, timeout=_POLL)
            kill_marked_processes(BOX_VARIABLE, self._launch.mark)
            if monotonic() > end:
                break


def _list_descendants(pid: int) -> dict[int, float]:
    """Return the descendants of a process, with the times of their start: a number may be used again."""
    import psutil

    family = {}
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                family[process.pid] = process.create_time()
    return family


def _list_survivors(leader: int, family: Mapping[int, float], launch: _Launch) -> Iterator[psutil.Process]:
    """Yield what the command left. A process that has left its session and lost its parent at once is known by its
    directory, which no other process has, and by its sandbox."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            is_ours = process.pid != leader and (
                family.get(process.pid) == process.create_time()
                or os.getsid(process.pid) == leader
                or os.getpgid(process.pid) == leader
                or (process.ppid() == 1 and _is_inside(process, launch))
                or is_in_sandbox(process.pid, launch.scratch)
            )
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _is_inside(process: psutil.Process, launch: _Launch) -> bool:
    directory = Path(process.cwd())
    return any(directory.is_relative_to(os.path.realpath(place)) for place in (launch.lease.root, launch.scratch))


def is_in_sandbox(pid: int, scratch: Path) -> bool:
    """True if a process is in a sandbox that may write to a command's own scratch directory: only that command's.

    `sandbox_check` returns 1 for what is denied; without an operation, for any sandbox at all.
    """
    check = _load_sandbox_check()
    if check is None or not check(pid, None, 0):
        return False
    return bool(check(pid, b"file-write-data", 1, os.fsencode(os.path.realpath(scratch))) == 0)


@cache
def _load_sandbox_check() -> Callable[..., int] | None:
    if not _IS_DARWIN:
        return None
    with contextlib.suppress(OSError, AttributeError):
        function = ctypes.CDLL("libSystem.dylib").sandbox_check
        function.restype = ctypes.c_int
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int)  # any more are variable ones
        return function
    return None
