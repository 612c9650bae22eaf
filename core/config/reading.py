"""Reading the files of settings. Errors name file, key and line, all of them at once."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from core.config.narrowing import narrowed
from core.config.problems import explained, problems, said_twice, together, wrong_rules
from core.config.settings import FILE_NAME, LoadedSettings, Settings
from core.errors import ConfigError
from core.permissions.voices import Hears, everything
from core.user_dirs import config_dir

PROJECT_FILE = Path(".agent-tui") / FILE_NAME
MAX_BYTES = 256 * 1024
_ALIASES = {("commands", "policy"): {"yolo": "auto"}}


def load_settings(workspace_root: Path | None = None) -> Settings:
    """The settings that hold in a workspace. Raises `ConfigError`."""
    return load_with_notices(workspace_root).settings


def load_with_notices(workspace_root: Path | None = None, hears: Hears = everything) -> LoadedSettings:
    """As `load_settings`, and what of the project's file was ignored. `hears`: whether the bytes of that file may be
    interpreted. Raises `ConfigError`."""
    settings, _ = _read(config_dir() / FILE_NAME, bytes_of(config_dir() / FILE_NAME))
    said = bytes_of(workspace_root / PROJECT_FILE) if workspace_root is not None else None
    if workspace_root is None or said is None or not hears(PROJECT_FILE.as_posix(), said):
        return LoadedSettings(settings=settings)
    theirs, table = _read(workspace_root / PROJECT_FILE, said)
    return narrowed(settings, theirs, table, PROJECT_FILE.as_posix())


def _read(path: Path, data: bytes | None) -> tuple[Settings, dict[str, Any]]:
    """The settings of one file (the defaults if there is none) and the raw table, to know which keys it sets."""
    if data is None:
        return Settings(), {}
    try:
        text = data.decode("utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", hint="Correct that line.") from None
    for (section, key), aliases in _ALIASES.items():
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = aliases.get(inner[key], inner[key])
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise together(list(problems(path, text, table)) or [explained(path, text, str(error))]) from None
    if wrong := [*wrong_rules(path, text, settings.permissions), *said_twice(path, text, settings)]:
        raise together(wrong)
    return settings, table


def bytes_of(path: Path) -> bytes | None:
    """A file of settings as it is; None: there is none. Raises `ConfigError`."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                raise ConfigError(
                    f"{path} is not a regular file of at most {MAX_BYTES // 1024} KiB.", hint="Move it out of the way."
                )
            return file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", hint="Check its permissions.") from None
