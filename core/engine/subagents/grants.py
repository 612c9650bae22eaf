"""The grants of a subagent: those that its parent has at that moment, and less."""

from __future__ import annotations

from typing import Final

from core.agent.context.turn_context import TurnContext
from core.agent.debug.debug_policy import explain_blocked_edit
from core.modes import Access

_RUNNING: Final = frozenset({Access.EXEC, Access.JOB, Access.EXTERNAL})


def is_granted_below(context: TurnContext, access: Access, *, keeps_effects: bool = True) -> bool:
    """Return True if the session of `context` itself may do this now. `keeps_effects`: what commands and servers of the
    subagent leave is kept, so they run only where its parent's would be kept, too."""
    if not context.permissions.is_granted(access) or explain_blocked_edit(context.state, access):
        return False
    terminal = context.terminal
    if not keeps_effects or access not in _RUNNING or terminal.keeps_effects():
        return True
    return not terminal.is_contained and access is not Access.EXTERNAL  # no box: each command is asked about
