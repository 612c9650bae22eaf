"""What waits for a review in other sessions of the project: it is out of sight, so opening a session says so."""

from __future__ import annotations

from collections.abc import Sequence

from core.protocol.queries import SessionInfo
from tui.text import one_line


def waits_elsewhere(sessions: Sequence[SessionInfo], current: str) -> str:
    """One sentence with the way there; "" = nothing waits. What is open in another window is seen there."""
    waiting = [each for each in sessions if each.pending and each.id != current and not each.locked]
    if not waiting:
        return ""
    count = sum(each.pending for each in waiting)
    files = "1 changed file waits" if count == 1 else f"{count} changed files wait"
    if len(waiting) > 1:
        return f"{files} for your review in {len(waiting)} other sessions: /sessions shows them."
    title = one_line(waiting[0].title, 40)
    return f"{files} for your review in {f'“{title}”' if title else 'another session'}: /resume {waiting[0].id}"
