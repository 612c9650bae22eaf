"""Limits of a subagent: never more than the session that started it may do at that moment, and less than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from core.agent.turn.limits import TurnBudget
from core.modes import Access

# Plans are written by whoever started it, and it starts no others.
DEFAULT_ACCESSES: Final = frozenset(
    {Access.READ, Access.ASK, Access.TODO, Access.PROPOSE, Access.EXEC, Access.JOB, Access.NET}
)


class SubagentLimits(Struct, frozen=True, kw_only=True):
    """Accesses and budget of a subagent.

    `parent_grants`: what the session above grants now; `budget`: what all subagents of a turn use together.
    """

    parent_grants: Callable[[Access], bool]
    budget: TurnBudget
    requested: frozenset[Access] = DEFAULT_ACCESSES

    def is_allowed(self, access: Access) -> bool:
        """True if an access was requested and the session above grants it now."""
        return access in self.requested and self.parent_grants(access)
