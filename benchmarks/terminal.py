"""A program on a pseudo-terminal: what it writes, when, and what its whole process tree costs in CPU and memory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][0-9A-Z]|.)", re.S)

PATIENCE = 120.0  # seconds; so long may take on a machine with other work what takes one at rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU seconds (user + system, living and reaped children too) of a process tree, and its memory in bytes, in which
    a page that several processes share counts once (PSS)."""

    cpu: float
    memory: int


class Terminal:
    """Runs a program on a pty. Use as a context manager; leaving it kills the tree.

    `output` is everything that was written so far, escape sequences included.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 120,
        rows: int = 40,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.output = bytearray()
        self.started = time.perf_counter()
        self.fd, program_side = os.openpty()
        settings = termios.tcgetattr(self.fd)  # set before the program runs, which sets them, too
        settings[3] &= ~(termios.ECHO | termios.ICANON)  # or the kernel would show the letters itself
        termios.tcsetattr(self.fd, termios.TCSANOW, settings)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(program_side)
            self._become(argv, cwd, env)
        os.close(program_side)
        self.process = psutil.Process(self.pid)

    @staticmethod
    def _become(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None) -> None:
        try:
            if cwd:
                os.chdir(cwd)
            os.execvpe(argv[0], list(argv), dict(os.environ if env is None else env))
        finally:
            os._exit(127)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        tree = self._tree()
        for process in tree:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        os.close(self.fd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self.process, *self.process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def write(self, data: bytes) -> None:
        """Press keys."""
        os.write(self.fd, data)

    def send(self, text: str) -> None:
        """Type a line and press Enter, a moment apart: keys and Enter in one go would be a paste."""
        self.write(text.encode())
        self.drain(0.1)
        self.write(b"\r")

    def read(self, seconds: float) -> int:
        """Wait at most `seconds` for output; the number of bytes that came (0: none, or the program ended)."""
        ready, _, _ = select.select([self.fd], [], [], max(0.0, seconds))
        if not ready:
            return 0
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:  # the other side is closed
            return 0
        self.output += data
        return len(data)

    def text(self, since: int = 0) -> bytes:
        """What was written from byte `since` on, without escape sequences."""
        return ESCAPES.sub(b"", bytes(self.output[since:]))

    def wait_for(self, condition: Callable[[Terminal], bool] | bytes, *, limit: float = PATIENCE) -> float:
        """Seconds until `condition` holds (or the bytes appear). Raises TimeoutError with the tail of the output."""
        begin, since = time.perf_counter(), len(self.output)
        while time.perf_counter() - begin < limit:
            if condition in self.text(since) if isinstance(condition, bytes) else condition(self):
                return time.perf_counter() - begin
            self.read(0.05)
        tail = self.text()[-400:].decode(errors="replace")
        raise TimeoutError(f"not seen within {limit} s: {condition!r}; the end of the output: {tail}")

    def until_typed(self, letter: bytes = b"y", *, limit: float = PATIENCE) -> float:
        """Seconds from exec until a capital letter shows that is typed every 20 ms, as by somebody in a hurry."""
        letter = letter.upper()
        while time.perf_counter() - self.started < limit:
            self.write(letter)
            self.read(0.02)
            if letter in self.text():
                return time.perf_counter() - self.started
        raise TimeoutError(f"{letter!r} was typed for {limit} s and never showed")

    def echo(self, letter: bytes, *, expected: bytes = b"", limit: float = PATIENCE) -> float:
        """Seconds from a key press until `expected` (by default the letter) is in the output."""
        since, begin = len(self.output), time.perf_counter()
        self.write(letter)
        while time.perf_counter() - begin < limit:
            if self.read(0.1) and (expected or letter) in self.text(since):
                return time.perf_counter() - begin
        raise TimeoutError(f"{letter!r} did not show within {limit} s: {self.text(since)[-200:]!r}")

    def settle(self, quiet: float = 0.5, *, limit: float = 15.0) -> None:
        """Read until nothing comes for `quiet` seconds."""
        begin = last = time.perf_counter()
        while time.perf_counter() - last < quiet and time.perf_counter() - begin < limit:
            if self.read(0.05):
                last = time.perf_counter()

    def drain(self, seconds: float) -> int:
        """Read for that long; bytes that came."""
        before, end = len(self.output), time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)
        return len(self.output) - before

    def cost(self) -> Cost:
        """What the tree has cost so far."""
        cpu, memory = 0.0, 0
        for process in self._tree():
            try:
                times = process.cpu_times()
                memory += process.memory_full_info().pss
            except psutil.NoSuchProcess:
                continue
            cpu += times.user + times.system + times.children_user + times.children_system
        return Cost(cpu=cpu, memory=memory)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself."""
        os.kill(self.pid, number)
