"""Permissions of a session's agent: what its mode grants, what rules and policy decide, and which paths are closed.

Decisions are taken for what holds at that moment, never for what held when the model made up its mind. The gate asks
about the files that a call names; everything that a tool opens comes past `PathGuard` as well, so a search never brings
out what a read would have had to ask for (SAFETY P20).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.agent.turn.budget import SubagentLimits
from core.config import Settings
from core.errors import PathRefused
from core.modes import Access, Mode, is_granted
from core.permissions.approval import Approval, hash_value
from core.permissions.policy import CommandTerms, PolicyDecision, decide_call, decide_path
from core.permissions.rules import PermissionRule
from core.permissions.saved_rules import SavedRules
from core.shell.network_grants import NetworkGrants
from core.shell.terminal import Terminal
from core.tools.base import Tool
from core.workspace import IgnoreRules
from core.workspace.secret_names import is_secret

UNTRUSTED = "The user has not said that they trust this project, and nothing holds what a command does."
PATH_ACCESSES = frozenset({Access.READ, Access.PROPOSE})


class PathGuard:
    """The guard of one call's paths. `approved`: those that the user said yes to."""

    def __init__(
        self,
        ignore: IgnoreRules,
        resolve_links: Callable[[str], str],
        rules: Sequence[PermissionRule],
        approved: Sequence[str] = (),
    ) -> None:
        self._ignore = ignore
        self._resolve_links = resolve_links
        self._rules = rules
        self._approved = frozenset(approved)

    def decide(self, access: Access, rel: str) -> PolicyDecision:
        """Return the stricter of the decisions on the path and on what its links lead to."""
        found = [
            decide_path(access, path, rules=self._rules, is_secret=is_secret(path, self._ignore.is_ignored))
            for path in dict.fromkeys((rel, self._resolve_links(rel)))
        ]
        return max(found, key=lambda each: ("allow", "ask", "deny").index(each.choice))

    def check(self, access: Access, rel: str) -> None:
        """Raise `PathRefused` for what is refused, or must be asked about and was not."""
        if rel in self._approved:
            return
        decided = self.decide(access, rel)
        if decided.choice == "deny":
            raise PathRefused(f"{rel!r} is kept from the agent. {decided.reason}", code="path_denied")
        if decided.choice == "ask":
            raise PathRefused(
                f"{rel!r} needs the user's yes. {decided.reason}",
                hint="Name exactly this file in a call of its own.",
                code="path_unasked",
            )


class CallPermissions:
    """The permissions of one session. `is_trusted`: the user trusts the project.

    `subagent_limits`: what a subagent may at most; None: it is the user's own session.
    """

    def __init__(
        self, terminal: Terminal, settings: Settings, saved_rules: SavedRules, network_grants: NetworkGrants
    ) -> None:
        self.settings = settings
        self.saved_rules = saved_rules
        self.network_grants = network_grants
        self.is_trusted = True
        self.subagent_limits: SubagentLimits | None = None
        self._terminal = terminal

    @property
    def mode(self) -> Mode:
        """The mode that holds now."""
        return Mode(self._terminal.host.state.mode)

    @property
    def is_contained(self) -> bool:
        """True if a command's effects can't reach the workspace. Not before `Terminal.find_box`."""
        return self._terminal.is_contained

    async def find_box(self) -> None:
        """Find the box, once: what a mode grants depends on whether commands are contained."""
        await self._terminal.find_box()

    def describe_box(self) -> str:
        """Describe for the user what holds a command's effects."""
        return self._terminal.host.box.describe()

    def is_granted(self, access: Access) -> bool:
        """True if the mode, and the limits of a subagent, grant an access now."""
        in_mode = is_granted(self.mode, access, is_contained=self.is_contained)
        return in_mode and (self.subagent_limits is None or self.subagent_limits.is_allowed(access))

    def load_rules(self) -> tuple[PermissionRule, ...]:
        """Return the rules that hold now: configured ones, and the patterns that the user saved."""
        return (*self.settings.permissions.parse_rules(), *self.saved_rules.parse_rules())

    def build_path_guard(self, approved: Sequence[str] = ()) -> PathGuard:
        """Build the guard of the session's paths; `approved`: those that the user said yes to."""
        shadow = self._terminal.host.shadow
        return PathGuard(shadow.ignore, shadow.merged_tree.resolve_links, self.load_rules(), approved)

    def build_approval(self, subject: str) -> Approval:
        """Build the approval that a command would need if it began now."""
        shell = self._terminal.shell
        names = sorted({*shell.variables, *shell.removed})
        values = {name: None if name in shell.removed else value for name, value in shell.variables.items()}
        return Approval(
            subject=subject,
            directory=shell.directory,
            environment=tuple(names),
            values=tuple(hash_value(values.get(name)) for name in names),
            tier=self._terminal.host.box.tier.value,
            mode=self.mode.value,
            network=self.network_grants.list_hosts(),
        )

    def decide(self, access: Access, tool: Tool[object], *, is_typed: bool = False) -> PolicyDecision:
        """Decide on a call by rules and policy, before anybody is asked. `is_typed`: the user typed this command."""
        if access in PATH_ACCESSES:
            return self._decide_on_paths(access, tool)
        subject, terms = tool.subject(), CommandTerms(is_contained=self.is_contained)
        if access is not Access.EXEC:
            return decide_call(access, subject, terms)
        if not self.is_trusted and not self.is_contained:
            return PolicyDecision(choice="deny", reason=UNTRUSTED)
        policy, tier = self.settings.commands.policy, self._terminal.host.box.tier
        terms = CommandTerms(
            is_contained=self.is_contained,
            is_manual=policy == "human" and not is_typed,
            is_unasked=policy == "auto" and tier.can_run_unasked,
            directory=self._terminal.shell.directory,
            saved_choice=self.saved_rules.find_choice(self.build_approval(subject)),
        )
        decided = decide_call(access, subject, terms, rules=self.load_rules())
        is_answered = is_typed and decided.choice == "ask"
        return PolicyDecision(choice="allow", reason="The user typed it.") if is_answered else decided

    def list_named_paths(self, tool: Tool[object]) -> tuple[str, ...]:
        """Return the workspace-relative files that a call names; the tool itself reports what is no path of it."""
        found = []
        for path in tool.paths():
            try:
                found.append(self._terminal.host.workspace.to_relative(path))
            except PathRefused:
                continue
        return tuple(found)

    def _decide_on_paths(self, access: Access, tool: Tool[object]) -> PolicyDecision:
        guard, asked = self.build_path_guard(), PolicyDecision(choice="allow")
        for path in self.list_named_paths(tool):
            try:
                decided = guard.decide(access, path)
            except PathRefused:
                continue
            if decided.choice == "deny":
                return PolicyDecision(choice="deny", reason=f"{path} is kept from the agent. {decided.reason}")
            asked = decided if decided.choice == "ask" else asked
        return asked

    def record_exposure(self, access: Access, tool: Tool[object] | None, turn_id: str) -> None:
        """Record, before a call runs, what it will show to the model: it counts for what may go out in this turn."""
        if access is Access.EXEC:
            self.network_grants.begin_turn(turn_id)
            self.network_grants.take_refused()
        elif access is Access.READ and tool is not None:
            ignored = self._terminal.host.shadow.ignore.is_ignored
            if any(is_secret(path, ignored) for path in self.list_named_paths(tool)):
                self.network_grants.begin_turn(turn_id)
                self.network_grants.record_secret_read()
