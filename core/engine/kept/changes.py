"""Changes of sessions that are not open: a title, tags, and the end of one.

A session is not resumed for them: it stays where it is in a list by time, and nothing that it holds is touched.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from core.clock import now_ms
from core.errors import StateError
from core.filesystem.removal import remove_tree
from core.protocol.events import Envelope, SessionRenamed, SessionTagged
from core.protocol.queries import SessionInfo
from core.sessions.listing import build_summary, read_session_info, save_summary
from core.sessions.log import LogExtent, SessionLog, read_log
from core.sessions.store import SessionDirectory, SessionStore
from core.sessions.transcript_search import forget_transcript
from core.shadow.layers.layer_location import remove_location
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState

MAX_TITLE: Final = 120  # characters


def clean_title(title: str) -> str:
    """Return a title as it is kept: one line, not too long."""
    return " ".join(title.split())[:MAX_TITLE]


def record_change(store: SessionStore, session: str, event: SessionRenamed | SessionTagged) -> None:
    """Append an event to the log of a session that is open nowhere; it counts as used when it was before. Raises
    `StateError`: there is none, it is open, or its log is damaged."""
    directory = store.open(session)
    try:
        _append(directory, event)
    finally:
        directory.close()


def _append(directory: SessionDirectory, event: SessionRenamed | SessionTagged) -> None:
    state, extent = SessionState(session_id=directory.id), LogExtent()
    log = SessionLog(directory.log_path, extent)
    try:
        modification_time = directory.log_path.stat().st_mtime_ns
        read_log(directory.log_path, partial(apply_event, state, table=SHARED_STEPS), extent)
        if not extent.is_whole:
            raise StateError(
                f"the log of {directory.id} is damaged.",
                hint=f"Resume it first, which mends it: --resume {directory.id}",
            )
        envelope = Envelope(seq=state.seq + 1, session=directory.id, at=now_ms(), event=event)
        log.append(envelope)
        apply_event(state, envelope, SHARED_STEPS)
        save_summary(directory.path, build_summary(state, name=directory.id, size=log.extent.size))
        os.utime(directory.log_path, ns=(modification_time, modification_time))
    finally:
        log.close()


def delete_session(store: SessionStore, session: str, *, is_confirmed: bool = False) -> None:
    """Delete a session with all that is kept of it, its words in the search, too. Raises `StateError`: there is none,
    it is open, or something waits in it and that was not `is_confirmed`."""
    directory = store.open(session)  # the lock says that nobody works in it
    try:
        waiting = describe_waiting(read_session_info(directory.path))
        if waiting and not is_confirmed:
            raise StateError(
                f"{session} was not deleted: {waiting}.", hint="With --force it goes with it.", code="pending_waits"
            )
        for layers in directory.path.glob("**/layers"):
            remove_location(layers)
            remove_tree(layers)
        directory.discard()
    finally:
        directory.close()
    forget_transcript(store, session)


def describe_waiting(info: SessionInfo) -> str:
    """Return what waits for the user in a session, in words; "" = nothing."""
    edits, questions = ("edit waits", "edits wait"), ("question waits", "questions wait")
    counts = [(info.pending, edits, "in it for your review"), (info.asked, questions, "for an answer")]
    return " and ".join(f"{number} {words[number != 1]} {end}" for number, words, end in counts if number)
