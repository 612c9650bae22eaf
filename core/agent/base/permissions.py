"""Permissions of a session's agent: what its mode grants, what rules and policy decide, and which paths are closed.

Decisions hold for the moment in which they are taken, not for the one in which the model chose its call. The gate asks
about the files that a call names; everything that a tool opens passes `PathGuard` as well, so a search never shows what
a read would have to ask for.

A command can request permissions. Those that the box contains need no question (`git_write`). Hosts that the command
names and services of the machine need the user's yes, for one command or for the session; `all` leaves the box (see
`approvals`). A command runs without permissions that are not granted, and the model gets a note with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Final

from msgspec import Struct

from core.agent.base.budget import SubagentLimits
from core.agent.base.prompt_tags import escape_tags
from core.config.settings import Settings, is_path_allowed, narrow_tool
from core.edit_formats import EDIT_TOOLS
from core.errors import PathRefused
from core.modes import Access, Mode, is_granted
from core.permissions.approval import Approval, find_named_hosts, hash_value, list_requested, list_services
from core.permissions.policy import (
    CommandTerms,
    ExternalTerms,
    PolicyDecision,
    decide_call,
    decide_external,
    decide_path,
)
from core.permissions.rules import PermissionRule
from core.permissions.saved_rules import SessionRules
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.prompts import render
from core.protocol.events import ForeignReceived, NetworkRefused
from core.protocol.tools import OTHER_TOOLS, ToolSettings
from core.sandbox.addresses import HostAndPort, is_public, parse_host_and_port, parse_ip_address
from core.sandbox.box import Tier
from core.shell.network_grants import NetworkGrants, explain_unreachable
from core.shell.terminal import Terminal
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd
from core.tools.external import ExternalTool, SearchTools
from core.workspace import IgnoreRules
from core.workspace.added_directories import AddedDirectories
from core.workspace.secret_files import is_secret

GIT_WRITE_REFUSED = "git_write was not granted: changes made by commands are not kept now."
NO_NETWORK = "network was not granted: commands have no network in {}."
NOT_FOR_JOBS = "{} was not granted: a background command needs the user to grant {} beforehand."
TOO_MANY = "{} was not granted: at most {} services can be requested at once."
MAX_SERVICES = 4  # the question names all of them
DENIED = "{} was not granted: one of the user's rules denies {}."
WANTS_TARGETS = "It asks to reach {} for this one command"
NO_JOBS = (
    "Background commands can't be sandboxed on this machine, so none is started. Run it in the foreground with a long "
    "enough timeout, or ask the user to start it."
)
UNTRUSTED = "The user has not trusted this project, and commands are not sandboxed here."
ALWAYS_GRANTED = frozenset({"call_tool", "finish", "search_tools"})
# Tools that are never offered, by the one whose settings and limits hold for them.
STANDS_FOR: Final = {"insert_lines": "search_replace", "undo_edit": "search_replace", "read_many_files": "read_file"}
PATH_ACCESSES = frozenset({Access.READ, Access.PROPOSE})


class ToolFamily(Struct, frozen=True, kw_only=True):
    """Tools that do the same, by several names. A request that names one of `heads` means all of it: what it allows
    holds for `members`, what it limits for `limited`, too. A tool that the request names itself has its own settings.
    """

    heads: frozenset[str]
    members: frozenset[str]
    limited: frozenset[str] = frozenset()
    label: str = ""


_EDITORS: Final = frozenset(tool.name for tool in EDIT_TOOLS)
FAMILIES: Final = (
    ToolFamily(
        heads=_EDITORS,
        members=_EDITORS | {"write", "edit_notebook"},
        limited=frozenset({"delete_file", "rename_symbol"}),
        label="every tool that edits or writes files",
    ),
    ToolFamily(
        heads=frozenset({"run_terminal_cmd"}),
        members=frozenset({"run_python", "run_code"}),
        limited=frozenset({"write_terminal"}),
        label="every tool that runs programs",
    ),
)


class WeighedRequest(Struct, frozen=True):
    """The part of a request that the box can grant. `hosts`, `services`: those that need the user's yes; `notes`: what
    is not granted, and why."""

    granted: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Return all hosts and services that need a yes."""
        return (*self.hosts, *self.services)


