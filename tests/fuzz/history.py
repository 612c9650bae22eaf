"""How a user shortens what the model is sent: compacting it, or leaving the largest part out that can be."""

from __future__ import annotations

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol.queries import ContextAnswer, ContextQuery


async def choose_shortening(engine: Engine, session: str, what: str) -> cmd.AnyCommand | None:
    """The command for it; None: a turn runs, or there is nothing to leave out."""
    if engine._find_session(session).turn_slot.is_running:
        return None
    if what == "compact":
        return cmd.ContextCompact(session=session)
    report = await engine.query(ContextQuery(session=session))
    assert isinstance(report, ContextAnswer)
    parts = [part for part in report.parts if part.id and not part.problem]
    return (
        cmd.ContextDrop(session=session, part=max(parts, key=lambda context_part: context_part.tokens).id)
        if parts
        else None
    )
