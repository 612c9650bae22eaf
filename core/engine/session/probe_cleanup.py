"""Remove debug probes at the end of a turn, at the end of Debug mode, and after a kill."""

from __future__ import annotations

from core.agent.debug.debug_policy import remove_marks
from core.engine.session.session import Session
from core.protocol.events import Notice, ProbesChecked
from core.sessions.store import SessionDirectory, is_locked
from core.shadow.paths import format_paths
from core.shell.probe_overlay import LAYERS_FOLDER, ProbeOverlay

MAX_NAMED = 8


def remove_probes(session: Session, *, is_resumed: bool = False) -> None:
    """Remove probe regions from pending changes and report those that are left. Raises `StateError`. `is_resumed`: also
    remove what a debug run left that was cut off with its engine."""
    debug = session.state.debug
    if not debug.hypotheses and not debug.probed_paths:
        return
    if is_resumed:
        ProbeOverlay(session.id, session.directory.path, session.directory.cache_path).remove_leftovers()
    leftover_marks = remove_marks(session.shadow, debug.probed_paths, includes_ignored=debug.needs_probe_check)
    if debug.needs_probe_check or leftover_marks.paths:
        session.emit(ProbesChecked(files=leftover_marks.file_count, left=leftover_marks.paths))
    if paths := leftover_marks.paths:
        message = f"Marks of probes are left in {format_paths(paths, MAX_NAMED)}."
        hint = "The program did not put them there: look at them, and take them out."
        session.emit(Notice(level="warning", message=message, hint=hint))


def prune_killed_runs(directory: SessionDirectory) -> None:
    """Remove the debug runs that killed engines left in other sessions of this workspace."""
    for layers in directory.path.parent.glob(f"*/{LAYERS_FOLDER}"):
        if layers.parent != directory.path and not is_locked(layers.parent):
            ProbeOverlay(layers.parent.name, layers.parent, directory.cache_path).remove_leftovers()
