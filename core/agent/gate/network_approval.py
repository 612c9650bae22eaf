"""Network approval, asked for afterwards: the hosts that a command wanted, with what happened without them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.agent.gate.consent import ALLOWING_DECISIONS, build_approval
from core.agent.turn.turn_context import TurnContext
from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.events import ApprovalDecision, ApprovalRequested, Notice
from core.sandbox.network.addresses import HostAndPort

NETWORK_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_session", "allow_always", "reject_once")
MAX_RERUNS = 3  # times that a command is run again for hosts it had not wanted before


def take_refused_targets(session: TurnContext) -> tuple[HostAndPort, ...]:
    """Return the targets that the commands of this call were refused and could be granted."""
    return tuple(
        each for each in session.network_grants.take_refused() if session.network_grants.can_be_asked(each.host)
    )


def format_targets(targets: Sequence[HostAndPort]) -> str:
    return ", ".join(map(str, targets))


async def ask_for_network(session: TurnContext, call: str, command: str, targets: Sequence[HostAndPort]) -> bool:
    """Ask whether a command may reach hosts, and grant them. True: run it again."""
    hosts = tuple(dict.fromkeys(each.host for each in targets))
    approval = build_approval(session, command)
    why = "secrets were read and foreign data taken in during this turn" if session.network_grants.is_suspended else ""
    request = ApprovalRequested(
        id=new_id("apr"),
        call=call,
        kind="network",
        subject="\n".join(map(str, targets)),
        directory=approval.directory,
        reason=why,
        containment=f"wanted by: {command}",
        options=NETWORK_OPTIONS,
        network=hosts,
        mode=approval.mode,
        digest=approval.compute_digest(),
    )
    resolved = await session.approve(request)
    if resolved.decision not in ALLOWING_DECISIONS:
        return False
    session.network_grants.grant(hosts, for_session=resolved.decision == "allow_session")
    session.network_grants.grant(hosts, for_session=False)
    if resolved.decision == "allow_always":
        try:
            for host in hosts:
                await asyncio.to_thread(session.saved_rules.save, "allow", approval, rule=f"WebFetch({host})")
        except AgentTuiError as problem:
            session.emit(Notice(level="warning", message=f"Not kept: {problem.message}", hint=problem.hint))
    return True
