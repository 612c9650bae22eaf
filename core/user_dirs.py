"""The directories of this program in the user's home, and those around them that are no project. Nothing is created."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import ConfigError, PathRefused
from core.filesystem.name_spelling import resolve_spelled


def require_home() -> None:
    """Raise `ConfigError` if the user has no home directory, which most paths depend on."""
    try:
        Path.home()
    except RuntimeError:
        raise ConfigError(
            f"there is no home directory: HOME is not set, and user {os.getuid()} is not in the user database.",
            hint="Set HOME to a directory of yours.",
            code="no_home",
        ) from None


def get_config_dir() -> Path:
    """Return the directory of the user's settings: `$AGENT_TUI_CONFIG_DIR`, else the platform's."""
    if override := os.environ.get("AGENT_TUI_CONFIG_DIR"):
        return Path(override).expanduser()
    import platformdirs

    return platformdirs.user_config_path("agent-tui")


def get_cache_dir() -> Path:
    """Return the directory of recomputable data: `$AGENT_TUI_CACHE_DIR`, else the platform's."""
    if override := os.environ.get("AGENT_TUI_CACHE_DIR"):
        return Path(override).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("agent-tui")


def get_state_dir() -> Path:
    """Return the directory of sessions, shadows and keys: `$AGENT_TUI_STATE_DIR`, else the platform's."""
    if override := os.environ.get("AGENT_TUI_STATE_DIR"):
        return Path(override).expanduser()
    import platformdirs

    return platformdirs.user_state_path("agent-tui")


def list_socket_dirs() -> tuple[Path, ...]:
    """Return the directories in which an engine may listen, best first: below `$XDG_RUNTIME_DIR`, in the state
    directory, or the user's own below the temporary directory."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    temporary_dir = Path(os.environ.get("TMPDIR") or "/tmp") / f"agent-tui-{os.getuid()}"
    runtime_dirs = [runtime / "agent-tui"] if runtime.is_absolute() else []
    return (*runtime_dirs, get_state_dir() / "run", temporary_dir)


def refuse_wide_root(root: Path, user_path: Path, state_dir: Path, config_dir: Path) -> None:
    """Raise `PathRefused` for a directory that is no single project. `root` is a real path, `user_path` the user's own.

    Settings count as inside if their *path* is below the root (for example, a `direnv` sets `XDG_CONFIG_HOME`): the
    project would control its own settings. A link from the home into a repository (dotfiles) is allowed.
    """
    home, state_root = resolve_spelled(Path.home()), resolve_spelled(state_dir)
    settings = Path(os.path.normpath(config_dir.absolute()))
    if root == Path(root.anchor):
        description = "the root of the file system"
    elif root == home or root in home.parents:
        description = "your home directory" if root == home else "a directory above your home directory"
    elif root in state_root.parents or root == state_root:
        description = "the directory of agent-tui's own state"
    elif settings.is_relative_to(root) or settings.is_relative_to(user_path.absolute()):
        description = "the directory of agent-tui's own settings"
    else:
        return
    raise PathRefused(f"{root} is {description}, not a project.", hint=_suggest_root(description))


def _suggest_root(description: str) -> str:
    if description.endswith("settings"):
        return "Set AGENT_TUI_CONFIG_DIR or XDG_CONFIG_HOME to a directory outside the project."
    return "Start in a project's own directory, or name it."
