"""Explain settings: the value, its source with file and line, the meaning, and the valid values."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from core.background.locations import BLOBS_VARIABLE, DATABASE_VARIABLE
from core.config.loading import PROJECT_FILE, parse_table, read_settings_bytes
from core.config.manual import read_meanings
from core.config.problems import find_line
from core.config.schema import (
    NAME,
    KeyPath,
    Setting,
    describe_valid_values,
    drop_values,
    find_misfits,
    find_setting,
    find_value_kind,
    generalize_key,
    is_table_of_names,
    list_choices,
    list_settings,
)
from core.config.settings import FILE_NAME, Settings
from core.errors import ConfigError
from core.protocol.queries.settings import SettingOrigin, SettingRow
from core.providers.catalog.presets import find_preset
from core.records import convert, parse_toml
from core.secrets import MASK, redact
from core.user_dirs import get_config_dir

EDIT_FILE_HINT: Final = "agent-tui config edit opens your config.toml; /help settings explains it."
_MAY_HOLD_KEYS: Final = frozenset({"headers", "query"})
_PROJECT: Final = PROJECT_FILE.as_posix()
# Configuration outside of the settings files: its meaning, and where to change it.
_OTHER_FILES: Final = {
    "rules": ("What the agent has to follow.", "/rules lists them and opens their files."),
    "hooks": ("Programs that run at steps of the agent.", "/hooks lists them and opens their files."),
    "mcp": ("MCP servers and their tools.", "/mcp turns them on and off; agent-tui mcp adds and removes them."),
    "keys": ("API keys of the models.", "/login saves one; settings files have none."),
}

_VARIABLES: Final = {"background.database": DATABASE_VARIABLE, "background.blobs": BLOBS_VARIABLE}
# When a change takes effect, for settings that are not read again for all_settings turn.
_EFFECTIVE_FROM: Final = {
    "model": "in the next session",
    "mode": "in the next session",
    "privacy": "in the next session",
    "plans.directory": "in the next session",
    "index.enabled": "when agent-tui is restarted",
}


class CommandLineValue(NamedTuple):
    """An option of the command line, and the value that it sets."""

    option: str
    value: Any


class ValueSource(NamedTuple):
    """The origin of a value, and its file and line, option or variable; "" = it is the default."""

    origin: SettingOrigin
    place: str = ""


class SettingSources:
    """The sources of settings. `root`: the project, None = its file is not read; `command_line_values`: options of the
    command line by dotted key. The project's file is a source only of values that differ from the user's, since the
    rest of it is ignored."""

    def __init__(self, root: Path | None, command_line_values: Mapping[str, CommandLineValue] | None = None) -> None:
        user_path = get_config_dir() / FILE_NAME
        self.command_line_values = command_line_values or {}
        self._user_table: Mapping[str, Any] = {}
        self._files: list[tuple[str, str, Mapping[str, Any]]] = []
        for name, path in (
            (str(user_path), user_path),
            *([(_PROJECT, root / PROJECT_FILE)] if root is not None else []),
        ):
            if (data := read_settings_bytes(path)) is not None:
                self._files.append((name, *parse_table(path, data)))
                self._user_table = self._files[-1][2] if path == user_path else self._user_table
        self._user_settings = msgspec.to_builtins(
            convert(drop_values(self._user_table, {misfit.path for misfit in find_misfits(self._user_table)}), Settings)
        )

    def list_named_paths(self) -> Iterator[KeyPath]:
        """Iterate over the settings in tables whose names the user chose."""
        for _, _, table in self._files:
            yield from (path for path in _list_paths(table, ()) if NAME in generalize_key(path).split("."))

    def find(self, path: KeyPath, value: object) -> ValueSource:
        """Return the source of a value."""
        if (command_line_value := self.command_line_values.get(".".join(path))) is not None:
            return ValueSource("command line", f"{command_line_value.option} on the command line")
        for name, text, table in reversed(self._files):
            if _look_up(table, path) is not None and (name != _PROJECT or self._is_changed(path, value)):
                line = find_line(text, path)
                location = f"{name}, line {line}" if line else name
                return ValueSource("project" if name == _PROJECT else "user", location)
        return ValueSource("default")

    def _is_changed(self, path: KeyPath, value: object) -> bool:
        alone, setting = _look_up(self._user_settings, path), find_setting(path)
        alone = msgspec.to_builtins(setting.default) if alone is None and setting is not None else alone
        return bool(value != alone)

    def find_user_value(self, path: KeyPath) -> Any:
        """Return a setting's value in the user's file, None = it is not set."""
        return _look_up(self._user_table, path)


def list_tables(settings: Settings) -> Iterator[SettingRow]:
    """Iterate over rows for tables whose names the user chooses, and for configuration in other files."""
    for field in msgspec.structs.fields(Settings):
        if is_table_of_names(field.type):
            meaning = f"Tables named by you: {field.encode_name}.NAME."
            names = sorted(getattr(settings, field.encode_name))
            yield SettingRow(
                key=field.encode_name, value=names or None, meaning=meaning, kind="table", elsewhere=EDIT_FILE_HINT
            )
    for key, (meaning, elsewhere) in _OTHER_FILES.items():
        yield SettingRow(key=key, meaning=meaning, kind="table", elsewhere=elsewhere)


def explain_settings(settings: Settings, sources: SettingSources, key: str = "") -> tuple[SettingRow, ...]:
    """Return the rows of a setting, of all below a table, or of all. Raises `ConfigError` if there is none."""
    path = split_key(key)
    all_settings = [setting for setting in list_settings() if NAME not in setting.path]
    custom_settings = [
        custom_setting
        for key_path in dict.fromkeys(sources.list_named_paths())
        if (custom_setting := find_setting(key_path)) is not None
    ]
    if path and (exact := find_setting(path)) is not None and NAME not in path:
        return (_build_row(exact, settings, sources),)
    selection = [setting for setting in (*all_settings, *custom_settings) if setting.path[: len(path)] == path]
    if not selection and path:  # a table that does not exist yet: its possible settings
        selection = [
            setting._replace(path=(*path, *setting.path[len(path) :]))
            for setting in list_settings()
            if len(setting.path) > len(path)
            and all(segment in (name, NAME) for segment, name in zip(setting.path, path, strict=False))
        ]
    if not selection:
        general_keys = dict.fromkeys(generalize_key(setting.path) for setting in list_settings())
        close_matches = difflib.get_close_matches(key, general_keys, n=3, cutoff=0.5)
        hint = (
            f"Did you mean {' or '.join(close_matches)}?"
            if close_matches
            else "agent-tui config explain lists all settings."
        )
        raise ConfigError(f"there is no setting {key!r}.", hint=hint)
    return tuple(_build_row(setting, settings, sources) for setting in selection)


def split_key(key: str) -> KeyPath:
    """Split a dotted key. A name that contains dots is quoted, as in the file; unquoted, `models.a/b-1.5.edits` is
    understood as well."""
    import tomllib

    if not key:
        return ()
    try:
        table: Any = parse_toml(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        first, _, rest = key.partition(".")
        inner, dot, last = rest.rpartition(".")
        return tuple(filter(None, (first, inner, last) if dot else (first, rest)))
    path: list[str] = []
    while isinstance(table, dict):
        path.append(next(iter(table)))
        table = table[path[-1]]
    return tuple(path)


def _build_row(setting: Setting, settings: Settings, sources: SettingSources) -> SettingRow:
    value, kind = _look_up(msgspec.to_builtins(settings), setting.path), find_value_kind(setting)
    default = msgspec.to_builtins(setting.default)
    value = default if value is None else value
    if setting.dotted in sources.command_line_values and kind != "list":  # a list contains the options already
        value = sources.command_line_values[setting.dotted].value
    source, variable = sources.find(setting.path, value), _find_variable(setting.path)
    if variable:
        value, source = os.environ[variable], ValueSource("environment", variable)
    hide = partial(_hide_keys, hides_all=setting.path[-1] in _MAY_HOLD_KEYS)
    user_value = sources.find_user_value(setting.path)
    return SettingRow(
        key=setting.dotted,
        value=hide(value),
        default=default,
        source=source.place,
        meaning=read_meanings().get(generalize_key(setting.path), ""),
        valid=describe_valid_values(setting.path),
        kind=kind,
        choices=list_choices(setting.kind),
        origin=source.origin,
        own=hide(user_value),
        begins=_EFFECTIVE_FROM.get(setting.dotted, ""),
        elsewhere=EDIT_FILE_HINT if kind == "table" or hide(user_value) != user_value else "",
    )


def _find_variable(path: KeyPath) -> str:
    """Return the environment variable that overrides a setting; "" = there is none, or it is not set."""
    variable = _VARIABLES.get(".".join(path), "")
    if path[0] == "providers" and path[-1] == "base_url":
        variable = find_preset(path[1]).host_variable
    return variable if variable and os.environ.get(variable, "").strip() else ""


def _hide_keys(value: Any, *, hides_all: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {key: _hide_keys(child, hides_all=hides_all) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hide_keys(child, hides_all=hides_all) for child in value]
    return (MASK if hides_all else redact(value)) if isinstance(value, str) else value


def _look_up(table: Any, path: KeyPath) -> Any:
    for key in path:
        if not isinstance(table, Mapping) or key not in table:
            return None
        table = table[key]
    return table


def _list_paths(table: Mapping[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for key, value in table.items():
        key_path = (*path, key)
        if isinstance(value, Mapping) and find_setting(key_path) is None:
            yield from _list_paths(value, key_path)
        else:
            yield key_path
