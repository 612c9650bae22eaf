"""A key that a command of the user's prints, such as `pass show openai`: it is run when the key is wanted.

It stands in the user's own configuration alone. It has no terminal and no input, so that a question of its can't mix
with the screen; what it prints is a secret from the first moment, and no error says it.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Final

from core.errors import ProviderError
from core.secrets import Secret, redact

SECONDS: Final = 15.0
_SHOWN: Final = 200
_found: dict[str, Secret] = {}
_running = threading.Lock()


def run_key_command(command: str, *, seconds: float | None = None) -> Secret:
    """The first line that a command prints, kept until `forget`. Blocks. Raises `ProviderError`, which says why."""
    with _running:
        if command not in _found:
            _found[command] = _run(command, SECONDS if seconds is None else seconds)
        return _found[command]


def forget_key(command: str) -> None:
    """Run the command again when the key is wanted next: what it printed is refused."""
    _found.pop(command, None)


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
        hint="Run it in a terminal of yours, or correct `key_command` in your configuration.",
    )