def weigh_request(tool: object, terminal: Terminal, grants: NetworkGrants) -> WeighedRequest:
    """Weigh the permissions that a command requests; other calls request none. Call `terminal.find_box` first."""
    if not isinstance(tool, RunTerminalCmd):
        return WeighedRequest()
    permissions, notes, services = list[str](), list[str](), list[str]()
    hosts: tuple[str, ...] = ()
    for permission in list_requested(tool.required_permissions):
        reason: str | None = None
        if permission == "all":
            continue
        if permission == "network":
            hosts, reason = _select_hosts(tool, terminal, grants)
        elif permission == "git_write":
            reason = None if terminal.keeps_effects() else GIT_WRITE_REFUSED
        elif terminal.is_contained and (reason := _explain_no_service(permission, tool, terminal, grants)) is None:
            services += [] if permission in grants.list_services() else [permission]
        notes += [] if reason is None else [reason]
        permissions += [permission] if reason is None or (hosts and permission == "network") else []
    return WeighedRequest(tuple(permissions), hosts, tuple(services), tuple(notes))


def _explain_no_service(service: str, tool: RunTerminalCmd, terminal: Terminal, grants: NetworkGrants) -> str | None:
    """Explain why a service can't be granted to a command in the box; None: it can be, or is granted already."""
    if not grants.can_service_be_asked(service):
        return DENIED.format(service, "it")
    if len(list_services(tool.required_permissions)) > MAX_SERVICES:
        return TOO_MANY.format(service, MAX_SERVICES)
    if (reason := explain_unreachable(service, terminal.host.box.tier, os.environ)) is not None:
        return reason
    is_late = tool.is_background and service not in grants.list_services()
    return NOT_FOR_JOBS.format(service, "it") if is_late else None


def _select_hosts(
    tool: RunTerminalCmd, terminal: Terminal, grants: NetworkGrants
) -> tuple[tuple[str, ...], str | None]:
    """Return the named hosts that need a yes, and the reason why the network is not granted; None: it is."""
    tier = terminal.host.box.tier
    if tier.has_open_network:
        return (), None
    if not tier.uses_proxy:
        return (), NO_NETWORK.format(f"this machine's sandbox ({tier.value})")
    hosts = [
        host for host in find_named_hosts(tool.command) if _is_outside(host, grants) and not grants.is_allowed(host)
    ]
    denied_hosts = [host for host in hosts if not grants.can_be_asked(host)]
    requested_hosts = tuple(host for host in hosts if host not in denied_hosts)
    if requested_hosts and tool.is_background:
        return (), NOT_FOR_JOBS.format("network", ", ".join(requested_hosts))
    return requested_hosts, DENIED.format("network", ", ".join(denied_hosts)) if denied_hosts else None


def _is_outside(host: str, grants: NetworkGrants) -> bool:
    """True for a host that the proxy could reach: a name, a public address, or a private one of the user's settings."""
    try:
        address = parse_ip_address(parse_host_and_port(host, 443).host)
    except ValueError:
        return False
    if address is not None:
        return is_public(address) or grants.is_private_host(host)
    return host != "localhost" and not host.endswith(".localhost")


