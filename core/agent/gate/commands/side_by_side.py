"""Calls of one step that run at the same time: what reads, subagents, and commands that do not depend on each other.

A command runs beside others where nobody is asked about it, it has a layer of its own, and it makes nothing that
another one may be meant to find. That says nothing about what a command may do: each runs in the box.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from core.agent.gate.gated_call import GatedCall
from core.agent.gate.permissions import CallPermissions
from core.modes import Access, Mode
from core.permissions.shell_parser import split_command
from core.shell.check_detection import is_check
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

MOST_AT_ONCE: Final = 4  # commands
_ALWAYS: Final = frozenset({Access.READ, Access.SPAWN})
REFUSED: Final = "\n[One of the commands of this step wanted the network: {}. Run it alone, so that the user is asked.]"


_LOOKING: Final = frozenset(
    (
        *("cat", "ls", "rg", "grep", "egrep", "fgrep", "head", "tail", "wc", "file", "stat", "tree", "du", "df"),
        *("diff", "cmp", "sort", "uniq", "cut", "tr", "nl", "od", "xxd", "which", "type", "pwd", "echo", "printf"),
        *("date", "true", "test", "basename", "dirname", "realpath", "readlink", "uname", "whoami", "jq", "column"),
        *("comm", "md5sum", "sha256sum"),
    )
)
_GIT_LOOKING: Final = frozenset(
    ("log", "show", "diff", "status", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "shortlog", "describe")
)
_FIND_ACTS: Final = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls")


def split_calls(
    access: Access | None, calls: list[GatedCall], permissions: CallPermissions
) -> Iterator[list[GatedCall]]:
    """Split neighbours of one access into those that run at the same time, group after group."""
    if access in _ALWAYS:
        yield calls
        return
    for is_free, group in groupby(calls, key=lambda call: _is_independent(call, permissions)):
        run = list(group)
        size = MOST_AT_ONCE if is_free else 1
        for index in range(0, len(run), size):
            together = run[index : index + size]
            for call in together:
                call.is_beside_others = len(together) > 1
            yield together


def _is_independent(call: GatedCall, permissions: CallPermissions) -> bool:
    tool: object = call.tool
    if call.tool is None or not isinstance(tool, RunTerminalCmd) or tool.is_background or tool.required_permissions:
        return False
    if permissions.mode is Mode.DEBUG or not permissions.terminal.is_contained:
        return False
    is_free = is_independent(tool.command, permissions.settings.commands.checks)
    return is_free and permissions.decide(Access.EXEC, call.tool).choice == "allow"


def tell_refused(calls: Sequence[GatedCall], permissions: CallPermissions) -> None:
    """Tell commands that ran at the same time of the network that was refused: nobody knows to which of them."""
    if not calls[0].is_beside_others or calls[0].access is not Access.EXEC:
        return
    if targets := permissions.network_grants.pop_refused():
        target_names = ", ".join(dict.fromkeys(map(str, targets)))
        permissions.record_refused(targets)
        for call in calls:
            call.text += REFUSED.format(target_names)


def is_independent(command: str, checks: Sequence[str] = ()) -> bool:
    """Return True if a command makes nothing that another one would be meant to find. `checks`: more patterns of
    commands that check, from the user's configuration."""
    parts = split_command(command)
    if not parts.is_certain or parts.writes:
        return False
    return all(_is_known(subcommand, checks) for subcommand in parts.commands)


def _is_known(command: str, checks: Sequence[str]) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if not words:
        return False
    if words[0] == "git":
        return words[1:2] != [] and words[1] in _GIT_LOOKING and not any(word.startswith("--output") for word in words)
    if words[0] == "find":
        return not any(word.startswith(_FIND_ACTS) for word in words)
    if words[0] == "sort" and any(word.startswith(("-o", "--output")) for word in words):
        return False
    return words[0] in _LOOKING or is_check(words, checks)
