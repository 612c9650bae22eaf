"""The keys of model APIs: where they are stored, the search for them, and the command that prints one."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from core.errors import ConfigError, ProviderError, StateError
from core.filesystem.private_files import read_private, write_private
from core.installation import describe_extra
from core.providers.connection.addresses import is_loopback
from core.providers.connection.endpoint import FoundKey
from core.records import decode_json
from core.secrets import Secret, redact
from core.user_dirs import get_state_dir

SECONDS: Final = 15.0
_SHOWN: Final = 200
_command_keys: dict[str, Secret] = {}
_command_lock = threading.Lock()
SERVICE: Final = "agent-tui"
FILE_NAME: Final = "keys.json"
KEYRING: Final = "the keyring"
KEY_COMMAND: Final = "the key command"
KEYRING_SECONDS: Final = 3.0
_keyring_disabled = threading.Event()


def run_key_command(command: str, *, seconds: float | None = None) -> Secret:
    """Return the first line that a command prints, cached until `forget_key`. Blocks. Raises `ProviderError` with the
    reason."""
    with _command_lock:
        if command not in _command_keys:
            _command_keys[command] = _run(command, SECONDS if seconds is None else seconds)
        return _command_keys[command]


def forget_key(command: str) -> None:
    """Drop the cached key of a command, since it was rejected."""
    _command_keys.pop(command, None)


def _run(command: str, seconds: float) -> Secret:
    try:
        shell, no_input = ["/bin/sh", "-c", command], subprocess.DEVNULL
        result = subprocess.run(
            shell, stdin=no_input, capture_output=True, timeout=seconds, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        raise _build_error(command, f"took longer than {seconds:g} s") from None
    except OSError as error:
        raise _build_error(command, f"could not be run: {error.strerror}") from None
    first = next(iter(result.stdout.decode("utf-8", "replace").strip().splitlines()), "").strip()
    if result.returncode:
        error_output = " ".join(redact(result.stderr.decode("utf-8", "replace")).split())[:_SHOWN]
        raise _build_error(command, f"ended with {result.returncode}{f': {error_output}' if error_output else ''}")
    if not first or not first.isascii() or not first.isprintable() or " " in first:
        raise _build_error(command, "printed no key: a key is one word in ASCII on the first line")
    return Secret(first)


def _build_error(command: str, reason: str) -> ProviderError:
    return ProviderError(
        f"The key command `{redact(command)}` {reason.rstrip('.')}.",
        code="key_command_failed",
        hint="Run it in a terminal, or fix `key_command` in your configuration.",
    )


def build_account(provider: str, base_url: str) -> str:
    """Return the name that a key is stored under, which is bound to this provider and this origin."""
    parts = urlsplit(base_url)
    return f"{provider} {parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def find_key(
    provider: str,
    *,
    base_url: str,
    variable: str = "",
    command: str = "",
    seconds: float = KEYRING_SECONDS,
    keyring: bool = True,
) -> FoundKey:
    """Return the key for a provider at an address, and where it was found ("" = nowhere). Blocks up to `seconds`, plus
    the time of `command`, which is tried first.

    Raises `ConfigError` if a stored file can't be used, `ProviderError` if the command failed.
    """
    if command:
        return run_key_command(command), KEY_COMMAND
    if variable and (value := os.environ.get(variable, "").strip()):
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"{variable} is not a key: a key is one word in ASCII.", hint=f"Set {variable} again.")
        return Secret(value), f"environment variable {variable}"
    name = build_account(provider, base_url)
    asks = keyring and not is_loopback(base_url)
    if asks and (stored_key := _ask_keyring(lambda ring: ring.get_password(SERVICE, name), seconds)):
        return Secret(str(stored_key)), KEYRING
    path = get_state_dir() / FILE_NAME
    value = _read(path).get(name, "")
    return (Secret(value), str(path)) if value else (None, "")


def store_key(provider: str, key: str, *, base_url: str, seconds: float = KEYRING_SECONDS) -> str:
    """Store a key for a provider at an address, and return where. Raises `ConfigError` for a bad key, `StateError`."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key or len(key) < 6:
        raise ConfigError("that does not look like a key.", hint="Paste only the key, one word.")
    secret, name = Secret(key), build_account(provider, base_url)
    path = get_state_dir() / FILE_NAME
    if not is_loopback(base_url) and _ask_keyring(lambda ring: _is_stored(ring, name, secret), seconds):
        if name in (stored_keys := _read(path)):
            _write(path, {other: value for other, value in stored_keys.items() if other != name})
        return KEYRING
    _write(path, {**_read(path), name: secret.reveal()})
    return str(path)


def forget_stored_key(provider: str, *, base_url: str, seconds: float = KEYRING_SECONDS) -> None:
    """Forget a stored key, wherever it is. Raises `ConfigError` and `StateError` if the file can't be used."""
    name, path = build_account(provider, base_url), get_state_dir() / FILE_NAME
    if not is_loopback(base_url):
        _ask_keyring(lambda ring: str(ring.delete_password(SERVICE, name)), seconds)
    if name in (stored_keys := _read(path)):
        _write(path, {other: value for other, value in stored_keys.items() if other != name})


def describe_storage() -> str:
    """Describe where a pasted key is stored; without the package of the extra `keyring`, how to install it."""
    path = get_state_dir() / FILE_NAME
    if find_spec("keyring") is None:
        return f"{path} (0600); for the system's keyring: {describe_extra('keyring')}"
    return f"the system's keyring, or {path} (0600) if that fails"


def _is_stored(ring: Any, name: str, secret: Secret) -> str:
    ring.set_password(SERVICE, name, secret.reveal())
    return name if ring.get_password(SERVICE, name) == secret.reveal() else ""


def _ask_keyring(question: Callable[[Any], str | None], seconds: float) -> str | None:
    """Return the keyring's answer; None if it has none, fails, is not installed, or takes too long (it is not asked
    again then)."""
    if _keyring_disabled.is_set():
        return None
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        answer = None
        with contextlib.suppress(Exception):  # A backend may raise anything.
            import keyring

            answer = question(keyring)
        answers.put(answer)

    threading.Thread(target=ask, daemon=True, name="keyring").start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        if seconds >= KEYRING_SECONDS:
            _keyring_disabled.set()
        return None


def _read(path: Path) -> dict[str, str]:
    data = read_private(path)
    try:
        return decode_json(data, dict[str, str]) if data is not None else {}
    except msgspec.MsgspecError:
        raise ConfigError(f"{path} is damaged.", hint="Remove it, and save the key again.") from None


def _write(path: Path, keys: dict[str, str]) -> None:
    try:
        write_private(path, msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
    except OSError as error:
        raise StateError(
            f"the key can't be saved in {path}: {error.strerror}.",
            hint="Make the directory writable, or set the key in the environment.",
        ) from None
