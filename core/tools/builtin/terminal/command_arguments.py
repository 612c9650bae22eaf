"""A command as other agents' tools take it, in the arguments of this one: words in a list, times in milliseconds, a
directory of its own, and what asks for a way out of the sandbox.

A time after which a command goes on in the background is no limit of its own, and is left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.errors import ToolInputInvalid

LONGEST_SECONDS: Final = 600
JOB_NAMES: Final = dict.fromkeys(("bash_id", "shell_id", "task_id", "session_id", "id"), "job")
_CERTAINLY_MS: Final = 10_000  # from here on a time can't be meant in seconds
_SHELLS: Final = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/zsh", "/bin/zsh")
_ESCALATIONS: Final[Mapping[str, object]] = {
    "dangerouslyDisableSandbox": True,
    "dangerously_disable_sandbox": True,
    "with_escalated_permissions": True,
    "sandbox_permissions": "require_escalated",
}
_PERMISSION_NAMES: Final = {"full_network": "network", "internet": "network", "git-write": "git_write"}
_BLOCKING: Final = "block_until_ms"  # 0: in the background at once


def adapt_command(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command in the words of `run_terminal_cmd`. Raises `ToolInputInvalid`."""
    found = dict(given)
    _join_words(found)
    _adapt_time(found)
    _adapt_permissions(found)
    return found


def go_to(directory: str, command: str) -> str:
    """Return a command that runs another one in a directory, and leaves the shell where it is."""
    return f"(cd {shlex.quote(directory)} || exit\n{command}\n)"


def adapt_wait(given: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return the arguments of a look at a job: how long it is waited for in seconds, `longest` at most."""
    found = {name: str(value) if name == "session_id" else value for name, value in given.items()}
    if found.pop("block", None) in {False, "false"}:
        found.pop("timeout", None)
    for name in ("timeout", "yield_time_ms"):
        value = found.get(name)
        if isinstance(value, int) and (name != "timeout" or value > longest):
            found.pop(name)
            found["wait"] = min(-(-value // 1000), longest)
    return found


def _join_words(found: dict[str, Any]) -> None:
    """Make one text of a command that came as its words; the shell that it names itself is left out."""
    words = found.get("command")
    if not isinstance(words, Sequence) or isinstance(words, str) or not all(isinstance(each, str) for each in words):
        return
    is_script = len(words) == 3 and words[0] in _SHELLS and words[1] in {"-c", "-lc", "-cl"}
    found["command"] = words[2] if is_script else shlex.join(words)


def _adapt_time(found: dict[str, Any]) -> None:
    if found.pop(_BLOCKING, None) == 0:
        found.setdefault("is_background", True)
    value, is_ms = found.get("timeout"), False
    if "timeout_ms" in found and "timeout" not in found:
        value, is_ms = found.pop("timeout_ms"), True
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and (is_ms or value >= _CERTAINLY_MS):
        found["timeout"] = min(max(1, -(-value // 1000)), LONGEST_SECONDS)
    elif isinstance(value, int) and value > LONGEST_SECONDS:
        raise ToolInputInvalid(
            f"timeout is in seconds, at most {LONGEST_SECONDS}: {value} is more. Nothing was run.",
            hint="What takes longer goes on in the background (is_background).",
        )


def _adapt_permissions(found: dict[str, Any]) -> None:
    asks = [name for name, value in _ESCALATIONS.items() if name in found and found.pop(name) == value]
    wanted = found.get("required_permissions")
    if isinstance(wanted, str) and not wanted.lstrip().startswith("["):
        wanted = wanted.replace(",", " ").split()
    if isinstance(wanted, list):
        wanted = [_name_permission(each) if isinstance(each, str) else each for each in wanted]
        found["required_permissions"] = wanted
    if asks and (wanted is None or isinstance(wanted, list)):
        found["required_permissions"] = [*(wanted or ()), "all"]


def _name_permission(word: str) -> str:
    own = word.strip()
    if own.startswith("127.0.0.1:"):
        own = f"localhost:{own.partition(':')[2]}"
    return _PERMISSION_NAMES.get(own, own)
