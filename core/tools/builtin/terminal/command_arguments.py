"""Conversion of the command arguments of other agents' tools: argument lists, times in milliseconds, a working
directory, and requests to leave the sandbox.

A time after which a command continues in the background is no limit, and is dropped.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.errors import ToolInputInvalid
from core.permissions.shell_parser import split_command

LONGEST_SECONDS: Final = 600
JOB_NAMES: Final = dict.fromkeys(
    ("bash_id", "shell_id", "task_id", "session_id", "terminal_id", "job_id", "CommandId", "id"), "job"
)
_NUMBERED: Final = frozenset(("session_id", "terminal_id", "job_id"))  # The ids that may come as numbers.
_CERTAINLY_MS: Final = 10_000  # A time from here on must be in milliseconds.
_SHELLS: Final = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/zsh", "/bin/zsh")
_ESCALATIONS: Final[Mapping[str, object]] = {
    "dangerouslyDisableSandbox": True,
    "dangerously_disable_sandbox": True,
    "with_escalated_permissions": True,
    "sandbox_permissions": "require_escalated",
}
_PERMISSION_NAMES: Final = {"full_network": "network", "internet": "network", "git-write": "git_write"}
_BLOCKING: Final = "block_until_ms"  # 0 = in the background at once.
_WAITING: Final = ("wait", "waitForCompletion", "Blocking")  # False = in the background.
_RESTARTS: Final = ("restart", "reset")


def adapt_command(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command in the form of `run_terminal_cmd`. Raises `ToolInputInvalid`."""
    adapted_arguments = dict(arguments)
    values = [adapted_arguments.pop(name) for name in _RESTARTS if name in adapted_arguments]
    if True in values:
        command = adapted_arguments.get("command", adapted_arguments.pop("cmd", ""))
        adapted_arguments |= {"command": command or ":", "is_restart": True}
    values = [adapted_arguments.pop(name) for name in _WAITING if name in adapted_arguments]
    if False in values:
        adapted_arguments.setdefault("is_background", True)
    _join_words(adapted_arguments)
    _adapt_time(adapted_arguments)
    _adapt_permissions(adapted_arguments)
    _adapt_background(adapted_arguments)
    return adapted_arguments


def prefix_cd(directory: str, command: str) -> str:
    """Return a command that runs another one in a directory without changing the shell's own."""
    return f"(cd {shlex.quote(directory)} || exit\n{command}\n)"


def adapt_wait(arguments: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return the arguments of a look at a job, with its wait in seconds, at most `longest`."""
    adapted_arguments = {name: str(value) if name in _NUMBERED else value for name, value in arguments.items()}
    if adapted_arguments.pop("block", None) in {False, "false"}:
        adapted_arguments.pop("timeout", None)
    if isinstance(should_wait := adapted_arguments.get("wait"), bool):
        del adapted_arguments["wait"]
        seconds = adapted_arguments.pop("max_wait_seconds", longest)
        if should_wait and isinstance(seconds, int):
            adapted_arguments["wait"] = min(seconds, longest)
    for name in ("timeout", "yield_time_ms"):
        value = adapted_arguments.get(name)
        if isinstance(value, int) and (name != "timeout" or value > longest):
            adapted_arguments.pop(name)
            adapted_arguments["wait"] = min(-(-value // 1000), longest)
    return adapted_arguments


def _join_words(arguments: dict[str, Any]) -> None:
    """Join a command that came as a list of words, without the shell that it may name."""
    words = arguments.get("command")
    if not isinstance(words, Sequence) or isinstance(words, str) or not all(isinstance(word, str) for word in words):
        return
    is_script = len(words) == 3 and words[0] in _SHELLS and words[1] in {"-c", "-lc", "-cl"}
    arguments["command"] = words[2] if is_script else shlex.join(words)


def _adapt_time(arguments: dict[str, Any]) -> None:
    if arguments.pop(_BLOCKING, None) == 0:
        arguments.setdefault("is_background", True)
    value, is_ms = arguments.get("timeout"), False
    if "timeout_ms" in arguments and "timeout" not in arguments:
        value, is_ms = arguments.pop("timeout_ms"), True
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and (is_ms or value >= _CERTAINLY_MS):
        arguments["timeout"] = min(max(1, -(-value // 1000)), LONGEST_SECONDS)
    elif isinstance(value, int) and value > LONGEST_SECONDS:
        raise ToolInputInvalid(
            f"timeout is in seconds, at most {LONGEST_SECONDS}: {value} is more. Nothing was run.",
            hint="Run longer commands in the background (is_background).",
        )


def _adapt_permissions(arguments: dict[str, Any]) -> None:
    asks = [name for name, value in _ESCALATIONS.items() if name in arguments and arguments.pop(name) == value]
    permissions = arguments.get("required_permissions")
    if isinstance(permissions, str) and not permissions.lstrip().startswith("["):
        permissions = permissions.replace(",", " ").split()
    if isinstance(permissions, list):
        permissions = [
            _name_permission(permission) if isinstance(permission, str) else permission for permission in permissions
        ]
        arguments["required_permissions"] = permissions
    if asks and (permissions is None or isinstance(permissions, list)):
        arguments["required_permissions"] = [*(permissions or ()), "all"]


def _adapt_background(arguments: dict[str, Any]) -> None:
    """Make a command that ends in `&` a job, as that is what it means: in the box it would end with its shell."""
    command = arguments.get("command")
    if not isinstance(command, str) or "is_background" in arguments:
        return
    text = command.rstrip()
    stripped = text.removesuffix("&").rstrip()
    if text.endswith("&") and not text.endswith(("&&", "\\&")) and split_command(stripped).is_certain:
        arguments.update(command=stripped, is_background=True)


def _name_permission(word: str) -> str:
    name = word.strip()
    if name.startswith("127.0.0.1:"):
        name = f"localhost:{name.partition(':')[2]}"
    return _PERMISSION_NAMES.get(name, name)
