"""What a client sets up on a welcome screen, kept for the next start: a key, an address, the model to begin with.

The key goes to the keyring or our own file; address and model go into the user's `config.toml`, line by line, so that
everything else in it, comments too, stays as it was.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Final

import msgspec

from core.config import FILE_NAME, ProviderSettings, config_dir, load_settings
from core.errors import ConfigError
from core.protocol.commands import ProviderConfigure
from core.providers import keys
from core.providers.private_file import write_private
from core.providers.registry import base_url_of, split

_TABLE: Final = re.compile(r"^\s*\[", re.MULTILINE)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


def configure(command: ProviderConfigure) -> None:
    """Carry out `provider.configure`. Raises `ConfigError`, `StateError`; nothing is kept then but what came before."""
    settings = load_settings()
    if not _PLAIN.fullmatch(command.provider):
        raise ConfigError(f"{command.provider!r} can't be the id of a provider.", hint="Use letters, digits and -.")
    before = settings.providers.get(command.provider, ProviderSettings())
    changed = msgspec.structs.replace(before, base_url=command.base_url or before.base_url)
    settings = msgspec.structs.replace(settings, providers={**settings.providers, command.provider: changed})
    base_url = base_url_of(command.provider, settings)
    if command.model:
        split(command.model, settings)
    if command.base_url:
        set_in_config(f"providers.{command.provider}", "base_url", command.base_url)
    if command.model:
        set_in_config("", "model", command.model)
    if command.key:
        keys.store_key(command.provider, command.key, base_url=base_url)


def set_in_config(table: str, key: str, value: str) -> None:
    """Set one text in the user's configuration. Raises `ConfigError`; the file is unchanged then."""
    path = (config_dir() / FILE_NAME).resolve()
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        write_private(path, with_value(text, table, key, value).encode())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} can't be changed: {error}.", hint=f"Set {key} = {json.dumps(value)} in it by hand."
        ) from None


def with_value(text: str, table: str, key: str, value: str) -> str:
    """TOML text with one value set in a table ("" = the top). Raises ValueError if that can't be done by a line."""
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    start = 0
    if table:
        header = re.search(rf"^\s*\[\s*{re.escape(table)}\s*\][^\n]*$", text, re.MULTILINE)
        if header is None:
            return _checked(f"{text.rstrip()}\n\n[{table}]\n{line}\n".lstrip(), table, key, value)
        start = header.end()
    following = _TABLE.search(text, start)
    end = following.start() if following else len(text)
    inside = text[start:end]
    there = re.compile(rf"^\s*{re.escape(key)}\s*=[^\n]*$", re.MULTILINE)
    if there.search(inside):
        inside = there.sub(lambda _: line, inside, count=1)
    elif table:
        inside = f"\n{line}{inside}"
    else:
        inside = f"{line}\n{inside}"
    return _checked(text[:start] + inside + text[end:], table, key, value)


def _checked(text: str, table: str, key: str, value: str) -> str:
    """The text, if it is TOML and says what it should."""
    found = tomllib.loads(text)
    for name in filter(None, table.split(".")):
        found = found.get(name, {})
    if found.get(key) != value:
        raise ValueError("its form is not understood")
    return text
