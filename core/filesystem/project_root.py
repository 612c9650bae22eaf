"""Directories that are too wide to be a project of the agent, or a repository around one."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import PathRefused


def refuse_wide_root(root: Path, user_path: Path, state_dir: Path, config_dir: Path) -> None:
    """Raise `PathRefused` for a directory that is no single project. `root` is a real path, `user_path` the user's own.

    Settings count as inside if their *path* is below the root (for example, a `direnv` sets `XDG_CONFIG_HOME`): the
    project would control its own settings. A link from the home into a repository (dotfiles) is allowed.
    """
    home = Path.home().resolve()
    settings = Path(os.path.normpath(config_dir.absolute()))
    if root == Path(root.anchor):
        description = "the root of the file system"
    elif root == home or root in home.parents:
        description = "your home directory" if root == home else "a directory above your home directory"
    elif root in state_dir.resolve().parents or root == state_dir.resolve():
        description = "the directory of agent-tui's own state"
    elif settings.is_relative_to(root) or settings.is_relative_to(user_path.absolute()):
        description = "the directory of agent-tui's own settings"
    else:
        return
    raise PathRefused(f"{root} is {description}, not a project.", hint=_suggest(description))


def _suggest(description: str) -> str:
    if description.endswith("settings"):
        return "Set AGENT_TUI_CONFIG_DIR or XDG_CONFIG_HOME to a directory outside the project."
    return "Start in a project's own directory, or name it."
