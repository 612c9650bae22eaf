"""Each setting with its value, the file and line that it comes from, what it means and what it may be."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from core.config.loading import PROJECT_FILE, parse_table, read_settings_bytes
from core.config.manual import read_meanings
from core.config.places import find_line
from core.config.schema import NAME, KeyPath, Setting, describe_valid_values, find_setting, list_settings, make_general
from core.config.settings import FILE_NAME, Settings
from core.errors import ConfigError
from core.protocol.queries import SettingRow
from core.records import parse_toml
from core.secrets import MASK, redact
from core.user_dirs import get_config_dir

_MAY_HOLD_KEYS = frozenset({"headers", "query"})


class SettingSources:
    """The files that set something here, the strongest last. `root`: the project, if its file is heard."""

    def __init__(self, root: Path | None) -> None:
        own = get_config_dir() / FILE_NAME
        named = [(str(own), own), *([(PROJECT_FILE.as_posix(), root / PROJECT_FILE)] if root is not None else [])]
        self._files: list[tuple[str, str, Mapping[str, Any]]] = []
        for name, path in named:
            if (data := read_settings_bytes(path)) is not None:
                self._files.append((name, *parse_table(path, data)))

    def list_named(self) -> Iterator[KeyPath]:
        """Iterate over the settings that are set below a name of the user's."""
        for _, _, table in self._files:
            yield from (path for path in _list_paths(table, ()) if NAME in make_general(path).split("."))

    def find(self, path: KeyPath, value: object, default: object) -> str:
        """Return the file and line that a value comes from; "" = it is the default."""
        for name, text, table in reversed(self._files):
            found = _look_up(table, path)
            if found is not None and (found == value or name != PROJECT_FILE.as_posix()):
                line = find_line(text, path)
                return f"{name}, line {line}" if line else name
        return "" if value == default else "the command line"


def explain_settings(settings: Settings, sources: SettingSources, key: str = "") -> tuple[SettingRow, ...]:
    """Return the rows of a setting, of all below a table, or of all. Raises `ConfigError` if there is none."""
    path = split_key(key)
    every = [each for each in list_settings() if NAME not in each.path]
    named = [found for each in dict.fromkeys(sources.list_named()) if (found := find_setting(each)) is not None]
    if path and (exact := find_setting(path)) is not None and NAME not in path:
        return (_build_row(exact, settings, sources),)
    wanted = [each for each in (*every, *named) if each.path[: len(path)] == path]
    if not wanted and path:  # a table that the user could make: what may stand in it
        wanted = [
            each._replace(path=(*path, *each.path[len(path) :]))
            for each in list_settings()
            if len(each.path) > len(path)
            and all(mine in (said, NAME) for mine, said in zip(each.path, path, strict=False))
        ]
    if not wanted:
        known = dict.fromkeys(make_general(each.path) for each in list_settings())
        near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "agent-tui config explain lists them all."
        raise ConfigError(f"there is no setting {key!r}.", hint=hint)
    return tuple(_build_row(each, settings, sources) for each in wanted)


def split_key(key: str) -> KeyPath:
    """Split a dotted key; a name with dots in it stands in quotes, as in the file. Without them, `models.a/b-1.5.edits`
    is understood as well."""
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
    value = _look_up(msgspec.to_builtins(settings), setting.path)
    default = msgspec.to_builtins(setting.default)
    value = default if value is None else value
    return SettingRow(
        key=setting.dotted,
        value=_hide_keys(value, hides_all=setting.path[-1] in _MAY_HOLD_KEYS),
        default=default,
        source=sources.find(setting.path, value, default),
        meaning=read_meanings().get(make_general(setting.path), ""),
        valid=describe_valid_values(setting.path),
    )


def _hide_keys(value: Any, *, hides_all: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {key: _hide_keys(each, hides_all=hides_all) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hide_keys(each, hides_all=hides_all) for each in value]
    return (MASK if hides_all else redact(value)) if isinstance(value, str) else value


def _look_up(table: Any, path: KeyPath) -> Any:
    for key in path:
        if not isinstance(table, Mapping) or key not in table:
            return None
        table = table[key]
    return table


def _list_paths(table: Mapping[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, Mapping) and find_setting(here) is None:
            yield from _list_paths(value, here)
        else:
            yield here
