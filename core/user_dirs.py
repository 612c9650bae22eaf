"""The directories of this program in the user's home. Nothing is created."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import ConfigError


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
