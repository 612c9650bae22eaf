"""Builds the stages of a turn from its context; every stage gets the parts that it needs."""

from __future__ import annotations

from core.agent.base.approvals import Approver
from core.agent.base.name_lookup import open_lookup
from core.agent.context.turn_context import TurnContext
from core.agent.gate.capabilities import CapabilityFactory
from core.agent.turn.compaction import Compactor
from core.tools.base import EditRequest


def build_capabilities(context: TurnContext) -> CapabilityFactory:
    """Build the factory of capabilities for this turn's calls."""

    async def apply_edit(request: EditRequest) -> str:
        # Only edits that rules can't place need this module, so it is not imported at the start.
        from core.agent.gate.edit_agent import resolve_edit

        return await resolve_edit(context.build_side_requests(), request)

    return CapabilityFactory(
        approver=Approver(context.user, context.permissions, context.emit, context.hooks),
        python=context.python,
        plans=context.plans,
        digests=context.memory.read_digests,
        apply_edit=apply_edit,
        names=open_lookup(context.languages),
        search=context.search,
        outward=context.outward,
    )


def build_compactor(context: TurnContext) -> Compactor:
    """Build the compactor of the session's history."""
    side = context.build_side_requests()
    return Compactor(context.state, context.memory, side, context.emit, context.window, context.hooks)