class PathGuard(Struct, frozen=True):
    """The guard of one call's paths. `approved`: paths that the user approved; `allowed`: lists of patterns that limit
    the tool, of which a path has to match every one."""

    ignore: IgnoreRules
    resolve_links: Callable[[str], str]
    rules: Sequence[PermissionRule]
    approved: Sequence[str]
    allowed: Sequence[Sequence[str]] = ()

    def decide(self, access: Access, rel: str) -> PolicyDecision:
        """Return the stricter of the decisions on the path and on the target of its links."""
        paths = dict.fromkeys((rel, self.resolve_links(rel)))
        for path in paths:
            if not all(is_path_allowed(path, patterns) for patterns in self.allowed):
                return PolicyDecision(
                    choice="deny", reason="This tool is limited to other paths (allowed_paths, scope)."
                )
        decisions = [
            decide_path(access, path, rules=self.rules, is_secret=is_secret(path, self.ignore.is_ignored))
            for path in paths
        ]
        return max(decisions, key=lambda decision: ("allow", "ask", "deny").index(decision.choice))

    def decide_added(self, path: str, *, is_secret: bool) -> PolicyDecision:
        """Decide on reading a file outside the project, by its absolute path."""
        return decide_path(Access.READ, path, rules=self.rules, is_secret=is_secret)

    def check(self, access: Access, rel: str) -> None:
        """Raise `PathRefused` for a path that is denied, or that needs an approval it does not have."""
        if rel in self.approved and not self.allowed:
            return
        decision = self.decide(access, rel)
        if decision.choice == "deny":
            raise PathRefused(f"{rel!r} is off limits to the agent. {decision.reason}", code="path_denied")
        if decision.choice == "ask":
            raise PathRefused(
                f"{rel!r} needs the user's approval. {decision.reason}",
                hint="Name exactly this file in a separate call.",
                code="path_unasked",
            )


