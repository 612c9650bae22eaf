"""Pseudo-terminals that a test reads from."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

TMUX = shutil.which("tmux")
MAX_LOOKS = 4_800  # four minutes at least, for a machine that has other work


def all_of(terminal: int) -> bytes:
    """What is written to a terminal until its other side is closed. Closes it."""
    output = b""
    while select.select([terminal], [], [], 50)[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(terminal)
    return output


class Tmux:
    """A tmux server of its own, with one window."""

    def __init__(self, directory: Path) -> None:
        self._call = [TMUX or "", "-S", str(directory / "tmux"), "-f", "/dev/null"]

    def run(self, *words: str) -> str:
        # Python's readline puts a size of the window into the environment that processes get unless one is named.
        run = subprocess.run([*self._call, *words], capture_output=True, text=True, check=False, env=dict(os.environ))
        return run.stdout

    def start(
        self, *command: str, size: tuple[int, int] = (100, 30), environment: Mapping[str, str] | None = None
    ) -> None:
        """Run a command in the window; `environment` is what it gets beside that of this process."""
        options = [word for name, value in (environment or {}).items() for word in ("-e", f"{name}={value}")]
        columns, rows = map(str, size)
        self.run("new-session", "-d", "-x", columns, "-y", rows, *options, "--", shlex.join(command))
        self.run("set", "-s", "set-clipboard", "on")

    def until(self, words: str, *question: str, looks: int = MAX_LOOKS, without: str = "") -> str:
        """Ask until the answer holds these words, and not those that it is to be `without`."""
        for _ in range(looks):
            answer = self.run(*(question or ("capture-pane", "-p")))
            if words in answer and not (without and without in answer):
                return answer
            select.select([], [], [], 0.05)
        raise TimeoutError(f"{words!r} was not seen; the screen: {answer}")

    def until_still(self) -> None:
        """Wait until the screen has not changed for a tenth of a second."""
        screen = ""
        while screen != (screen := self.run("capture-pane", "-e", "-p")):
            select.select([], [], [], 0.1)

    def until_ended(self) -> None:
        """Wait until the command in the window has ended, and with it the server."""
        for _ in range(MAX_LOOKS):
            if "1 windows" not in (listing := self.run("list-sessions")):
                return
            select.select([], [], [], 0.05)
        raise TimeoutError(f"it has not ended: {listing}")
