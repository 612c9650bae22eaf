"""The loader of the settings files. Errors name file, key and line, all of them at once."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from core.config.narrowing import narrow_settings
from core.config.problems import find_problems, merge_errors
from core.config.settings import FILE_NAME, LoadedSettings, Settings
from core.errors import ConfigError
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.records import convert, parse_toml
from core.user_dirs import get_config_dir

PROJECT_FILE = Path(".agent-tui") / FILE_NAME
MAX_BYTES = 256 * 1024
_ALIASES = {("commands", "policy"): {"yolo": "auto"}}


def load_settings(workspace_root: Path | None = None) -> Settings:
    """Load the settings that hold in a workspace. Raises `ConfigError`."""
    return load_with_notices(workspace_root).settings


def load_with_notices(workspace_root: Path | None = None, is_trusted: TrustCheck = trust_everything) -> LoadedSettings:
    """Load the settings like `load_settings`, with notices about ignored lines of the project's file. `is_trusted`:
    whether the bytes of that file may be interpreted. Raises `ConfigError`."""
    settings, _ = parse_settings(get_config_dir() / FILE_NAME, read_settings_bytes(get_config_dir() / FILE_NAME))
    project_bytes = read_settings_bytes(workspace_root / PROJECT_FILE) if workspace_root is not None else None
    if workspace_root is None or project_bytes is None or not is_trusted(PROJECT_FILE.as_posix(), project_bytes):
        return LoadedSettings(settings=settings)
    project_settings, table = parse_settings(workspace_root / PROJECT_FILE, project_bytes)
    return narrow_settings(settings, project_settings, table, PROJECT_FILE.as_posix())


def parse_settings(path: Path, data: bytes | None) -> tuple[Settings, dict[str, Any]]:
    """Parse one file. Returns its settings (the defaults if there is none) and the raw table, which tells its keys.
    Raises `ConfigError`, with all problems in it."""
    if data is None:
        return Settings(), {}
    text, table = parse_table(path, data)
    if problems := list(find_problems(path, text, table)):
        raise merge_errors(problems)
    return convert(table, Settings), table


def parse_table(path: Path, data: bytes) -> tuple[str, dict[str, Any]]:
    """Parse a file as text and as the raw table in it. Raises `ConfigError` for what is no TOML."""
    try:
        text = data.decode("utf-8")
        table = parse_toml(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", hint="Correct that line.") from None
    for (section, key), aliases in _ALIASES.items():
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = aliases.get(inner[key], inner[key])
    return text, table


def read_settings_bytes(path: Path) -> bytes | None:
    """Read a settings file; None: there is none. Raises `ConfigError`."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                raise ConfigError(
                    f"{path} is not a regular file of at most {MAX_BYTES // 1024} KiB.", hint="Move it out of the way."
                )
            return file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", hint="Check its permissions.") from None
