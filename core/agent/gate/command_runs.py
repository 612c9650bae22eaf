"""Runs of commands in one step: which of them run at the same time, and which run again with the network.

Reading calls, subagents, and commands that do not depend on each other run at the same time. Such a command is one that
nobody is asked about, that has a layer of its own, and that makes nothing another one may have to find. That does not
change what a command may do: every one runs in the box.

A run that was refused hosts can be repeated. The question comes while the effects of the run are held back; a yes drops
them, so the command starts again in the same directory, with the same variables, over the same files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.base.approvals import Approver
from core.agent.base.permissions import CallPermissions
from core.agent.gate.gated_call import CallStopped, GatedCall
from core.modes import Access, Mode
from core.permissions.approval import Approval
from core.permissions.shell_parser import split_command
from core.shell.check_detection import is_check
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

MAX_PARALLEL: Final = 4  # commands
_ALWAYS_PARALLEL: Final = frozenset({Access.READ, Access.SPAWN})
REFUSED: Final = "\n[One of the commands in this step needed the network: {}. Run it alone, so that the user is asked.]"
_READ_ONLY: Final = frozenset(
    (
        *("cat", "ls", "rg", "grep", "egrep", "fgrep", "head", "tail", "wc", "file", "stat", "tree", "du", "df"),
        *("diff", "cmp", "sort", "uniq", "cut", "tr", "nl", "od", "xxd", "which", "type", "pwd", "echo", "printf"),
        *("date", "true", "test", "basename", "dirname", "realpath", "readlink", "uname", "whoami", "jq", "column"),
        *("comm", "md5sum", "sha256sum"),
    )
)
_READ_ONLY_GIT: Final = frozenset(
    ("log", "show", "diff", "status", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "shortlog", "describe")
)
_FIND_ACTIONS: Final = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls")
MAX_RERUNS: Final = 3  # reruns of one command for further hosts
RUN_AGAIN: Final = "[Run again with network access to {}; changes of the first run were dropped.]\n"
MOVED: Final = "It was not run again: the mode, directory or environment changed while the user was asked."


def split_calls(
    access: Access | None, calls: list[GatedCall], permissions: CallPermissions
) -> Iterator[list[GatedCall]]:
    """Split consecutive calls of one access into groups whose calls run at the same time."""
    if access in _ALWAYS_PARALLEL:
        yield calls
        return
    for is_parallel, group in groupby(calls, key=lambda call: _is_independent(call, permissions)):
        run = list(group)
        size = MAX_PARALLEL if is_parallel else 1
        for index in range(0, len(run), size):
            together = run[index : index + size]
            for call in together:
                call.is_parallel = len(together) > 1
            yield together


def _is_independent(call: GatedCall, permissions: CallPermissions) -> bool:
    tool: object = call.tool
    if call.tool is None or not isinstance(tool, RunTerminalCmd) or tool.is_background or tool.required_permissions:
        return False
    if permissions.mode is Mode.DEBUG or not permissions.terminal.is_contained:
        return False
    is_parallel = is_independent(tool.command, permissions.settings.commands.checks)
    return is_parallel and permissions.decide(Access.EXEC, call.tool).choice == "allow"


def report_blocked_hosts(calls: Sequence[GatedCall], permissions: CallPermissions) -> None:
    """Add the hosts that were refused to the results of parallel commands: they can't be assigned to one of them."""
    if not calls[0].is_parallel or calls[0].access is not Access.EXEC:
        return
    if targets := permissions.network_grants.pop_refused():
        target_names = ", ".join(dict.fromkeys(map(str, targets)))
        permissions.record_refused(targets)
        for call in calls:
            call.text += REFUSED.format(target_names)


def is_independent(command: str, checks: Sequence[str] = ()) -> bool:
    """True if a command makes nothing that another one may have to find. `checks`: patterns of further checking
    commands, from the user's configuration."""
    parts = split_command(command)
    if not parts.is_certain or parts.writes:
        return False
    return all(_is_read_only(subcommand, checks) for subcommand in parts.commands)


def _is_read_only(command: str, checks: Sequence[str]) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if not words:
        return False
    if words[0] == "git":
        return (
            words[1:2] != [] and words[1] in _READ_ONLY_GIT and not any(word.startswith("--output") for word in words)
        )
    if words[0] == "find":
        return not any(word.startswith(_FIND_ACTIONS) for word in words)
    if words[0] == "sort" and any(word.startswith(("-o", "--output")) for word in words):
        return False
    return words[0] in _READ_ONLY or is_check(words, checks)


class NetworkRerun(Struct, eq=False):
    """The reruns of one call. `check_granted` raises `CallStopped` if the mode does not grant the call any more."""

    approver: Approver
    call: GatedCall
    check_granted: Callable[[GatedCall], None]
    reached: list[str] = field(default_factory=list)
    refusal: str | None = None

    async def should_run_again(self) -> bool:
        """Ask about hosts that were refused to the last run. Returns True if they are granted to the next one."""
        permissions, call = self.approver.permissions, self.call
        grants = permissions.network_grants
        targets = tuple(target for target in grants.pop_refused() if grants.can_be_asked(target.host))
        if not targets or self.refusal is not None or len(self.reached) >= MAX_RERUNS:
            return False
        before, target_names = self._build_approval(), ", ".join(map(str, targets))
        if not await self.approver.ask_for_network(call.request.id, call.subject, targets):
            self.refusal = f"It tried to reach {target_names}, which was not allowed."
            return False
        self.refusal = self._explain_change(before)
        if self.refusal is not None:
            return False
        hosts = (*call.weighed.hosts, *(target.host for target in targets))
        call.weighed = replace(call.weighed, hosts=hosts)
        call.approval = permissions.build_approval(call.subject, call.approval.permissions)
        self.reached.append(target_names)
        return True

    def _build_approval(self) -> Approval:
        return self.approver.permissions.build_approval(self.call.subject, self.call.approval.permissions)

    def _explain_change(self, before: Approval) -> str | None:
        """Explain why a yes no longer holds; None: only the network has changed since the user was asked."""
        try:
            self.check_granted(self.call)
        except CallStopped as stopped:
            return stopped.text
        return None if self._build_approval().has_same_ground(before) else MOVED

    def format_result(self, text: str) -> str:
        """Return the result of the last run, with notes about the runs before it."""
        if self.reached:
            text = RUN_AGAIN.format(", ".join(self.reached)) + text
        return text if self.refusal is None else f"{text}\n[{self.refusal}]"
