"""The notice of changes that wait for a review in other sessions of the project, shown when a session is opened."""

from __future__ import annotations

from collections.abc import Sequence

from core.protocol.queries import SessionInfo
from tui.text import fit_line


def format_pending_notice(sessions: Sequence[SessionInfo], current: str) -> str:
    """Format one sentence that says where to look; "" = nothing waits. Sessions open in another window are left
    out."""
    waiting = [each for each in sessions if each.pending and each.id != current and not each.locked]
    if not waiting:
        return ""
    count = sum(each.pending for each in waiting)
    files = "1 changed file waits" if count == 1 else f"{count} changed files wait"
    if len(waiting) > 1:
        return f"{files} for your review in {len(waiting)} other sessions: /sessions shows them."
    title = fit_line(waiting[0].title, 40)
    return f"{files} for your review in {f'“{title}”' if title else 'another session'}: /resume {waiting[0].id}"
