"""Settings: the user's file decides, a project's file may only narrow it."""

from __future__ import annotations

from core.config.loading import PROJECT_FILE, load_settings, load_with_notices, read_settings_bytes
from core.config.model_settings import (
    DialectName,
    ModelSettings,
    ModeSettings,
    ModeTable,
    Price,
    ProviderSettings,
    RouteSettings,
    RouteTable,
)
from core.config.settings import (
    FILE_NAME,
    CommandPolicy,
    CommandSettings,
    ContextSettings,
    DialectFiles,
    EditSettings,
    LoadedSettings,
    PermissionSettings,
    Settings,
    TurnLimits,
)

__all__ = [
    "FILE_NAME",
    "PROJECT_FILE",
    "CommandPolicy",
    "CommandSettings",
    "ContextSettings",
    "DialectFiles",
    "DialectName",
    "EditSettings",
    "LoadedSettings",
    "ModeSettings",
    "ModeTable",
    "ModelSettings",
    "PermissionSettings",
    "Price",
    "ProviderSettings",
    "RouteSettings",
    "RouteTable",
    "Settings",
    "TurnLimits",
    "load_settings",
    "load_with_notices",
    "read_settings_bytes",
]
