"""The order of a Debug turn: nothing is changed before a cause is confirmed, and no probe is left at the end."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from core.agent.context.reminders import append_reminder
from core.agent.debug.fix_verdict import FixReview
from core.agent.gate.permissions import CallPermissions
from core.debug.probe_regions import has_regions
from core.errors import ToolFailed
from core.modes import Access
from core.prompts import render
from core.protocol.events import AnyEvent, Notice, ProbeRemoved
from core.protocol.review import Origin
from core.shell.command_host import CommandHost
from core.state.debugging import DebugState
from core.state.session import SessionState

EDIT_HELD_BACK = (
    "Not run: in debug mode nothing is changed before a cause is confirmed. Nothing was changed. Set hypotheses with "
    "hypotheses_set, gather evidence with probe_add and reproduce, and give a verdict with hypothesis_verdict; or "
    "propose agent mode with switch_mode, if this is not about finding a fault."
)


def explain_held_back(state: SessionState, access: Access | None) -> str:
    """Return why an edit has to wait; "" = it may be made."""
    is_edit = access is Access.PROPOSE and state.mode == "debug"
    return EDIT_HELD_BACK if is_edit and not state.debug.has_confirmed_cause else ""


def check_no_marks(data: bytes) -> None:
    """Raise `ToolFailed` for content with a probe's marks in it: probes are in no file."""
    if has_regions(data):
        raise ToolFailed(
            "This content holds the region marks of a probe; probes are in no file. Nothing was changed.",
            hint="Leave the marks out. In debug mode a probe is put in place with probe_add.",
        )


class DebugPolicy(Struct, eq=False):
    """The debugging policy of one turn."""

    _host: CommandHost
    _fix: FixReview
    _permissions: CallPermissions
    _turn_id: str
    _urged_topics: set[str] = field(default_factory=set)

    async def should_continue(self) -> bool:
        """True if the turn goes on: probes are left, a fix was not shown or did not help. The model is reminded."""
        debug, emit = self._host.state.debug, self._host.emit
        if debug.probes and self._urge_once("probes_left", probes=", ".join(debug.probes)):
            return True
        if self._is_fix_unshown and self._urge_once("fix_unshown", files=", ".join(debug.fixes)):
            return True
        verdict = await self._fix.ask_for_verdict(Origin(turn=self._turn_id))
        if verdict is not None and verdict.outcome == "broken":
            append_reminder(emit, verdict.message)
            return True
        remove_all_probes(debug, emit, "the turn ended")
        return False

    @property
    def _is_fix_unshown(self) -> bool:
        """True if there is a fix that no run has shown. Without a box a run does not see what is pending."""
        state, debug = self._host.state, self._host.state.debug
        can_be = self._permissions.terminal.is_contained and state.mode == "debug" and bool(debug.runs)
        return can_be and bool(debug.fixes) and not debug.fix_run

    def _urge_once(self, topic: str, **variables: str) -> bool:
        if topic in self._urged_topics:
            return False
        self._urged_topics.add(topic)
        append_reminder(self._host.emit, render(f"reminders/{topic}", **variables))
        return True


def remove_all_probes(debug: DebugState, emit: Callable[[AnyEvent], None], reason: str) -> None:
    """Remove the probes that are in place, and notify the user."""
    if debug.probes:
        count = "1 probe was" if len(debug.probes) == 1 else f"{len(debug.probes)} probes were"
        emit(ProbeRemoved(ids=tuple(debug.probes), by="program"))
        emit(Notice(level="info", message=f"{count} taken away: {reason}."))
