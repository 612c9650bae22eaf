"""Pseudo-terminals that a test reads from."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
from pathlib import Path

TMUX = shutil.which("tmux")
MAX_LOOKS = 1_200


def all_of(terminal: int) -> bytes:
    """What is written to a terminal until its other side is closed. Closes it."""
    shown = b""
    while select.select([terminal], [], [], 50)[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(terminal)
    return shown


class Tmux:
    """A tmux server of its own, with one window of 100 by 30."""

    def __init__(self, directory: Path) -> None:
        self._call = [TMUX or "", "-S", str(directory / "tmux"), "-f", "/dev/null"]

    def run(self, *words: str) -> str:
        return subprocess.run([*self._call, *words], capture_output=True, text=True, check=False).stdout

    def start(self, *command: str) -> None:
        self.run("new-session", "-d", "-x", "100", "-y", "30", "--", shlex.join(command))
        self.run("set", "-s", "set-clipboard", "on")

    def until(self, words: str, *question: str) -> str:
        """Ask until the answer holds these words."""
        for _ in range(MAX_LOOKS):
            told = self.run(*(question or ("capture-pane", "-p")))
            if words in told:
                return told
            select.select([], [], [], 0.05)
        raise TimeoutError(f"{words!r} was not seen; the end: {told[-800:]}")
