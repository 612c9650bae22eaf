"""What is told of a plan file that was written: the plan as it is now, and what of ours did not get into it."""

from __future__ import annotations

from collections.abc import Sequence

from core.plans.merging import Clash, Merged
from core.protocol.events import AnyEvent, Notice, PlanUpdated

SHOWN = 2_000  # characters of what was not taken; the conversation has it in full
NAMED = 8


def plan_events(merged: Merged) -> tuple[AnyEvent, ...]:
    """In the order in which they are to be emitted."""
    updated = PlanUpdated(plan=merged.plan)
    return (updated, clash_notice(merged.plan.path, merged.clashes)) if merged.clashes else (updated,)


def clash_notice(path: str, clashes: Sequence[Clash]) -> Notice:
    """The file won; what it won over is said in full, so that it can be put back."""
    told = "; ".join(f"{each.where}: {each.dropped}" for each in clashes[:NAMED])
    more = f" (and {len(clashes) - NAMED} more)" if len(clashes) > NAMED else ""
    return Notice(
        level="warning",
        message=f"{path} was changed outside at the same place; the file was left as it is there.",
        hint=f"Not taken: {told[:SHOWN]}{more}",
    )
