"""The question about the network, which comes afterwards: what a command wanted, with what happened without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.agent.consent import ALLOWING, approval_of
from core.agent.session import SessionContext
from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.events import ApprovalRequested, Decision, Notice
from core.sandbox.addresses import Target

OPTIONS: tuple[Decision, ...] = ("allow_once", "allow_session", "allow_always", "reject_once")
AGAIN = 3  # times that a command is run again for hosts it had not wanted before


def refused_hosts(session: SessionContext) -> tuple[Target, ...]:
    """What the commands of this call were refused and could be granted."""
    return tuple(each for each in session.way_out.take_refused() if session.way_out.may_be_asked(each.host))


def told(targets: Sequence[Target]) -> str:
    return ", ".join(map(str, targets))


async def ask_for(session: SessionContext, call: str, command: str, targets: Sequence[Target]) -> bool:
    """Ask whether a command may reach hosts, and grant them. True: it is to be run again."""
    hosts = tuple(dict.fromkeys(each.host for each in targets))
    approval = approval_of(session, command)
    why = "secrets were read and foreign data taken in during this turn" if session.way_out.suspended else ""
    request = ApprovalRequested(
        id=new_id("apr"),
        call=call,
        kind="network",
        subject="\n".join(map(str, targets)),
        directory=approval.directory,
        reason=why,
        containment=f"wanted by: {command}",
        options=OPTIONS,
        network=hosts,
        mode=approval.mode,
        digest=approval.digest(),
    )
    resolved = await session.approve(request)
    if resolved.decision not in ALLOWING:
        return False
    session.way_out.grant(hosts, for_session=resolved.decision == "allow_session")
    session.way_out.grant(hosts, for_session=False)
    if resolved.decision == "allow_always":
        try:
            for host in hosts:
                await asyncio.to_thread(session.remembered.keep, "allow", approval, rule=f"WebFetch({host})")
        except AgentTuiError as problem:
            session.emit(Notice(level="warning", message=f"Not kept: {problem.message}", hint=problem.hint))
    return True
