"""What is left on the terminal when the screen is gone: how to go on, and what waits for a review."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tui.state import ViewState
from tui.text import one_line


def farewell(state: ViewState, directory: Path) -> str:
    """Up to three lines with their newlines; "" for a session in which nothing was done, since nothing of it is kept.

    `directory` is the one that was opened; a demo is held in a copy of its own.
    """
    waiting = state.pending_hunks
    if state.private:
        kept = " What waits for your review is, without the conversation: agent-tui review" if state.kept else ""
        return f"Private: nothing of the conversation was kept.{kept}\n"
    if not (state.turns or waiting):
        return ""
    where = [] if _is_here(directory) else [str(directory)]
    last = [*_program(), *(["--demo"] if state.demo else where), "-c"]
    lines = [f"Go on: {_shown(last)}   (this session: --resume {state.session})"]
    if state.demo:
        lines.append(f"The demo's project: {one_line(state.workspace, 400)}")
    if waiting:
        lines.append(f"{waiting} {'hunk waits' if waiting == 1 else 'hunks wait'} for your review.")
    return "".join(f"{line}\n" for line in lines)


def _is_here(directory: Path) -> bool:
    try:
        return directory.samefile(Path.cwd())
    except OSError:  # one of them was removed
        return False


def _program() -> list[str]:
    """How this program was called, so that the line can be copied."""
    import shutil

    called = Path(sys.argv[0])
    if called.suffix == ".py":
        return [Path(sys.executable).name, str(called)]
    return [called.name] if shutil.which(called.name) else [str(called)]


def _shown(words: list[str]) -> str:
    return one_line(shlex.join(words), 400)
