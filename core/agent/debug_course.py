"""Holds a Debug turn to its order: nothing is changed before a cause is confirmed, and no probe is left at the end."""

from __future__ import annotations

from core.agent.reminders import remind
from core.agent.session import SessionContext
from core.debug.marks import has_marks
from core.errors import ToolFailed
from core.modes import Access
from core.prompts import render
from core.protocol.events import Notice, ProbeRemoved

HELD_BACK = (
    "Not run: in debug mode nothing is changed before a cause is confirmed. Nothing was changed. Set hypotheses with "
    "hypotheses_set, gather evidence with probe_add and reproduce, and give a verdict with hypothesis_verdict; or "
    "propose agent mode with switch_mode, if this is not about finding a fault."
)


def held_back(session: SessionContext, access: Access | None) -> str:
    """Why an edit has to wait, "" = it has not."""
    is_edit = access is Access.PROPOSE and session.state.mode == "debug"
    return HELD_BACK if is_edit and not session.state.debug.is_confirmed else ""


def refuse_marks(data: bytes) -> None:
    """Raises `ToolFailed` for content with a probe's marks in it: probes are in no file."""
    if has_marks(data):
        raise ToolFailed(
            "This content holds the region marks of a probe; probes are in no file. Nothing was changed.",
            hint="Leave the marks out. In debug mode a probe is put in place with probe_add.",
        )


class DebugCourse:
    """That of one turn."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._urged = False

    def goes_on(self) -> bool:
        """After an answer without calls: whether the model was told to go on, because probes are left."""
        session = self._session
        probes = session.state.debug.probes
        if not probes:
            return False
        if not self._urged:
            self._urged = True
            remind(session, render("reminders/probes_left", probes=", ".join(probes)))
            return True
        count = "1 probe was" if len(probes) == 1 else f"{len(probes)} probes were"
        session.emit(ProbeRemoved(ids=tuple(probes), by="program"))
        session.emit(Notice(level="info", message=f"{count} left, and taken away at the end of the turn."))
        return False
