"""Where this program keeps its things in the user's home. Pure: nothing is made or looked at."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """Where the user's settings are: `$AGENT_TUI_CONFIG_DIR`, else the platform's place for them."""
    if named := os.environ.get("AGENT_TUI_CONFIG_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_config_path("agent-tui")


def cache_dir() -> Path:
    """What can be found out anew: `$AGENT_TUI_CACHE_DIR`, else the platform's place for it."""
    if named := os.environ.get("AGENT_TUI_CACHE_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("agent-tui")


def state_dir() -> Path:
    """Where sessions, shadows and keys are kept: `$AGENT_TUI_STATE_DIR`, else the platform's place for them."""
    if named := os.environ.get("AGENT_TUI_STATE_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_state_path("agent-tui")
