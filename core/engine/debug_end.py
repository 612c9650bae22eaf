"""The end of a turn in which something was debugged, and the beginning after a kill: no probe is left anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.agent.debug_course import drop_probes
from core.agent.probe_check import take_out
from core.agent.probe_room import LAYERS, ProbeRoom
from core.protocol.events import AnyEvent, ModeChanged, Notice, ProbesChecked, TurnFinished
from core.sessions.store import SessionDirectory, is_locked

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
    found = take_out(session.shadow, debug.probed, kept=debug.unchecked)
    if debug.unchecked or found.left:
        session.emit(ProbesChecked(files=found.files, left=found.left))
    if left := found.left:
        named = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if len(left) > NAMED else "")
        session.emit(
            Notice(
                level="warning",
                message=f"Marks of probes are left in {named}.",
                hint="The program did not put them there: look at them, and take them out.",
            )
        )


def sweep_killed(directory: SessionDirectory) -> None:
    """Remove what runs of other sessions of this workspace left whose engine was killed. They need not be resumed."""
    for layers in directory.path.parent.glob(f"*/{LAYERS}"):
        if layers.parent != directory.path and not is_locked(layers.parent):
            ProbeRoom(layers.parent.name, layers.parent, directory.cache).sweep()


def before_edge(session: SessionRuntime, event: AnyEvent) -> None:
    """Ahead of the end of a turn, or of Debug mode: probes that are in place are taken away, and that is said."""
    match event:
        case TurnFinished():
            drop_probes(session.state.debug, session.emit, "the turn ended")
        case ModeChanged() if event.mode != "debug":
            drop_probes(session.state.debug, session.emit, "Debug mode was left")
        case _:
            return
