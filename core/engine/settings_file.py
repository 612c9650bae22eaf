"""Write choices into the user's own config.toml: one key is set, every other line stays as the user wrote it."""

from __future__ import annotations

import json
import re

import msgspec

from core.config.loading import load_settings
from core.config.model_settings import ProviderSettings
from core.config.settings import FILE_NAME, Settings
from core.errors import ConfigError, StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_directories import make_private_directory
from core.protocol import commands as cmd
from core.user_dirs import get_config_dir

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def save_settings(*, model: str = "", provider: str = "", base_url: str = "", theme: str = "") -> None:
    """Save the default model, a provider's address, the theme ("" = unchanged). Raises `ConfigError`, `StateError`."""
    load_settings()  # a file with a fault in it is not made worse
    path = get_config_dir() / FILE_NAME
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        text = set_key(before, "", "model", model) if model else before
        text = set_key(text, f"providers.{provider}", "base_url", base_url) if base_url else text
        text = set_key(text, "ui", "theme", theme) if theme else text
        if text != before:
            make_private_directory(path.parent)
            replace_file(path.resolve(), text.encode())
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


def set_key(text: str, table: str, key: str, value: str) -> str:
    """Return `text` with `key` of `table` ("" = outside of any) set to `value`; a missing table is added."""
    lines, here, place = text.splitlines(), "", -1 if table else 0
    entry = f"{key} = {json.dumps(value)}"
    for number, line in enumerate(lines):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            here = ".".join(part.strip().strip("\"'") for part in header[1].split("."))
            place = number + 1 if here == table else place
        elif here == table and re.match(rf"\s*{re.escape(key)}\s*=", line):
            return "\n".join([*lines[:number], entry, *lines[number + 1 :]]) + "\n"
    if place >= 0:
        return "\n".join([*lines[:place], entry, *lines[place:]]) + "\n"
    return "\n".join([*lines, *([""] if lines else []), f"[{table}]", entry]) + "\n"
