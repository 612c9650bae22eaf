"""Edits of one key in a settings file that leave every other line as the user wrote it, including comments.

TOML Kit preserves the form of the file. Its output is parsed again by Python's own parser, and rejected unless it
differs from the old file in exactly the one value. A list with comments inside is left to the user.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.errors import ConfigError
from core.records import parse_toml

_BY_HAND: Final = "Edit it in the file: agent-tui config edit."


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Return a settings file with a key set; a missing table is added. Raises `ConfigError`."""
    new_value = list(value) if isinstance(value, tuple) else value
    return _check(text, _restore_line_ends(text, _edit(text, path, new_value)), path, new_value)


def remove_value(text: str, path: Sequence[str]) -> str:
    """Return a settings file without a key. Raises `ConfigError`."""
    return _check(text, _edit(text, path, None), path, None)


def _edit(text: str, path: Sequence[str], value: object) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    *names, key = path
    if value is not None and not names and all(isinstance(other, Mapping) for other in parse_toml(text).values()):
        return tomlkit.dumps({key: value}) + ("\n" if text else "") + text  # keeps a comment at the table below it
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for name in names:
            table = table.get(name, {}) if value is None else table.setdefault(name, tomlkit.table())
        if value is not None:
            table[key] = _build_item(table.get(key), value, path)
        elif key in table:
            del table[key]
        return document.as_string()
    except (TOMLKitError, TypeError, AttributeError):  # valid for Python's parser, but not for TOML Kit
        raise _build_error(path) from None


def _build_item(old: Any, value: object, path: Sequence[str]) -> Any:
    """Return a value as an item of TOML Kit; a multi-line list stays one. Raises `ConfigError`."""
    import tomlkit
    from tomlkit.items import Array

    item: Any = tomlkit.item(value)
    form: str = old.as_string() if isinstance(old, Array) else ""
    if form and form.count("#") > sum(str(entry).count("#") for entry in old):
        raise ConfigError(f"`{'.'.join(path)}` has comments between its values, which would be lost.", hint=_BY_HAND)
    if isinstance(value, list) and "\n" in form:
        item.multiline(multiline=True)
    return item


def _restore_line_ends(before: str, after: str) -> str:
    """Return a text with CRLF throughout if the old one had it."""
    is_crlf = "\r\n" in before and "\n" not in before.replace("\r\n", "")
    return after.replace("\r\n", "\n").replace("\n", "\r\n") if is_crlf else after


def _check(before: str, after: str, path: Sequence[str], value: object) -> str:
    """Return the new text if it has the expected values. `value` None: the key is removed. Raises `ConfigError`."""
    expected_table = _change(parse_toml(before), path, value)
    try:
        after.encode()
        is_right = _drop_empty(parse_toml(after)) == _drop_empty(expected_table)
    except (tomllib.TOMLDecodeError, UnicodeEncodeError):
        is_right = False
    if not is_right:
        raise _build_error(path)
    return after


def _build_error(path: Sequence[str]) -> ConfigError:
    name = ".".join(path)
    return ConfigError(f"`{name}` is written in your file in a way that can't be changed here.", hint=_BY_HAND)


def _change(table: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    key, *rest = path
    others = {name: item for name, item in table.items() if name != key}
    if not rest:
        return others if value is None else others | {key: value}
    inner = table.get(key)
    return others | {key: _change(inner if isinstance(inner, Mapping) else {}, rest, value)}


def _drop_empty(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without empty tables in it, as a heading may remain."""
    inner = {key: _drop_empty(item) if isinstance(item, Mapping) else item for key, item in table.items()}
    return {key: item for key, item in inner.items() if item != {}}
