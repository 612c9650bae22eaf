"""The directories of this program in the user's home. Pure: nothing is made or looked at."""

from __future__ import annotations

import os
from pathlib import Path


def get_config_dir() -> Path:
    """Return the directory of the user's settings: `$AGENT_TUI_CONFIG_DIR`, else the platform's."""
    if named := os.environ.get("AGENT_TUI_CONFIG_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_config_path("agent-tui")


def get_cache_dir() -> Path:
    """Return the directory for what can be found out anew: `$AGENT_TUI_CACHE_DIR`, else the platform's."""
    if named := os.environ.get("AGENT_TUI_CACHE_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("agent-tui")


def get_state_dir() -> Path:
    """Return the directory of sessions, shadows and keys: `$AGENT_TUI_STATE_DIR`, else the platform's."""
    if named := os.environ.get("AGENT_TUI_STATE_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_state_path("agent-tui")
