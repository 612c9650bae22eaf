"""Settings: the user's file decides, a project's file may only narrow it."""

from __future__ import annotations

from core.config.models import (
    DialectName,
    EditFormat,
    ModelSettings,
    ModeSettings,
    ModeTable,
    Price,
    ProviderSettings,
    RouteSettings,
    RouteTable,
)
from core.config.reading import PROJECT_FILE, bytes_of, load_settings, load_with_notices
from core.config.settings import (
    FILE_NAME,
    CommandPolicy,
    Commands,
    ContextSettings,
    DialectFiles,
    Edits,
    Limits,
    LoadedSettings,
    PermissionSettings,
    Settings,
)

__all__ = [
    "FILE_NAME",
    "PROJECT_FILE",
    "CommandPolicy",
    "Commands",
    "ContextSettings",
    "DialectFiles",
    "DialectName",
    "EditFormat",
    "Edits",
    "Limits",
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
    "bytes_of",
    "load_settings",
    "load_with_notices",
]
