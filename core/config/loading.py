"""Loading of the settings files: errors name file, key and line, and a project may only narrow the user's settings.

A project is foreign text until its user trusts it, so nothing in `.agent-tui/config.toml` can choose a model, a server,
a key or a laxer policy: such lines are ignored and reported.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from core.config.problems import find_problems, merge_errors
from core.config.schema import list_keys
from core.config.settings import FILE_NAME, LoadedSettings, PlanSettings, ServerSettings, Settings, narrow_tool
from core.errors import ConfigError
from core.modes import Mode
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.records import convert, parse_toml
from core.user_dirs import get_config_dir
from core.workspace.plan_folder import is_inside_project

_STRICTNESS = {"auto": 0, "confirm": 1, "human": 2}
PROJECT_FILE = Path(".agent-tui") / FILE_NAME
MAX_BYTES = 256 * 1024
_ALIASES = {("commands", "policy"): {"yolo": "auto"}}


def load_settings(workspace_root: Path | None = None) -> Settings:
    """Load the effective settings of a workspace. Raises `ConfigError`."""
    return load_with_notices(workspace_root).settings


def load_with_notices(workspace_root: Path | None = None, is_trusted: TrustCheck = trust_everything) -> LoadedSettings:
    """Load the effective settings with notices about ignored lines of the project's file. `is_trusted` decides on the
    bytes of that file. Raises `ConfigError`."""
    settings, _ = parse_settings(get_config_dir() / FILE_NAME, read_settings_bytes(get_config_dir() / FILE_NAME))
    project_bytes = read_settings_bytes(workspace_root / PROJECT_FILE) if workspace_root is not None else None
    if workspace_root is None or project_bytes is None or not is_trusted(PROJECT_FILE.as_posix(), project_bytes):
        return LoadedSettings(settings=settings)
    project_settings, table = parse_settings(workspace_root / PROJECT_FILE, project_bytes)
    return narrow_settings(settings, project_settings, table, PROJECT_FILE.as_posix())


def parse_settings(path: Path, data: bytes | None) -> tuple[Settings, dict[str, Any]]:
    """Parse one file. Returns its settings (the defaults without a file) and the raw table, which shows the keys that
    are set. Raises `ConfigError` with all problems."""
    if data is None:
        return Settings(), {}
    text, table = parse_table(path, data)
    if problems := list(find_problems(path, text, table)):
        raise merge_errors(problems)
    return convert(table, Settings), table


def parse_table(path: Path, data: bytes) -> tuple[str, dict[str, Any]]:
    """Parse a file into its text and raw table. Raises `ConfigError` for invalid TOML."""
    try:
        text = data.decode("utf-8")
        table = parse_toml(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", hint="Fix that line.") from None
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
                    f"{path} is not a regular file of at most {MAX_BYTES // 1024} KiB.", hint="Move it away."
                )
            return file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", hint="Check its permissions.") from None


def _is_lower_limit(user_value: float, project_value: float) -> bool:
    return project_value > 0 and (user_value == 0 or project_value < user_value)


def _is_own_directory(user_value: str, project_value: str) -> bool:
    """True if plans may be written to the project's `project_value`: it is inside of the project, and the user chose
    none."""
    return user_value == PlanSettings().directory and is_inside_project(project_value)


# The keys that a project may set, and when the project's value is narrower than the user's.
NARROWER: Mapping[tuple[str, str], Callable[[Any, Any], bool]] = {
    ("", "mode"): lambda _mine, theirs: theirs is Mode.ASK,
    ("limits", "max_steps"): _is_lower_limit,
    ("limits", "max_cost"): _is_lower_limit,
    ("limits", "max_tokens"): _is_lower_limit,
    ("commands", "policy"): lambda mine, theirs: _STRICTNESS[theirs] > _STRICTNESS[mine],
    ("edits", "policy"): lambda mine, theirs: theirs == "review" and mine == "auto",
    ("context", "compact_at"): lambda mine, theirs: theirs < mine and (theirs > 1) == (mine > 1),
    ("plans", "directory"): _is_own_directory,
    ("index", "enabled"): lambda mine, theirs: mine and not theirs,
    ("web", "enabled"): lambda mine, theirs: mine and not theirs,
    ("web", "robots"): lambda mine, theirs: theirs and not mine,
}


# Keys whose values a project may extend: rules that ask or deny.
ADDED_KEYS = frozenset({("permissions", "ask"), ("permissions", "deny")})


def narrow_settings(
    user_settings: Settings, project_settings: Settings, table: Mapping[str, Any], name: str
) -> LoadedSettings:
    """Return the user's settings narrowed by the project's, with notices about ignored values."""
    notices: list[str] = []
    bounds: dict[tuple[str, str], Any] = {}
    for section, key in list_keys(table):
        # A project may switch a server off.
        if section == "lsp" and project_settings.lsp[key] == ServerSettings(enabled=False):
            server_settings = user_settings.lsp.get(key, ServerSettings())
            user_settings = msgspec.structs.replace(
                user_settings, lsp={**user_settings.lsp, key: msgspec.structs.replace(server_settings, enabled=False)}
            )
            continue
        if section == "tools":
            stricter = narrow_tool(user_settings.get_tool_settings(key), project_settings.tools[key])
            user_settings = msgspec.structs.replace(user_settings, tools={**user_settings.tools, key: stricter})
            lax = [field for field, value in table[section][key].items() if value != getattr(stricter, field)]
            notices += [_explain_laxer(name, f"tools.{key}.{field}") for field in lax]
            continue
        holder = getattr(user_settings, section) if section else user_settings
        project_section = getattr(project_settings, section) if section else project_settings
        narrower = NARROWER.get((section, key))
        dotted_key = f"{section}.{key}" if section else key
        if narrower is not None:
            bounds[section, key] = getattr(project_section, key)
        if (section, key) in ADDED_KEYS:
            both = tuple(dict.fromkeys((*getattr(holder, key), *getattr(project_section, key))))
            user_settings = msgspec.structs.replace(
                user_settings, **{section: msgspec.structs.replace(holder, **{key: both})}
            )
        elif narrower is None:
            notices.append(f"{name}: `{dotted_key}` was ignored: only your own configuration can set it.")
        elif narrower(getattr(holder, key), getattr(project_section, key)):
            new_section = msgspec.structs.replace(holder, **{key: getattr(project_section, key)})
            user_settings = msgspec.structs.replace(user_settings, **{section: new_section}) if section else new_section
        elif getattr(holder, key) != getattr(project_section, key):
            notices.append(_explain_laxer(name, dotted_key))
    return LoadedSettings(settings=user_settings, notices=tuple(notices), bounds=bounds)


def _explain_laxer(name: str, dotted_key: str) -> str:
    if dotted_key == "plans.directory":
        return (
            f"{name}: `{dotted_key}` was ignored: a project can set it only to a path inside it, and "
            "only if you have not set it."
        )
    return f"{name}: `{dotted_key}` was ignored: a project can only make your settings stricter."


def apply_bounds(settings: Settings, bounds: Mapping[tuple[str, str], Any]) -> Settings:
    """Return the settings within the project's bounds."""
    for (section, key), bound in bounds.items():
        holder = getattr(settings, section) if section else settings
        if section and NARROWER[section, key](getattr(holder, key), bound):
            settings = msgspec.structs.replace(settings, **{section: msgspec.structs.replace(holder, **{key: bound})})
    return settings
