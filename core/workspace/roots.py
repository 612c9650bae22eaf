"""Which directories are too wide to be a project: what is written there would be the user's or the program's own."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import PathRefused


def default_state_dir() -> Path:
    """Where this program keeps its state, whether it is there or not."""
    if chosen := os.environ.get("AGENT_TUI_STATE_DIR"):
        return Path(chosen)
    from platformdirs import user_state_path

    return user_state_path("agent-tui")


def refuse_too_wide(root: Path, state_dir: Path) -> None:
    """Raise `PathRefused` for a directory that is no single project; both paths are real ones."""
    home = Path.home().resolve()
    if root == Path(root.anchor):
        what = "the root of the file system"
    elif root == home or root in home.parents:
        what = "your home directory" if root == home else "a directory above your home directory"
    elif root in state_dir.resolve().parents or root == state_dir.resolve():
        what = "a directory that holds this program's own state"
    else:
        return
    raise PathRefused(f"{root} is {what}, not a project.", hint="Start in a project's own directory, or name it.")
