"""Diagnostics of the agent's edits: in the result of an edit that causes an error, before the next step if they are
late, and once at the end of a turn that leaves errors behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from core.agent.base.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder
from core.lsp.diagnostics import format_diagnostics
from core.lsp.language_servers import LanguageServers
from core.prompts import render
from core.protocol.events import AnyEvent, Notice
from core.protocol.language import Diagnostic
from core.state.session import SessionState

EDIT_BUDGET: Final = 1.0  # seconds that an edit waits for its diagnostics
LATE_BUDGET: Final = 0.1  # seconds that an edit waits if those of the one before were late
TURN_BUDGET: Final = 3.0  # seconds that the end of a turn waits for diagnostics


class EditDiagnostics(Struct, eq=False):
    """The diagnostics of one turn."""

    _servers: LanguageServers
    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _has_edited: bool = False
    _is_late: bool = False
    _has_handed_back: bool = False

    async def describe_edit(self) -> str | None:
        """Return the new diagnostics for the result of an edit; None: none are known (yet)."""
        self._has_edited = True
        is_settled = await self._servers.settle(LATE_BUDGET if self._is_late else EDIT_BUDGET)
        self._is_late = not is_settled
        news = self._servers.take_new_diagnostics()
        names = ", ".join(self._servers.take_sources())
        if news:
            return "\n".join((f"New since this edit ({names}):", *format_diagnostics(news)))
        return f"{names}: nothing new." if names and is_settled else None

    def append_late(self) -> None:
        """Append a reminder with diagnostics that arrived after the result of the edit."""
        if self._has_edited and (news := self._servers.take_new_diagnostics()):
            append_reminder(self._emit, render("reminders/diagnostics_late", lines=_escape_lines(news)))

    async def should_continue(self) -> bool:
        """True if the turn continues with a reminder, since its edits leave errors behind. Once per turn."""
        if not self._has_edited or self._has_handed_back:
            return False
        await self._servers.settle(TURN_BUDGET)
        errors = self._servers.list_errors()
        if not errors:
            return False
        self._has_handed_back = True
        self._servers.take_new_diagnostics()
        append_reminder(self._emit, render("reminders/diagnostics_left", lines=_escape_lines(errors)))
        count = "1 new error" if len(errors) == 1 else f"{len(errors)} new errors"
        self._emit(Notice(level="info", message=f"The edits leave {count}; the agent is asked about them once."))
        return True


def _escape_lines(diagnostics: list[Diagnostic]) -> str:
    return escape_tags("\n".join(format_diagnostics(diagnostics)))