class CallPermissions(Struct):
    """The permissions of one session. `is_trusted`: the user trusts the project.

    `is_trusted_content`: checks the bytes of a file of a trusted project. `subagent_limits`: the limits of a subagent,
    None = the user's own session. The grants of a mode depend on whether commands are contained, which is known after
    `terminal.find_box`. `requested_tools`: tool settings of this turn's request. `added_directories`: directories
    outside the project that may be read.
    """

    terminal: Terminal
    settings: Settings
    rules: SessionRules
    network_grants: NetworkGrants
    is_trusted: bool = True
    is_trusted_content: TrustCheck = trust_everything
    subagent_limits: SubagentLimits | None = None
    requested_tools: Mapping[str, ToolSettings] = {}
    added_directories: AddedDirectories | None = None

    def __post_init__(self) -> None:
        self.network_grants.list_foreign = lambda: self.terminal.host.state.foreign_sources

    @property
    def rule_check(self) -> TrustCheck | None:
        """The check of the project's rule files, None = none of them is read."""
        return self.is_trusted_content if self.is_trusted else None

    @property
    def mode(self) -> Mode:
        """The mode that holds now."""
        return Mode(self.terminal.host.state.mode)

    def is_granted(self, access: Access) -> bool:
        """True if the mode, and the limits of a subagent, grant an access now."""
        in_mode = is_granted(self.mode, access, is_contained=self.terminal.is_contained)
        return in_mode and (self.subagent_limits is None or self.subagent_limits.is_allowed(access))

    def is_tool_granted(self, name: str) -> bool:
        """True if the limits of a subagent, if there are any, include a tool."""
        own_name = STANDS_FOR.get(name, name)
        return self.subagent_limits is None or self.subagent_limits.is_tool_allowed(own_name)

    def find_tool_settings(self, name: str) -> ToolSettings:
        """Return the present settings of a tool, by the configuration, the mode and the request."""
        name = STANDS_FOR.get(name, name)
        configured, requested = (self.settings.get_tool_settings(name, self.mode.value), self._find_requested(name))
        return configured if requested is None else narrow_tool(configured, requested)

    def _find_requested(self, name: str) -> ToolSettings | None:
        """Return the request's settings of a tool: its own, else those of its family, else those of "*"; None = it has
        none. "*" does not cover `ALWAYS_GRANTED`, without which no work can end."""
        if name in self.requested_tools:
            return self.requested_tools[name]
        others = None if name in ALWAYS_GRANTED else self.requested_tools.get(OTHER_TOOLS)
        for family in FAMILIES:
            named = [self.requested_tools[head] for head in sorted(family.heads & self.requested_tools.keys())]
            if named and name in family.members:
                return reduce(narrow_tool, named)
            if named and name in family.limited:
                return reduce(narrow_tool, named, others or ToolSettings())
        return others

    def explain_tool_refusal(self, name: str, access: Access) -> str | None:
        """Explain why the settings forbid every call of a tool; None: they do not."""
        name = STANDS_FOR.get(name, name)
        if not self.settings.get_tool_settings(name).enabled:
            return f"is turned off in the settings (tools.{name}.enabled)"
        limits = self.find_tool_settings(name)
        if not limits.enabled:
            return f"is turned off {'by the request' if self._find_requested(name) else f'in {self.mode} mode'}"
        if limits.is_narrowed and access not in PATH_ACCESSES:
            return "can't be limited to some paths of the project, as its settings require"
        return None

    async def describe_added(self) -> str:
        """Describe to the model the directories outside the project that it may read, "" = none."""
        if self.added_directories is None:
            return ""
        return escape_tags(render("added_directories", roots=self.added_directories.roots))

    async def describe_tool_limits(self) -> str:
        """Describe to the model the present limits of tools in its list, "" = none."""
        mode_tools = self.settings.get_mode_settings(self.mode).tools
        lines, names = [], sorted({*self.settings.tools, *mode_tools, *self.requested_tools} - {OTHER_TOOLS})
        if OTHER_TOOLS in self.requested_tools and not self.requested_tools[OTHER_TOOLS].enabled:
            lines.append("Only the tools named here are on; all others are off.")
            names = sorted({*names, *(name for name in self.requested_tools if name != OTHER_TOOLS)})
        for name in names:
            limits = self.find_tool_settings(name)
            families = (family.label for family in FAMILIES if name in family.heads & self.requested_tools.keys())
            label = f"`{name}`{''.join(f', and with it {family_label}' for family_label in families)}"
            if not limits.enabled:
                lines.append(f"{label}: off")
                continue
            if (narrowing := _describe_narrowing(limits)) or name in self.requested_tools:
                lines.append(f"{label}: {narrowing or 'on, as usual'}")
        return escape_tags("\n".join(lines))

    def describe_tool_narrowing(self, name: str) -> str:
        """Describe to the user the present limits of a tool that may be called, "" = none."""
        limits = self.find_tool_settings(name)
        approval_note = "the user is asked before each call" if limits.require_approval else ""
        return "; ".join(filter(None, (_describe_narrowing(limits), approval_note)))

    def build_path_guard(self, approved_paths: Sequence[str] = (), tool: str = "") -> PathGuard:
        """Build the guard of the session's paths. `approved_paths`: those that the user approved; `tool`: the name of
        the tool that uses them."""
        shadow = self.terminal.host.shadow
        return PathGuard(
            shadow.ignore, shadow.merged_tree.resolve_links, self.rules.load(), approved_paths, self._list_allowed(tool)
        )

    def _list_allowed(self, tool: str) -> tuple[tuple[str, ...], ...]:
        """List the patterns that limit a tool: a path has to match one of every tuple."""
        limits = self.find_tool_settings(tool)
        changed_paths = (tuple(self.terminal.host.shadow.state.changes),) if limits.scope == "changed" else ()
        return (*((limits.allowed_paths,) if limits.allowed_paths else ()), *changed_paths)

    def weigh_request(self, tool: object) -> WeighedRequest:
        """Weigh the permissions that a call requests, in the present state."""
        return weigh_request(tool, self.terminal, self.network_grants)

    def build_call_approval(self, tool: Tool[object]) -> Approval:
        """Build the approval of a command with the requested permissions that the box can grant."""
        weighed_request = self.weigh_request(tool)
        return self.build_approval(tool.subject(), weighed_request.granted, weighed_request.targets)

    def build_approval(self, subject: str, permissions: tuple[str, ...] = (), targets: Sequence[str] = ()) -> Approval:
        """Build the approval that a command would need if it started now. `targets`: hosts and services besides granted
        ones.

        With "all" it leaves the box, and gets no variables that commands have set.
        """
        if "all" in permissions:
            directory, mode = self.terminal.shell.directory, self.mode.value
            return Approval(
                subject=subject, directory=directory, tier=Tier.NONE.value, mode=mode, permissions=permissions
            )
        shell = self.terminal.shell
        names = sorted({*shell.variables, *shell.removed})
        values = {name: None if name in shell.removed else value for name, value in shell.variables.items()}
        return Approval(
            subject=subject,
            directory=shell.directory,
            environment=tuple(names),
            values=tuple(hash_value(values.get(name)) for name in names),
            tier=self.terminal.host.box.tier.value,
            mode=self.mode.value,
            network=tuple(sorted({*self.network_grants.list_hosts(), *self.network_grants.list_services(), *targets})),
            permissions=permissions,
        )

    def explain_unasked(self, command: str, directory: str) -> str | None:
        """Explain why a command of the program itself may not run without a question; None: it may."""
        if not self.is_trusted:
            return "the user has not trusted this project."
        terms = CommandTerms(
            is_contained=True, is_unasked=True, is_manual=self.settings.commands.policy == "human", directory=directory
        )
        decision = decide_call(Access.EXEC, command, terms, rules=self.rules.load())
        return None if decision.choice == "allow" else decision.reason or "the user wants to be asked about commands."

    def explain_denied_command(self, command: str) -> str | None:
        """Explain why a rule of the user denies a command that is not the agent's; None: none does."""
        terms = CommandTerms(is_contained=True, is_unasked=True)
        decision = decide_call(Access.EXEC, command, terms, rules=self.rules.load())
        return decision.reason if decision.choice == "deny" else None

    def decide(self, access: Access, tool: Tool[object], *, is_typed: bool = False) -> PolicyDecision:
        """Decide on a call by rules, policy and the settings of its tool. `is_typed`: the user typed this command."""
        decision = self._decide_by_rules(access, tool, is_typed=is_typed)
        is_asked = self.find_tool_settings(tool.name).require_approval and not is_typed
        if decision.choice == "allow" and is_asked:
            return PolicyDecision(choice="ask", reason=f"Your settings ask before every call of {tool.name}.")
        return decision

    def _decide_by_rules(self, access: Access, tool: Tool[object], *, is_typed: bool) -> PolicyDecision:
        generic_tool: object = tool
        if isinstance(generic_tool, ExternalTool):
            return self._decide_on_external(generic_tool)
        if isinstance(generic_tool, SearchTools):
            return PolicyDecision(choice="allow")
        is_job = isinstance(generic_tool, RunTerminalCmd) and generic_tool.is_background
        if is_job and self.terminal.host.box.tier is Tier.NONE:
            return PolicyDecision(choice="deny", reason=NO_JOBS)  # a question would be in vain
        if access not in PATH_ACCESSES:
            return self._decide_on_call(access, tool, is_typed=is_typed)
        guard, strictest_decision = self.build_path_guard(tool=tool.name), PolicyDecision(choice="allow")
        for path in self.list_named_paths(tool):
            try:
                decision = guard.decide(access, path)
            except PathRefused:
                continue
            if decision.choice == "deny":
                return PolicyDecision(choice="deny", reason=f"{path} is off limits to the agent. {decision.reason}")
            strictest_decision = decision if decision.choice == "ask" else strictest_decision
        return strictest_decision

    def _decide_on_external(self, tool: ExternalTool) -> PolicyDecision:
        host, grants = tool.host, self.network_grants
        if host and not grants.can_be_asked(host):
            return PolicyDecision(choice="deny", reason=f"A rule denies {host}.")
        is_held = not host and self.terminal.host.box.tier.can_run_unasked
        is_new = bool(host) and (grants.is_suspended or host not in self.terminal.host.state.foreign_sources)
        terms = ExternalTerms(
            keeps_effects=self.mode.rules.keeps_effects,
            is_reading=tool.is_reading,
            must_ask=tool.must_ask,
            is_unasked=is_held and self.settings.commands.policy == "auto",
            host=host,
            caution=grants.explain_caution() if is_new else None,
        )
        return decide_external(tool.target, terms, rules=self.rules.load())

    def _decide_on_call(self, access: Access, tool: Tool[object], *, is_typed: bool) -> PolicyDecision:
        subject, tier = tool.subject(), self.terminal.host.box.tier
        is_contained = tier.is_contained or tier.can_run_unasked
        if access is not Access.EXEC:
            return decide_call(access, subject, CommandTerms(is_contained=is_contained))
        if not self.is_trusted and not is_contained:
            return PolicyDecision(choice="deny", reason=UNTRUSTED)
        policy = self.settings.commands.policy
        terms = CommandTerms(
            is_contained=is_contained,
            is_manual=policy == "human" and not is_typed,
            is_unasked=policy == "auto" and tier.can_run_unasked,
            directory=self.terminal.shell.directory,
            saved_choice=self.rules.saved.find_choice(self.build_call_approval(tool)),
        )
        decision = decide_call(access, subject, terms, rules=self.rules.load())
        if is_typed and decision.choice == "ask":
            decision = PolicyDecision(choice="allow", reason="The user typed it.")
        targets = self.weigh_request(tool).targets
        caution = self.network_grants.explain_caution() if self.network_grants.needs_caution(targets) else None
        is_answered = terms.saved_choice == "allow" and caution is None
        if decision.choice == "allow" and targets and not is_answered:
            reason = WANTS_TARGETS.format(", ".join(targets))
            return PolicyDecision(choice="ask", reason=f"{reason}." if caution is None else f"{reason}; {caution}.")
        return decision

    def list_named_paths(self, tool: Tool[object]) -> tuple[str, ...]:
        """Return the workspace-relative paths that a call names. Paths outside are left out: the tool reports them."""
        relative_paths = []
        for path in tool.paths():
            with suppress(PathRefused):
                relative_paths.append(self.terminal.host.workspace.to_relative(path))
        return tuple(relative_paths)

    def decide_host(self, host: str, *, is_named: bool = False) -> PolicyDecision:
        """Decide on a host that the program is to reach for the agent. `is_named`: the user's configuration names it
        for that purpose."""
        grants = self.network_grants
        if not grants.can_be_asked(host):
            return PolicyDecision(choice="deny", reason=f"A rule denies {host}.")
        return PolicyDecision(
            choice="allow" if grants.is_allowed(host, is_named=is_named) else "ask",
            reason=grants.explain_caution() or "",
        )

    def record_foreign(self, sources: Iterable[str]) -> None:
        """Record the sources of foreign text that the model gets."""
        for source in sources:
            if source not in self.terminal.host.state.foreign_sources:
                self.terminal.host.emit(ForeignReceived(source=source))

    def record_refused(self, targets: Sequence[HostAndPort]) -> None:
        """Record hosts that were refused without a question, though no rule denies them."""
        if target_names := tuple(
            dict.fromkeys(str(target) for target in targets if self.network_grants.can_be_asked(target.host))
        ):
            self.terminal.host.emit(NetworkRefused(targets=target_names))

    def record_exposure(self, access: Access, tool: Tool[object] | None, turn_id: str) -> None:
        """Record, before a call runs, the secrets and foreign text that it exposes to the model.

        They make requests to the network in this turn suspicious."""
        if access is Access.EXEC:
            self.network_grants.begin_turn(turn_id)
            self.record_refused(self.network_grants.pop_refused())
        elif access is Access.READ and tool is not None:
            is_ignored = self.terminal.host.shadow.ignore.is_ignored
            if any(is_secret(path, is_ignored) for path in self.list_named_paths(tool)):
                self.network_grants.begin_turn(turn_id)
                self.network_grants.record_secret_read()
        elif access is Access.EXTERNAL and (source := getattr(tool, "source", "")):
            self.network_grants.begin_turn(turn_id)
            self.network_grants.record_received()
            self.record_foreign((source,))


def _describe_narrowing(limits: ToolSettings) -> str:
    parts = [f"only in {', '.join(limits.allowed_paths)}"] if limits.allowed_paths else []
    parts += ["only files with pending changes"] if limits.scope == "changed" else []
    return "; ".join(parts)
