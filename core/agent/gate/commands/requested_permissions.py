"""Weighs what a command asks for beside running: what the box gives it, what needs the user's yes, what it can't have.

What the box holds needs no question (`git_write`). Hosts that the command names, and services of the machine, need the
user's yes, for the one command or for the session; `all` is no matter of the box (`machine_approval.py`). What is not
granted does not keep the command from running: the model is told, and why.
"""

from __future__ import annotations

import os

from msgspec import Struct

from core.permissions.approval import find_named_hosts, list_requested, list_services
from core.sandbox.addresses import is_public, parse_host_and_port, parse_ip_address
from core.sandbox.box import Tier
from core.shell.network_grants import NetworkGrants, explain_unreachable
from core.shell.terminal import Terminal
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

NOT_KEPT = "git_write was not granted: nothing that a command changes is kept now."
NO_NETWORK = "network was not granted: {} has no network for commands."
NOT_FOR_JOBS = "{} was not granted: for a command in the background the user grants {} beforehand."
TOO_MANY = "{} was not granted: at most {} services can be asked for at once."
MAX_SERVICES = 4  # what is asked about stands whole in the question
DENIED = "{} was not granted: a rule of the user refuses {}."


class WeighedRequest(Struct, frozen=True):
    """The part of a request that the box can grant. `hosts`, `services`: those that need a yes; `notes`: what was not
    granted."""

    granted: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Return everything that needs a yes."""
        return (*self.hosts, *self.services)


def weigh_request(tool: object, terminal: Terminal, grants: NetworkGrants) -> WeighedRequest:
    """Weigh what a call asks for; nothing for a call that is no command. Call `terminal.find_box` first."""
    if not isinstance(tool, RunTerminalCmd):
        return WeighedRequest()
    permissions, notes, services = list[str](), list[str](), list[str]()
    hosts: tuple[str, ...] = ()
    for permission in list_requested(tool.required_permissions):
        reason = ""
        if permission == "all":
            continue
        if permission == "network":
            hosts, reason = _select_hosts(tool, terminal, grants)
        elif permission == "git_write":
            reason = "" if terminal.keeps_effects() else NOT_KEPT
        elif terminal.is_contained and (reason := _explain_no_service(permission, tool, terminal, grants)) == "":
            services += [] if permission in grants.list_services() else [permission]
        notes += [reason] if reason else []
        permissions += [permission] if not reason or (hosts and permission == "network") else []
    return WeighedRequest(tuple(permissions), hosts, tuple(services), tuple(notes))


def _explain_no_service(service: str, tool: RunTerminalCmd, terminal: Terminal, grants: NetworkGrants) -> str:
    """Explain why a service can't be granted to a command in the box; "" = it can, or is."""
    if not grants.can_service_be_asked(service):
        return DENIED.format(service, "it")
    if len(list_services(tool.required_permissions)) > MAX_SERVICES:
        return TOO_MANY.format(service, MAX_SERVICES)
    if reason := explain_unreachable(service, terminal.host.box.tier, os.environ):
        return reason
    if tool.is_background and service not in grants.list_services():
        return NOT_FOR_JOBS.format(service, "it")
    return ""


def _select_hosts(tool: RunTerminalCmd, terminal: Terminal, grants: NetworkGrants) -> tuple[tuple[str, ...], str]:
    """Return the named hosts that need a yes, and why the network is not granted, "" = it is."""
    tier = terminal.host.box.tier
    if tier is Tier.NONE:
        return (), ""
    if tier is not Tier.NAMESPACES:
        return (), NO_NETWORK.format(f"the box of this machine ({tier.value})")
    hosts = [host for host in find_named_hosts(tool.command) if _is_outside(host) and not grants.is_allowed(host)]
    denied_hosts = [host for host in hosts if not grants.can_be_asked(host)]
    requested_hosts = tuple(host for host in hosts if host not in denied_hosts)
    if requested_hosts and tool.is_background:
        return (), NOT_FOR_JOBS.format("network", ", ".join(requested_hosts))
    return requested_hosts, DENIED.format("network", ", ".join(denied_hosts)) if denied_hosts else ""


def _is_outside(host: str) -> bool:
    """True for a host that the proxy could reach: a name, or a public address."""
    try:
        address = parse_ip_address(parse_host_and_port(host, 443).host)
    except ValueError:
        return False
    if address is not None:
        return is_public(address)
    return host != "localhost" and not host.endswith(".localhost")
