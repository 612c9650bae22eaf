"""What a subagent may: never more than the session that it works for may itself at that moment, and less than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from core.agent.limits import Spent
from core.modes import Access

# Plans are written by whoever started it, and it starts no others.
REQUESTED: Final = frozenset(
    {Access.READ, Access.ASK, Access.TODO, Access.PROPOSE, Access.EXEC, Access.JOB, Access.NET}
)


class Leash(Struct, frozen=True, kw_only=True):
    """`parent` says what the session above may now; `spent` is what all subagents of a turn use together."""

    parent: Callable[[Access], bool]
    spent: Spent
    requested: frozenset[Access] = REQUESTED

    def allows(self, access: Access) -> bool:
        return access in self.requested and self.parent(access)
