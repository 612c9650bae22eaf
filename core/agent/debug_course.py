"""Holds a Debug turn to its order: nothing is changed before a cause is confirmed, and no probe is left at the end."""

from __future__ import annotations

from collections.abc import Callable

from core.agent.debug_fix import judge_fix
from core.agent.reminders import remind
from core.agent.session import SessionContext
from core.debug.marks import has_marks
from core.errors import ToolFailed
from core.modes import Access
from core.prompts import render
from core.protocol.events import AnyEvent, Notice, ProbeRemoved
from core.protocol.review import Origin
from core.sessions.debugging import DebugState

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
        self._urged: set[str] = set()

    async def goes_on(self) -> bool:
        """After an answer without calls: whether the model was told to go on. Probes that are left are taken away when
        it was told so once; a fix is shown by a run, and judged by the user."""
        session, debug = self._session, self._session.state.debug
        if debug.probes and self._urge("probes_left", probes=", ".join(debug.probes)):
            return True
        if self._is_unshown and self._urge("fix_unshown", files=", ".join(debug.fixes)):
            return True
        judged = await judge_fix(session, Origin(turn=session.turn))
        if judged is not None and judged.outcome == "broken":
            remind(session, judged.told)
            return True
        drop_probes(debug, session.emit, "the turn ended")
        return False

    @property
    def _is_unshown(self) -> bool:
        """Whether there is a fix that no run has shown. Without a box a run does not see what is pending."""
        session, debug = self._session, self._session.state.debug
        can_be = session.contained and session.state.mode == "debug" and bool(debug.runs)
        return can_be and bool(debug.fixes) and not debug.shown_by

    def _urge(self, about: str, **told: str) -> bool:
        if about in self._urged:
            return False
        self._urged.add(about)
        remind(self._session, render(f"reminders/{about}", **told))
        return True


def drop_probes(debug: DebugState, emit: Callable[[AnyEvent], None], why: str) -> None:
    """Take away the probes that are in place, and say so."""
    if debug.probes:
        count = "1 probe was" if len(debug.probes) == 1 else f"{len(debug.probes)} probes were"
        emit(ProbeRemoved(ids=tuple(debug.probes), by="program"))
        emit(Notice(level="info", message=f"{count} taken away: {why}."))
