"""The end of a turn in which something was debugged, and the beginning after a kill: no probe is left anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.agent.probe_check import take_out
from core.agent.probe_room import ProbeRoom
from core.protocol.events import Notice

if TYPE_CHECKING:
    from core.engine.runtime import SessionRuntime

NAMED = 8


def end_debugging(session: SessionRuntime, *, resumed: bool = False) -> None:
    """Take marks out of what is pending, and say where some are left. `resumed`: remove what a run left that was cut
    off with its engine. Raises `StateError`."""
    debug = session.state.debug
    if not debug.hypotheses and not debug.probed:
        return
    if resumed:
        ProbeRoom(session.id, session.directory.path, session.directory.cache).sweep()
    if left := take_out(session.shadow, debug.probed):
        named = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if len(left) > NAMED else "")
        session.emit(
            Notice(
                level="warning",
                message=f"Marks of probes are left in {named}.",
                hint="The program did not put them there: look at them, and take them out.",
            )
        )
