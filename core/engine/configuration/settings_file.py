"""Write settings into the user's config.toml: only the changed keys are touched, all other lines stay.

A change that the loader would refuse is not written; its errors are raised. A link to the file stays a link, the file
keeps its mode, and a read-only file is not changed. Concurrent writers wait for a lock, and the file is read again if
an editor saved it meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any, Final

import msgspec

from core.config.file_edits import remove_value, set_value
from core.config.loading import parse_settings, read_settings_bytes
from core.config.schema import NAME, Setting, describe_valid_values, find_misfits, find_setting, find_value_kind
from core.config.settings import FILE_NAME, ProviderSettings, Settings
from core.engine.configuration.explanation import split_key
from core.errors import ConfigError, StateError
from core.filesystem.atomic_write import PRIVATE, replace_file
from core.filesystem.open_beneath import DIRECTORY
from core.filesystem.private_files import make_private_directory
from core.patterns import compile_lazily
from core.protocol import commands as cmd
from core.records import parse_toml
from core.user_dirs import get_config_dir

_NAME = compile_lazily(r"[A-Za-z0-9_-]{1,60}")
_TRIES: Final = 3  # attempts while the file changes meanwhile
_WRITABLE: Final = 0o222


def save_settings(*, model: str = "", provider: str = "", base_url: str = "", theme: str = "") -> None:
    """Save the default model, a provider's address, the theme ("" = unchanged). Raises `ConfigError`, `StateError`."""
    values = {("model",): model, ("providers", provider, "base_url"): base_url, ("ui", "theme"): theme}
    changes = [(path, value) for path, value in values.items() if value]
    _change_file(lambda text: reduce(lambda now, change: set_value(now, *change), changes, text))


def save_setting(command: cmd.SettingKeep) -> None:
    """Save one setting, or remove it. Raises `ConfigError` (then nothing is written), `StateError`."""
    path = split_key(command.key)
    setting = find_setting(path)
    if setting is None or NAME in path:
        raise ConfigError(f"there is no setting {command.key!r}.", hint="agent-tui config explain lists all settings.")
    if command.text is None:
        _change_file(lambda text: remove_value(text, path))
    else:
        value = _read_value(setting, command.text)
        _change_file(lambda text: set_value(text, path, value))


def _read_value(setting: Setting, text: str) -> Any:
    """Parse a value in TOML; a text or a choice has no quotes. Raises `ConfigError`."""
    kind = find_value_kind(setting)
    value: Any = text
    hint = f"Valid: {describe_valid_values(setting.path)}."
    if kind not in {"text", "choice"}:
        try:
            value = parse_toml(f"value = {text}")["value"] if kind != "table" and "\n" not in text else None
        except tomllib.TOMLDecodeError:
            value = None
    if value is None:
        raise ConfigError(f"`{setting.dotted}`: {text!r} can't be read.", hint=hint)
    if any(find_misfits(value, setting.kind)):
        raise ConfigError(f"`{setting.dotted}` can't be {text.strip() or 'empty'}.", hint=hint)
    return value


def _change_file(change: Callable[[str], str]) -> None:
    path = get_config_dir() / FILE_NAME
    try:
        if not path.exists():
            make_private_directory(path.parent)
        with _lock(path.parent):
            for _ in range(_TRIES):
                before = read_settings_bytes(path)
                after = _apply(change, path, before)
                if read_settings_bytes(path) == before:
                    return None if after == (before or b"") else _write(path.resolve(), after)
    except OSError as problem:
        hint = "Make it writable, or set the key in it yourself."
        raise StateError(f"{path} can't be written: {problem.strerror}.", hint=hint) from problem
    raise StateError(f"another program is changing {path}.", hint="Try again when it is done.")


def _apply(change: Callable[[str], str], path: Path, before: bytes | None) -> bytes:
    """Return the changed file. Raises `ConfigError` if it is invalid, before or after the change."""
    parse_settings(path, before)  # an invalid file is not changed
    after = change((before or b"").decode()).encode()
    try:
        parse_settings(path, after)
    except ConfigError as problem:  # without its line numbers, which refer to the unwritten file
        pattern = re.compile(rf"^{re.escape(str(path))}(, line \d+)?: ", re.MULTILINE)
        raise ConfigError(pattern.sub("", problem.message), hint=problem.hint) from None
    return after


def _write(target: Path, data: bytes) -> None:
    mode = target.stat().st_mode if target.exists() else PRIVATE
    if not mode & _WRITABLE:
        raise PermissionError(errno.EACCES, "it is read-only", str(target))
    replace_file(target, data, mode=mode)


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Lock out other processes and threads; without effect on file systems without locks."""
    descriptor = os.open(directory, DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def save_provider(command: cmd.ProviderConfigure, settings: Settings) -> None:
    """Store the key for the provider's address; save the address and the model."""
    from core.providers.connection.keys import store_key
    from core.providers.registry import find_base_url, split_model_id

    if not _NAME.fullmatch(command.provider):
        raise ConfigError(
            f"{command.provider!r} can't be the name of a provider.", hint="Use lowercase letters, digits, - and _."
        )
    provider = ProviderSettings(base_url=command.base_url) if command.base_url else None
    providers = settings.providers | ({command.provider: provider} if provider is not None else {})
    new_settings = msgspec.structs.replace(settings, providers=providers)
    address = find_base_url(command.provider, new_settings)
    if command.model:
        split_model_id(command.model, new_settings)
    if command.key:
        store_key(command.provider, command.key, base_url=address)
    save_settings(model=command.model, provider=command.provider, base_url=command.base_url)
