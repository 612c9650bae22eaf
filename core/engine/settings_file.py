"""Write choices into the user's own config.toml: one key is set, every other line stays as the user wrote it.

What the loader would refuse is not written: its errors are those of the change.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import reduce
from typing import Any

import msgspec

from core.config.file_edits import remove_value, set_value
from core.config.loading import parse_settings, read_settings_bytes
from core.config.model_settings import ProviderSettings
from core.config.schema import NAME, Setting, describe_valid_values, find_setting, find_value_kind
from core.config.settings import FILE_NAME, Settings
from core.engine.configuration.explanation import split_key
from core.errors import ConfigError, StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_directories import make_private_directory
from core.protocol import commands as cmd
from core.records import parse_toml
from core.user_dirs import get_config_dir

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def save_settings(*, model: str = "", provider: str = "", base_url: str = "", theme: str = "") -> None:
    """Save the default model, a provider's address, the theme ("" = unchanged). Raises `ConfigError`, `StateError`."""
    wanted = {("model",): model, ("providers", provider, "base_url"): base_url, ("ui", "theme"): theme}
    changes = [(path, value) for path, value in wanted.items() if value]
    _change_file(lambda text: reduce(lambda now, change: set_value(now, *change), changes, text))


def keep_setting(command: cmd.SettingKeep) -> None:
    """Save one setting, or take it out. Raises `ConfigError` (nothing is written then), `StateError`."""
    path = split_key(command.key)
    setting = find_setting(path)
    if setting is None or NAME in path:
        raise ConfigError(f"there is no setting {command.key!r}.", hint="agent-tui config explain lists them all.")
    if command.text is None:
        _change_file(lambda text: remove_value(text, path))
    else:
        value = _read_value(setting, command.text)
        _change_file(lambda text: set_value(text, path, value))


def _read_value(setting: Setting, text: str) -> Any:
    """Read a value as it stands in the file; a text or a choice has no quotes."""
    kind = find_value_kind(setting)
    if kind in {"text", "choice"}:
        return text
    try:
        if kind != "table" and "\n" not in text:
            return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    raise ConfigError(f"`{setting.dotted}`: {text!r} can't be read.", hint=_say_valid(setting))


def _say_valid(setting: Setting) -> str:
    return f"Valid: {describe_valid_values(setting.path)}."


def _change_file(change: Callable[[str], str]) -> None:
    path = get_config_dir() / FILE_NAME
    before = read_settings_bytes(path)
    parse_settings(path, before)  # a file with a fault in it is not made worse
    after = change((before or b"").decode()).encode()
    if after == (before or b""):
        return
    parse_settings(path, after)
    try:
        make_private_directory(path.parent)
        replace_file(path.resolve(), after)
    except OSError as problem:
        raise StateError(
            f"{path} can't be written: {problem.strerror}.", hint="Make it writable, or set the key in it yourself."
        ) from problem


def save_provider(command: cmd.ProviderConfigure, settings: Settings) -> None:
    """Store the key for the address it is meant for; save the address and the model."""
    from core.providers.connection.keys import store_key
    from core.providers.registry import find_base_url, split_model_id

    if not _NAME.fullmatch(command.provider):
        raise ConfigError(
            f"{command.provider!r} can't be the name of a provider.", hint="Use small letters, digits, - and _."
        )
    provider = ProviderSettings(base_url=command.base_url) if command.base_url else None
    named = settings.providers | ({command.provider: provider} if provider is not None else {})
    wanted = msgspec.structs.replace(settings, providers=named)
    address = find_base_url(command.provider, wanted)
    if command.model:
        split_model_id(command.model, wanted)
    if command.key:
        store_key(command.provider, command.key, base_url=address)
    save_settings(model=command.model, provider=command.provider, base_url=command.base_url)
